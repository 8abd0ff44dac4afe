"""Rainbow with and without RE3, on MinAtar and where rewards are rare.

make figure FIG=rainbow [ARGS="--jobs 2"]
python -m experiments.figures.rainbow [--tasks breakout freeway deep_sea] [--seeds N] [--steps N]

The table says how probably a run is above one without a bonus, and above one of the preset's.
"""

from functools import partial

from experiments.figures import rows
from experiments.figures.rows import Panels, Row
from experiments.figures.runs import Run

of_agent = partial(Run, preset="recommended", agent="rainbow")

deep_sea = partial(of_agent, "gymnax:DeepSea-bsuite-14", seeds=10, steps=60_000, seed=201)

DEEP_SEA = {
    "none": deep_sea("none"),
    "noisy": deep_sea("none", changes={"rainbow.noisy": True}),
    "re3": deep_sea("re3"),
}
"""Settings are searched on seeds 101 to 103, by `deep_sea_search`."""

DEEP_SEA_LABELS = {
    "none": "Rainbow, epsilon-greedy",
    "noisy": "Rainbow, noisy layers",
    "re3": "Rainbow, epsilon-greedy + RE3",
}


MINATAR: dict[str, tuple[str, str, dict[str, str | bool]]] = {
    "none": (
        "Rainbow, best of its search",
        "none",
        {"rainbow.noise": "0.5", "rainbow.n-steps": "5"},
    ),
    "preset": ("Rainbow, preset", "none", {}),
    "re3": (
        "Rainbow + RE3, best of its search",
        "re3",
        {"re3.beta": "0.1", "re3.search-size": "10000"},
    ),
}
"""Row -> label, bonus, and the best of six settings on Breakout, of seeds 101 to 103
(`minatar_search`). The row `preset` is that with RE3 less the bonus."""


def on_minatar(game: str) -> tuple[str, list[Row]]:
    """Title and rows of a game, whose files begin with its name."""
    task = f"gymnax:{game.replace(' ', '')}-MinAtar"
    run = partial(of_agent, task, seeds=10, steps=200_000, seed=201)
    file = game.lower().replace(" ", "_")
    rows = [
        Row(label, f"{file}-{name}", run(bonus, changes=changes))
        for name, (label, bonus, changes) in MINATAR.items()
    ]
    return f"{game} (MinAtar)", rows


PANELS: Panels = {
    "breakout": on_minatar("Breakout"),
    "asterix": on_minatar("Asterix"),
    "freeway": on_minatar("Freeway"),
    "space_invaders": on_minatar("Space Invaders"),
    "seaquest": on_minatar("Seaquest"),
    "deep_sea": (
        "DeepSea of 14 rows",
        [Row(label, f"deep_sea-{name}", DEEP_SEA[name]) for name, label in DEEP_SEA_LABELS.items()],
    ),
}

main = rows.figure("rainbow", PANELS, baselines=("none", "preset"))

if __name__ == "__main__":
    raise SystemExit(main())
