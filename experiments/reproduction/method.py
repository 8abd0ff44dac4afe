"""Sections 1 and 3: neighbours, equations, algorithms, and what the method costs."""

from experiments.reproduction import rules
from experiments.reproduction.entry import (
    Entry,
    Finding,
    Verdict,
    not_run,
    tested,
)
from experiments.reproduction.results import Interval, Results, Row, interval

REPRODUCED = Verdict.REPRODUCED

CHANCE = Interval(0.5, 0.5, 0.5)
"""Share of frames nearer than a neighbour that carries no information."""

NEIGHBOURS = 3
"""Of the rows of results/neighbours/table.csv; the paper's k."""


def _neighbours(results: Results) -> Finding:
    scored = [
        row
        for row in results.table("results/neighbours/table.csv")
        if (row["representation"], row["k"]) == ("random encoder", str(NEIGHBOURS))
    ]
    if not scored:
        return not_run("no committed result")
    shares = {row["task"]: interval(row, "share_nearer") for row in scored}
    seeds = int(scored[0]["seeds"])
    each = [(CHANCE, share) for task, share in shares.items() if task != "all tasks"]
    judged = rules.apart(each, seeds, REPRODUCED)
    words = "; ".join(f"{task} {share}" for task, share in shares.items())
    return Finding(
        judged[0],
        f"share of frames nearer in the true state than the encoder's neighbours are: {words}; "
        f"chance is {CHANCE.value}",
        f"{seeds} seeds of each task, released encoder",
        judged[1],
    )


def _falling_reward(results: Results) -> Finding:
    folder = "results/dmc_paper_size"
    rows = results.table(f"{folder}/pendulum_swingup-rad-re3-released-train.csv")
    learned = [row for row in rows if row["intrinsic_reward_mean"] != "nan"]
    if not learned:
        return not_run("no committed run at the paper's size")

    first, last = learned[0], learned[-1]
    (normalized, distance), (last_normalized, last_distance) = map(_distance, (first, last))
    highest = max(learned, key=lambda row: _distance(row)[0])
    top, at = _distance(highest)[0], f"{int(highest['env_frames']):,}"
    frames = f"{int(first['env_frames']):,}", f"{int(last['env_frames']):,}"
    falls = [last_distance < distance, last_normalized < normalized]
    words = ["falls" if fell else "does not fall" for fell in falls]
    return Finding(
        Verdict.NOT_REPRODUCED,
        f"mean distance to the neighbour: {distance:.2g} ({normalized:.2f} times its running "
        f"standard deviation) at frame {frames[0]}, {last_distance:.2g} ({last_normalized:.2f} "
        f"times) at frame {frames[1]}",
        f"pendulum_swingup, preset released, 1 seed, {frames[1]} frames",
        f"{rules.too_few(1)}; from end to end the distance {words[0]}; divided by its running "
        f"standard deviation, as it is paid, it {words[1]} (most: {top:.2f} at frame {at})",
    )


def _distance(row: Row) -> tuple[float, float]:
    """The mean reward without its weight, and the distance that it was; of a row of train.csv."""
    normalized = float(row["intrinsic_reward_mean"]) / float(row["beta"])
    return normalized, normalized * float(row["running_std"])


def _stable_reward(results: Results) -> Finding:
    rows = [
        row
        for row in results.table("results/stability/table.csv")
        if row["measure"] == "rank_correlation_with_end"
    ]
    if not rows:
        return not_run("no committed result")
    # The first point of each encoder.
    first = {row["encoder"]: row for row in reversed(rows)}
    found = {
        name: Interval(*(float(row[column] or "nan") for column in ("mean", "low", "high")))
        for name, row in first.items()
    }
    fixed = found.pop("re3")
    row = first["re3"]
    seeds, frames = int(row["seeds"]), int(row["env_frames"])
    last = max(int(row["env_frames"]) for row in rows)
    judged = rules.apart([(fixed, one) for one in found.values()], seeds, Verdict.SMALLER)
    words = "; ".join(f"{name.replace('_', ' ')} {one}" for name, one in found.items())
    return Finding(
        judged[0],
        "rank correlation of the rewards of the same observations by the encoder at frame "
        f"{frames:,} and at frame {last:,}: random {fixed.value:.0f}; {words}",
        f"A2C with each bonus on {row['task']}, {seeds} seeds; the paper has no measure of it",
        judged[1] or "a fixed encoder's is 1 by construction",
    )


def _share_of_an_update(results: Results) -> Finding:
    measured = results.json("benchmarks/results/sac_update.json")
    if measured is None:
        return not_run("no committed measurement")
    size = measured["sizes"]["released"]
    share = size["percent_of_update_that_is_re3"]
    verdict, reason = rules.small(share / 100, REPRODUCED)
    ours, without = (size["ms"][name]["mean"] for name in ("re3_jax", "re3_jax_without_re3"))
    words = (
        f"RE3 takes {share:.1f}% of the time of an update by its parts, {1 - without / ours:.1%} "
        "by the difference to an update without it; latents are stored"
    )
    return Finding(verdict, words, "batch 512, 100,000 latents, on a CPU", reason)


def _whole_buffer(results: Results) -> Finding:
    measured = results.json("benchmarks/results/knn.json")
    updates = results.json("benchmarks/results/sac_update.json")
    if measured is None or updates is None:
        return not_run("no committed measurement")
    methods = measured["cases"]["rad"]["methods"]
    ours, theirs = methods["re3_jax"]["ms"], methods["authors_broadcast"]["ms"]
    size = updates["sizes"]["released"]
    search, update = size["ms_knn_alone"], size["ms"]["re3_jax"]["mean"]
    verdict, reason = rules.small(search / update, REPRODUCED)
    words = (
        f"exact search in {search:.0f} ms of an update of {update:,.0f} ms; on another machine in "
        f"{ours:.0f} ms, by the authors' broadcast in {theirs:,.0f} ms"
    )
    ran = "512 queries, 100,000 latents of 50 numbers, on a CPU"
    return Finding(verdict, words, ran, reason)


INTRODUCTION = (
    Entry(
        "Figure 1",
        "Neighbours under a random encoder look like neighbours in the true state (Hopper).",
        "make figure FIG=neighbours",
        _neighbours,
    ),
)

ENTRIES = (
    Entry(
        "Equations 1, 2",
        "Particle estimate of the entropy, and its form without constants.",
        "",
        tested(
            "equal to the entropy of known distributions, and to each other up to a constant",
            "tests/parity/test_state_entropy.py::test_closed_form_entropy",
            "tests/parity/test_state_entropy.py::test_all_constants_of_equation_1",
            "tests/parity/test_state_entropy.py::test_equation_2_differs_by_a_constant_per_dimension",
        ),
    ),
    Entry(
        "Figure 2",
        "Illustration of the method: latents of a fixed encoder, distance to the k-th "
        "neighbour, sum with the task's reward.",
        "",
        tested(
            "the parts exist and follow the text and the released code",
            "tests/parity/test_re3.py::test_papers_bonus_equals_its_text",
            "tests/parity/test_re3.py::test_released_bonus_equals_the_authors_procedure",
        ),
    ),
    Entry(
        "Figure 3",
        "Image observations of six bodies of DeepMind Control.",
        "",
        tested(
            "frames equal dm_control's bit for bit",
            "tests/parity/test_dmc.py::test_frames_of_gl_equal_dm_controls_bit_for_bit",
        ),
    ),
    Entry(
        "Equation 3",
        "Intrinsic reward log(‖y_i - y_i^kNN‖ + 1).",
        "",
        tested(
            "distances equal scikit-learn's, rewards equal the paper's text",
            "tests/parity/test_knn.py::test_all_rows_equal_scikit_learn",
            "tests/parity/test_re3.py::test_papers_bonus_equals_its_text",
        ),
    ),
    Entry(
        "Section 3.2",
        "Stored latents save the encoding of a batch at every update.",
        "make bench BENCH=sac_update",
        _share_of_an_update,
    ),
    Entry(
        "Section 3.2",
        "The distance to all entries of the buffer is feasible, not only to a minibatch.",
        "make bench BENCH=knn",
        _whole_buffer,
    ),
    Entry(
        "Section 3.2",
        "Distances in a fixed space give a more stable intrinsic reward.",
        "make figure FIG=stability",
        _stable_reward,
    ),
    Entry(
        "Equation 4",
        "Total reward r_e + beta_t r_i.",
        "",
        tested(
            "whole updates equal PyTorch's with the bonus in the reward",
            "tests/parity/test_sac.py::test_updates_equal_pytorch",
            "tests/parity/test_a2c.py::test_two_updates_equal_pytorch",
        ),
    ),
    Entry(
        "Section 3.2",
        "beta_t = beta_0 (1 - rho)^t.",
        "",
        tested(
            "equal to double precision over whole runs",
            "tests/unit/test_schedules.py::test_values_of_the_papers_settings",
            "tests/unit/test_schedules.py::test_long_runs_equal_double_precision",
        ),
    ),
    Entry(
        "Section 3.2",
        "The intrinsic reward falls to 0 as similar states are collected.",
        "make run ENV=pendulum_swingup PRESET=released SEEDS=1 STEPS=60500",
        _falling_reward,
    ),
    Entry(
        "Algorithm 1",
        "RE3 with an off-policy agent.",
        "",
        tested(
            "updates equal PyTorch's, and every stored transition has its latent",
            "tests/parity/test_sac.py::test_updates_equal_pytorch",
            "tests/unit/test_host_loop.py::test_every_stored_transition_has_its_latent",
        ),
    ),
)
