"""A search of settings of Rainbow with and without RE3 on MinAtar's Breakout.

    make figure FIG=minatar_search [ARGS="--jobs 2"]
    python -m experiments.figures.minatar_search [--rows none re3] [--seeds 3] [--steps N]

With the numbers of the paper's Atari games, beta 0.0001 and the third neighbour, the bonus there is
nearly nothing. Six settings of each row try others: Rainbow's noise, and how many rewards it sums;
RE3's weight, and which neighbour among the newest 10,000 latents. `duplicate_share` in the table is
the share of sampled frames that have a copy among these.
"""

from functools import partial

from experiments.figures import grid_search
from experiments.figures.grid_search import SEEDS, Grid
from experiments.figures.rainbow import of_agent

breakout = partial(of_agent, "gymnax:Breakout-MinAtar", seeds=SEEDS, steps=200_000)

GRIDS = {
    "none": Grid(
        "Rainbow",
        breakout("none"),
        {"rainbow.noise": (0.1, 0.5), "rainbow.n-steps": (1, 3, 5)},
    ),
    "re3": Grid(
        "Rainbow + RE3",
        # On a CPU a search among all 100,000 latents would take most of the time.
        breakout("re3", changes={"re3.search-size": "10000"}),
        {"re3.beta": (0.0001, 0.01, 0.1), "re3.last-neighbour": (3, 100)},
    ),
}
"""Row -> the settings tried."""

DIAGNOSTICS = "duplicate_share", "intrinsic_reward_mean", "reward_mean"

main = grid_search.figure("minatar_search", GRIDS, diagnostics=DIAGNOSTICS)

if __name__ == "__main__":
    raise SystemExit(main())
