"""The search of settings behind Rainbow on DeepSea, on seeds that the figure does not use.

    make figure FIG=deep_sea_search [ARGS="--jobs 2"]
    python -m experiments.figures.deep_sea_search [--rows none noisy re3] [--seeds 3] [--steps N]

Each row of the figure has nine settings: three values of what makes it explore, times three of what
decides how far a reward, or a bonus, reaches. All are trained to the figure's end. The best has the
largest area under the evaluation curve, mean over seeds; it goes into
`re3_jax/runs/presets/rainbow.py` and `experiments/figures/rainbow.py` by hand, and a test compares.
"""

import itertools
from collections.abc import Mapping

from experiments.figures import command, rainbow
from experiments.figures.runs import Run, Runs
from re3_jax.runs import curves

GRIDS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "none": {"rainbow.epsilon": (0.05, 0.2, 0.5), "rainbow.n-steps": (1, 3, 7)},
    "noisy": {"rainbow.noise": (0.1, 0.5, 1.0), "rainbow.n-steps": (1, 3, 7)},
    "re3": {"re3.beta": (0.1, 0.5, 2.0), "re3.last-neighbour": (30, 100, 300)},
}
"""Row -> the options searched. An episode has 14 steps."""

FIRST_SEED, SEEDS = 101, 3

LEARNED = 0.5
"""A return above this says that the one rewarded sequence is known: it returns 0.99."""


def settings(name: str) -> list[dict[str, float]]:
    """All settings of a row."""
    options, values = GRIDS[name].keys(), itertools.product(*GRIDS[name].values())
    return [dict(zip(options, each, strict=True)) for each in values]


def run(name: str, setting: Mapping[str, float]) -> Run:
    """The run of a row with a setting; a range of neighbours has one."""
    of_row = rainbow.DEEP_SEA[name]
    changes = {**of_row.changes, **{option: f"{value:g}" for option, value in setting.items()}}
    if neighbour := changes.get("re3.last-neighbour"):
        changes["re3.first-neighbour"] = neighbour
    return of_row._replace(changes=changes, seed=FIRST_SEED, seeds=SEEDS)


def _make(words: command.Words) -> command.Lines:
    given = {n: v for n in ("seeds", "steps") if (v := getattr(words, n)) is not None}
    tried = [(name, setting) for name in words.rows for setting in settings(name)]
    runs = Runs(words.runs, words.jobs)
    wanted = [run(*each)._replace(**given) for each in tried]
    yield runs.state(wanted)
    if words.state:
        return
    found = [
        curves.load(rainbow.DEEP_SEA_LABELS[name], [folder])
        for (name, _), folder in zip(tried, runs.ensure_all(wanted), strict=True)
    ]
    words.out.mkdir(parents=True, exist_ok=True)
    described = [
        "; ".join(f"{option} {value:g}" for option, value in setting.items())
        for _, setting in tried
    ]
    learned = [str(int((curve.returns.max(axis=1) > LEARNED).sum())) for curve in found]
    path = words.out / "table.csv"
    before = {"row": [name for name, _ in tried], "setting": described, "learned": learned}
    curves.write_table(found, path, **before)
    yield path


OPTIONS: command.Options = {"--rows": command.some_of(GRIDS)}

main = command.of(
    "deep_sea_search", _make, OPTIONS | command.STATE | command.STEPS | command.OF_RUNS
)

if __name__ == "__main__":
    raise SystemExit(main())
