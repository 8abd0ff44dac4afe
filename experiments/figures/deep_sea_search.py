"""The search of settings behind Rainbow on DeepSea, on seeds that the figure does not use.

    make figure FIG=deep_sea_search [ARGS="--jobs 2"]
    python -m experiments.figures.deep_sea_search [--rows none noisy re3] [--seeds 3] [--steps N]

Each row of the figure has nine settings: three values of what makes it explore, times three of what
decides how far a reward, or a bonus, reaches. All are trained to the figure's end. The best has the
largest area under the evaluation curve, mean over seeds; it goes into
`re3_jax/runs/presets/rainbow.py` and `experiments/figures/rainbow.py` by hand, and a test compares.
"""

from experiments.figures import grid_search, rainbow
from experiments.figures.grid_search import Grid

OPTIONS: dict[str, dict[str, tuple[float, ...]]] = {
    "none": {"rainbow.epsilon": (0.05, 0.2, 0.5), "rainbow.n-steps": (1, 3, 7)},
    "noisy": {"rainbow.noise": (0.1, 0.5, 1.0), "rainbow.n-steps": (1, 3, 7)},
    "re3": {"re3.beta": (0.1, 0.5, 2.0), "re3.last-neighbour": (30, 100, 300)},
}
"""Row -> the options searched. An episode has 14 steps."""

GRIDS = {
    name: Grid(rainbow.DEEP_SEA_LABELS[name], rainbow.DEEP_SEA[name], options)
    for name, options in OPTIONS.items()
}

LEARNED = 0.5
"""A return above this says that the one rewarded sequence is known: it returns 0.99."""

main = grid_search.figure("deep_sea_search", GRIDS, LEARNED)

if __name__ == "__main__":
    raise SystemExit(main())
