"""The paper's pre-training panel: entropy of the true state, with bonuses and random actions.

    make figure FIG=pretraining [ARGS="--frames 25000 --seeds 3"]
    python -m experiments.figures.pretraining [--tasks hopper_hop] [--rows re3 random] [--finished]

Pre-trains RAD on each bonus alone, and has a run that never learns. Their states are simulated
again from the actions in their replays (`replayed`), and `visited_entropy` measures them.

Writes entropy.png, entropy.csv with every seed, and table.csv with the last points: means over
seeds with 95% intervals, of the entropy and of how much it is above that of random actions with the
same seed. With `--poses`, states are without their velocities.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, get_args

from matplotlib.figure import Figure

from experiments.figures import command, replayed, runs, visited_entropy
from experiments.figures.runs import Run
from experiments.figures.visited_entropy import Measured
from re3_jax.plural import number_of
from re3_jax.runs import curves
from re3_jax.runs.config import BonusName, PresetName, RunConfig
from re3_jax.runs.curves import Curve
from re3_jax.runs.errors import UsageError
from re3_jax.runs.resolve import resolve
from re3_jax.runs.validate import INT32_MAX

TASKS = {"hopper_hop": "Hopper", "walker_run_sparse": "Walker", "cheetah_run_sparse": "Cheetah"}
"""Tasks, whose rewards are withheld, and their bodies."""

FRAMES = 100_000
SEEDS = 3

LAST_COLUMNS = (
    *visited_entropy.LAST_COLUMNS,
    *("above_random", "above_random_low", "above_random_high"),
)


class Method(NamedTuple):
    """How a run explores: on a bonus alone, or at random if it has none."""

    label: str
    bonus: BonusName
    changes: Mapping[str, str | bool] = MappingProxyType({})

    def run(self, task: str, preset: PresetName, frames: int) -> Run:
        """Its run, of one seed."""
        only = {"pretrain": str(frames)} if self.bonus != "none" else {}
        return Run(task, self.bonus, preset, 1, frames, "rad", changes={**only, **self.changes})


_OF_BATCH = {"learned.neighbours": "minibatch"}

METHODS = {
    "re3": Method("RE3", "re3"),
    "contrastive": Method("APT (SE w/ Contrastive)", "contrastive", _OF_BATCH),
    "inverse_dynamics": Method("SE w/ Inverse dynamics", "inverse_dynamics", _OF_BATCH),
    "random": Method("random actions", "none", {"sac.initial_agent_steps": str(INT32_MAX)}),
}


def _config(task: str, words: command.Words) -> RunConfig:
    return resolve(task, "rad", preset=words.preset)


def explored(words: command.Words, seeds: int) -> dict[tuple[str, str], list[replayed.Played]]:
    """What the seeds of each task and row did; their runs are trained if necessary.

    Raises:
      UsageError: a replay does not keep all actions of so many `--frames`; nothing was trained.
    """
    most = min(replayed.longest(_config(task, words)) for task in words.tasks)
    if words.frames > most:
        raise UsageError(
            f"the replay does not keep all actions of --frames {words.frames}: give at most {most}"
        )
    rows = {
        (task, name): METHODS[name].run(task, words.preset, words.frames)
        for task in words.tasks
        for name in words.rows
    }
    return {
        cell: [played for _, folder in pairs for played in replayed.read(folder)]
        for cell, pairs in runs.of_rows(words, rows, seeds).items()
    }


def note_missing(picture: Figure, words: command.Words, seeds: int, drawn: int) -> None:
    """Says on a picture of `explored` runs how many are missing, of which `drawn` are there."""
    wanted = len(words.tasks) * len(words.rows) * seeds
    curves.note_missing(picture, wanted - drawn, wanted)


def _differences(of_task: Mapping[str, Measured]) -> dict[str, Curve]:
    """Row -> how much higher its entropies are than those of random actions."""
    if (random := of_task.get("random")) is None:
        return {}
    compared = {name: visited_entropy.above(one, random) for name, one in of_task.items()}
    return {name: curve for name, curve in compared.items() if curve and name != "random"}


def _write(found: Mapping[str, Mapping[str, Measured]], words: command.Words) -> None:
    ends: list[list[object]] = []
    for task, of_task in found.items():
        differences = _differences(of_task)
        for name, one in of_task.items():
            higher = differences.get(name)
            compared = visited_entropy.interval(higher) if higher else [""] * 3
            ends.append([*visited_entropy.last_point(task, one), *compared])
    rows = {task: [*of_task.values()] for task, of_task in found.items()}
    visited_entropy.write_points(words.out / "entropy.csv", rows)
    curves.write_csv(words.out / "table.csv", LAST_COLUMNS, ends)


def _make(words: command.Words) -> command.Lines:
    least = visited_entropy.MINIBATCH * max(
        _config(task, words).dmc.action_repeat for task in words.tasks
    )
    if words.frames < least:
        raise UsageError(f"--frames {words.frames} are too few states: give at least {least}")
    found: dict[str, dict[str, Measured]] = {}
    for (task, name), played in explored(words, words.seeds or SEEDS).items():
        label, velocity = METHODS[name].label, not words.poses
        one = visited_entropy.measure(label, played, words.frames, velocity)
        found.setdefault(task, {})[name] = one
        ends = one.curve.returns[:, -1]
        yield f"{task}, {one.curve.label}: {ends.mean():.2f} nats, {number_of(len(ends), 'seed')}"
    words.out.mkdir(parents=True, exist_ok=True)
    _write(found, words)
    panels = {TASKS[task]: [one.curve for one in rows.values()] for task, rows in found.items()}
    for task, rows in found.items():
        if differences := _differences(rows):
            panels[f"{TASKS[task]}: above random actions"] = [*differences.values()]
    panel = visited_entropy.panel_of(words)
    picture = curves.draw_panels(panels, (4.6, 3.8), len(found), panel=panel)
    drawn = sum(len(one.seeds) for rows in found.values() for one in rows.values())
    note_missing(picture, words, words.seeds or SEEDS, drawn)
    picture.savefig(words.out / "entropy.png")
    yield words.out / "entropy.png"


OF_EXPLORING: command.Options = {
    "--tasks": command.some_of(TASKS),
    "--rows": command.some_of(METHODS),
    "--preset": {"default": "small", "choices": get_args(PresetName)},
    "--frames": {"type": command.at_least_one, "default": FRAMES, "help": "env frames of each run"},
    **command.FINISHED,
}
"""Options of figures of these runs."""

main = command.of("pretraining", _make, OF_EXPLORING | visited_entropy.POSES | command.OF_RUNS)

if __name__ == "__main__":
    raise SystemExit(main())
