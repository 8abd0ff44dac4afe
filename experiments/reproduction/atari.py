"""Section 4.3 and Appendices D, E: Rainbow on Atari (Figures 13 and 15)."""

from experiments.reproduction import costs, rules
from experiments.reproduction.entry import (
    Entry,
    Find,
    Finding,
    Verdict,
    never,
    not_run,
    tested,
    too_long,
)
from experiments.reproduction.results import Results, seeds_and_frames

TABLE = "results/atari/table.csv"
GAMES = {
    "montezuma_revenge": "Montezuma's Revenge",
    "beam_rider": "Beam Rider",
    "asterix": "Asterix",
    "seaquest": "Seaquest",
}
"""Those of the paper's six games that its text names; the other two are in a picture only."""


OTHERS = "Rainbow", "Rainbow + SE w/ Contrastive"
"""What RE3 is compared with."""


def _game(game: str) -> Find:
    """Compares Rainbow with and without RE3, as far as runs are committed."""

    def find(results: Results) -> Finding:
        labels = "Rainbow + RE3", "Rainbow"
        rows = [results.row(TABLE, game=game, label=label) for label in labels]
        found = [row for row in rows if row]
        if len(found) < len(rows):
            return not_run(costs.rainbow(results))
        ours, theirs = found
        seeds = min(int(row["seeds"]) for row in found)
        words = f"{ours['final_return_mean']} with RE3, {theirs['final_return_mean']} without"
        compared = rules.by_column(ours, theirs, "larger_area_than_none")
        verdict, reason = Verdict.NOT_REPRODUCED, rules.too_few(seeds)
        if compared:
            judged = rules.better([compared], 1, Verdict.SMALLER)
            others = [name for name in OTHERS if not results.row(TABLE, game=game, label=name)]
            verdict, reason = rules.all_ran(judged, others)
            words += rules.in_words(compared, "a larger area")
        ran = f"`data_efficient`, {seeds_and_frames(ours)}"
        size = f"PRESET=data_efficient SEEDS={seeds} STEPS={ours['env_frames']}"
        commands = _command(game, size), _command(game, f"BONUS=none {size}")
        return Finding(verdict, words, ran, reason, "; ".join(commands))

    return find


def _command(game: str, more: str = "PRESET=paper") -> str:
    return f"make run ENV={game} {more}"


def _entry(item: str, game: str) -> Entry:
    statement = f"RE3 is more sample-efficient than {' and '.join(OTHERS)}: {GAMES[game]}."
    return Entry(item, statement, _command(game), _game(game))


MAIN = (
    _entry("Figure 13 (a)", "montezuma_revenge"),
    _entry("Figure 13 (b)", "beam_rider"),
    Entry(
        "Figure 13 (c)",
        "Human-normalised score, averaged over six games.",
        _command("asterix"),
        never("needs all six games with three seeds each; two of them are not named in the text"),
    ),
)

MORE_GAMES = (
    _entry("Figure 15", "asterix"),
    _entry("Figure 15", "seaquest"),
    Entry(
        "Figure 15",
        "Two games that are named in the picture only.",
        "",
        never("the games are not in the text"),
    ),
)

DETAILS = (
    Entry(
        "Appendix D",
        "beta of RE3: 0.01 for Asterix and Beam Rider, 0.001 for Seaquest, 0.0001 otherwise; of "
        "contrastive learning 0.001 for Seaquest, 0.0001 otherwise; latents of 150 numbers for "
        "Montezuma's Revenge, 50 otherwise.",
        "",
        tested("the presets have these values", "tests/cli/test_atari.py::test_the_papers_table"),
    ),
    Entry(
        "Appendix D",
        "These weights are the best of a search, and so are 150 numbers for Montezuma's Revenge.",
        'make run ENV=montezuma_revenge ARGS="--re3.latent-dim 50"',
        too_long(costs.rainbow),
    ),
    Entry(
        "Appendix D",
        "Rainbow of Kaixhin, and an encoder with its convolutions and a linear layer.",
        "",
        tested(
            "a whole update equals PyTorch's; the paper's list of filters is not Rainbow's "
            "([Deviations](deviations.md#rainbow))",
            "tests/parity/test_rainbow.py::test_two_updates",
            "tests/unit/test_random_encoder.py::test_stacks_of_grey_frames_go_through_dqns_convolutions",
        ),
    ),
)
