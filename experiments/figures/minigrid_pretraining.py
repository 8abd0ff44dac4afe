"""The panel of `pretraining` where states are numbered: entropy of the states of Empty-16x16.

    make figure FIG=minigrid_pretraining [ARGS="--rows re3 random --frames 19200 --seeds 3"]
    python -m experiments.figures.minigrid_pretraining [--rows re3 random] [--finished]

Pre-trains A2C on each bonus alone, and has a run of random actions that never learns. The entropy
is that of all visits since the run began, exact (`state_entropy` in train.csv): at most that of the
uniform distribution over the reachable states, which is a line.

Writes entropy.png, entropy.csv with every seed, and table.csv with the last points: means over
seeds with 95% intervals, and how probably a run ends above one of random actions.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures import command
from experiments.figures.minigrid import FIRST_SEED, PRETRAINING_TASK, SEEDS
from experiments.figures.runs import Run, Runs
from re3_jax.envs import registry
from re3_jax.runs import curves, statistics
from re3_jax.runs.config import BonusName
from re3_jax.runs.curves import Curve
from re3_jax.runs.errors import UsageError
from re3_jax.runs.validate import INT32_MAX

FRAMES = 96_000
"""About those of pre-training in `minigrid`, and a multiple of `EVERY`."""

EVERY = 6_400
"""Env frames between two points: whole updates of every row."""

POINT_COLUMNS = "label", "seed", "env_frames", "state_entropy"

LAST_COLUMNS = (
    *("label", "seeds", "env_frames"),
    *("state_entropy", "state_entropy_low", "state_entropy_high"),
)


class Method(NamedTuple):
    """How a run explores: on a bonus alone, or at random if it has none."""

    label: str
    bonus: BonusName
    changes: Mapping[str, str | bool] = MappingProxyType({})
    agent: str = "a2c"

    def run(self, frames: int) -> Run:
        """Its run of all seeds."""
        only = {"pretrain": str(frames)} if self.bonus != "none" else {}
        # Of the returns nothing is shown.
        points = {"evaluation.every-env-frames": str(EVERY), "evaluation.episodes": "1"}
        sizes = SEEDS, frames, self.agent, {**only, **points, **self.changes}
        return Run(PRETRAINING_TASK, self.bonus, "recommended", *sizes, seed=FIRST_SEED)


_RANDOM: Mapping[str, str | bool] = {
    "rainbow.noisy": False,
    "rainbow.epsilon": "1",
    "rainbow.initial-agent-steps": str(INT32_MAX),
    "rainbow.replay-capacity": "1600",
}
"""In as many lanes as A2C has, because all begin their first episodes together."""

METHODS = {
    "re3": Method("RE3", "re3"),
    "contrastive": Method("SE w/ Contrastive", "contrastive"),
    "apt": Method("APT", "contrastive", {"learned.neighbours": "minibatch"}),
    "random": Method("random actions", "none", _RANDOM, "rainbow"),
}


def _panel(axes: Axes, drawn: Sequence[Curve], title: str) -> None:
    states = registry.make(registry.canonical(PRETRAINING_TASK)).states
    assert states is not None
    most, label = math.log(states.num_reachable), f"uniform over {states.num_reachable} states"
    curves.draw_axes(axes, drawn, title)
    axes.axhline(most, color="black", ls=":", lw=1.2, label=label)
    axes.set_ylim(top=most + 0.05)
    axes.set_ylabel("entropy of visited states (nats; mean, 95% band)")
    axes.legend(frameon=False, loc="lower right")


def _draw(drawn: Sequence[Curve]) -> Figure:
    return curves.draw_panels({"Empty-16x16": drawn}, (6.4, 4.6), across=1, panel=_panel)


def _write(found: Mapping[str, Curve], words: command.Words) -> None:
    random = found.get("random")
    pairs = [(curve, None if curve is random else random) for curve in found.values()]
    better = curves.better_than("random", pairs)
    points: list[list[object]] = []
    ends: list[list[object]] = []
    for (label, frames, values), *compared in zip(found.values(), *better.values(), strict=True):
        for seed, row in enumerate(values, FIRST_SEED):
            cells = zip(frames, row, strict=True)
            points += [[label, seed, frame, f"{x:.6g}"] for frame, x in cells]
        interval = [curves.cell(float(x)) for x in statistics.mean_interval(values[:, -1])]
        ends.append([label, len(values), frames[-1], *interval, *compared])
    curves.write_csv(words.out / "entropy.csv", POINT_COLUMNS, points)
    curves.write_csv(words.out / "table.csv", (*LAST_COLUMNS, *better), ends)


def _make(words: command.Words) -> command.Lines:
    if words.frames < EVERY:
        raise UsageError(f"--frames {words.frames} are no point: give at least {EVERY}")
    wanted = [METHODS[name].run(words.frames) for name in words.rows]
    wanted = [run._replace(seeds=words.seeds or SEEDS) for run in wanted]
    folders = Runs(words.runs, words.jobs).of_figure(wanted, train=not words.finished)
    found = {}
    for name, folder in zip(words.rows, folders, strict=True):
        if folder is not None:
            of_seeds = curves.read(folder / "train.csv", "state_entropy").values()
            label, frames, values = curves.common(METHODS[name].label, of_seeds)
            shown = (frames % EVERY == 0) & (frames <= words.frames)
            found[name] = Curve(label, frames[shown], values[:, shown])
    words.out.mkdir(parents=True, exist_ok=True)
    _write(found, words)
    picture = _draw([*found.values()])
    curves.note_missing(picture, len(wanted) - len(found), len(wanted))
    picture.savefig(words.out / "entropy.png")
    yield words.out / "entropy.png"


OPTIONS: command.Options = {
    "--rows": command.some_of(METHODS),
    "--frames": {
        "type": command.at_least_one,
        "default": FRAMES,
        "help": "env frames of each seed",
    },
    **command.FINISHED,
}

main = command.of("minigrid_pretraining", _make, OPTIONS | command.OF_RUNS)

if __name__ == "__main__":
    raise SystemExit(main())
