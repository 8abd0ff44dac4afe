"""The paper's DeepMind Control figures: an agent with and without bonuses, one panel per task.

    make figure FIG=dmc
    python -m experiments.figures.dmc [RUN_DIR ...] [--tasks TASK ...] [--reference FILE.csv]
    python -m experiments.figures.dmc --bonuses none re3 rnd icm contrastive inverse_dynamics
    python -m experiments.figures.dmc --bonuses imagenet atc --weights imagenet=FILE atc=FILE
    python -m experiments.figures.dmc --preset small --options sac.n_steps=1 --state

Draws the runs in the given folders; without any, it trains missing runs and resumes interrupted
ones. Each run has as many seeds as its preset, and there are as many runs as the figure's seeds
take. Stop it at any time and start it again: it goes on where it was. `--finished` draws what is
finished and trains nothing; `--state` only says in one line how far the whole is. `--options` go to
every run on which they have an effect. `--first-seed 2` leaves out seed 1, on which the size
`small` was chosen.

Runs that differ in their seeds only are pooled, and those of the same task, agent, bonus and preset
must not differ otherwise. Writes curves.png, table.csv and every run's eval.csv; the table says how
probably a run ends above one without a bonus, and above one with RE3. A reference has the columns
env, seed, step (in env frames) and episode_reward, and is drawn up to the last frame of the runs.
"""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from matplotlib.figure import Figure

from experiments.figures import command, rows, runs
from experiments.figures.runs import Run
from re3_jax.runs import curves, labels
from re3_jax.runs.config import PresetName, flatten
from re3_jax.runs.curves import Curve
from re3_jax.runs.errors import UsageError
from re3_jax.runs.options import no_effect
from re3_jax.runs.presets.dmc import MAIN_TASKS
from re3_jax.runs.resolve import resolve

AGENTS = "rad", "drq", "dreamer"
BONUSES = "none", "re3", "rnd", "icm", "contrastive", "inverse_dynamics", "imagenet", "atc"

PANELS_PER_ROW = 3

PANEL = 4.6, 3.8
"""Inches."""

MOST_INSIDE = 4
"""With more rows, a legend in the panel covers the curves."""

LEGEND_LINE = 0.25
"""Inches."""

FIGURE_SEEDS = 5


def _kind(folder: Path) -> tuple[str, str, str, str]:
    """Task, agent, bonus and preset of the run in a folder."""
    env, agent, bonus, preset = runs.options(folder, "env", "agent", "bonus", "preset")
    if agent not in AGENTS or bonus not in BONUSES:
        raise UsageError(
            f"the run in {folder} is of {agent} with {bonus}: this figure draws "
            f"{', '.join(AGENTS)} with {', '.join(BONUSES)}"
        )
    return env.removeprefix("dmc:"), agent, bonus, preset


def _load_reference(path: Path) -> dict[str, Curve]:
    """Curves by task, at the steps at which every seed was evaluated."""
    series: dict[str, dict[str, dict[int, float]]] = {}
    try:
        with path.open(newline="") as lines:
            for row in csv.DictReader(lines):
                points = series.setdefault(row["env"], {}).setdefault(row["seed"], {})
                points[int(float(row["step"]))] = float(row["episode_reward"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(
            f"{path} cannot be read as a reference ({type(error).__name__}: {error}): give a CSV "
            "with the columns env, seed, step and episode_reward"
        ) from None
    return {task: curves.common(path.stem, seeds.values()) for task, seeds in series.items()}


def _panels(
    folders: Sequence[Path], reference: dict[str, Curve], ends: Mapping[str, int]
) -> dict[str, list[Curve]]:
    """Task -> its curves: those without a bonus first, the reference last.

    `ends` are the env frames to which those of a task are drawn, by default all.
    """
    pooled = runs.pooled(folders, _kind)
    several = len({preset for *_, preset in pooled}) > 1
    order = [*AGENTS, *BONUSES].index
    found = defaultdict(list)
    for kind in sorted(pooled, key=lambda one: (order(one[1]), order(one[2]), one[3])):
        task, agent, bonus, preset = kind
        label = labels.of_agent(agent) + several * f" {preset}" + labels.of_bonus(bonus)
        curve = pooled[kind].curve._replace(label=label)
        found[task].append(rows.up_to(curve, ends[task]) if task in ends else curve)
    for task, drawn in found.items():
        if task in reference:
            theirs = reference[task]
            until = theirs.env_frames <= max(curve.env_frames[-1] for curve in drawn)
            if until.any():
                returns = theirs.returns[:, until]
                drawn.append(Curve(theirs.label, theirs.env_frames[until], returns))
    return found


def _with_another(curve: Curve, panel: Sequence[Curve], bonus: str) -> Curve | None:
    """The curve of the same agent with another bonus; None if it is `curve`, or is not there."""
    ends = map(labels.of_bonus, BONUSES)
    added = next((end for end in ends if end and curve.label.endswith(end)), "")
    label = curve.label.removesuffix(added) + labels.of_bonus(bonus)
    return next((one for one in panel if one.label == label and one is not curve), None)


def _picture(drawn: dict[str, list[Curve]]) -> Figure:
    """A panel for each task; where one has many rows, the legend of all is below them."""
    picture = curves.draw_panels(drawn, PANEL, PANELS_PER_ROW)
    if max(map(len, drawn.values())) > MOST_INSIDE:
        across = round(picture.get_figwidth() / PANEL[0])
        rows.legend_below(picture, across)
        lines = -(-len(picture.legends[0].get_texts()) // across)
        picture.set_figheight(picture.get_figheight() + LEGEND_LINE * lines)
    return picture


def _wanted(words: command.Words) -> list[Run]:
    """The runs of the figure: task by task, and with every seed all curves of a panel."""
    files, wanted = _weights(words.weights), []
    if unused := [bonus for bonus in files if bonus not in words.bonuses]:
        raise UsageError(f"--weights of {unused[0]} have no effect without --bonuses {unused[0]}")
    for task in dict.fromkeys(words.tasks):
        steps = words.steps or resolve(task, words.agent, preset=words.preset).steps
        changes = _changes(task, words)
        of_task = [
            Run(
                *(task, bonus, words.preset, 1, steps, words.agent),
                changes=changes[bonus] | files.get(bonus, {}),
            )
            for bonus in dict.fromkeys(words.bonuses)
        ]
        wanted += runs.seed_by_seed(of_task, words.seeds or FIGURE_SEEDS, words.first_seed)
    return wanted


def _weights(pairs: Sequence[str]) -> dict[str, dict[str, str | bool]]:
    """Bonus -> the option that names its file of weights."""
    files: dict[str, dict[str, str | bool]] = {}
    for pair in pairs:
        bonus, equals, file = pair.partition("=")
        if not equals or bonus not in BONUSES:
            raise UsageError(f"--weights {pair} is no file of a bonus: write it as imagenet=FILE")
        files[bonus] = {"pretrained.weights": file}
    return files


def _changes(task: str, words: command.Words) -> dict[str, dict[str, str | bool]]:
    """Bonus -> those of `--options` that have an effect with it; all get one that has none."""
    given, kept = _given(words.options), {}
    for bonus in words.bonuses:
        values = flatten(resolve(task, words.agent, bonus=bonus, preset=words.preset))
        kept[bonus] = {name for name in given if no_effect(name, values) is None}
    used = set().union(*kept.values())
    return {
        bonus: {name: value for name, value in given.items() if name in own or name not in used}
        for bonus, own in kept.items()
    }


def _given(pairs: Sequence[str]) -> dict[str, str | bool]:
    options: dict[str, str | bool] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or "." not in name:
            raise UsageError(
                f"--options {pair} is no option of a run with its value: write it as "
                "sac.n_steps=1, a switch as sac.frame_differences=True"
            )
        switch = {"True": True, "False": False}
        options[name.replace("-", "_")] = switch.get(value, value)
    return options


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _make(words: command.Words) -> command.Lines:
    reference = _load_reference(words.reference) if words.reference else {}
    ends: dict[str, int] = {}
    wanted: Sequence[Path | None] = words.folders
    about_runs = [name for name in OF_FIGURE if getattr(words, name) != DEFAULTS[name]]
    if wanted and about_runs:
        raise UsageError(
            f"{_option(about_runs[0])} is about the runs of the figure: leave it or the folders out"
        )
    if not wanted:
        all_runs, of_figure = runs.Runs(words.runs, words.jobs), _wanted(words)
        # An option that cannot be is refused here, and not in the log of a run.
        for run in of_figure:
            all_runs.config(run)
        yield all_runs.state(of_figure)
        if words.state:
            return
        wanted = all_runs.of_figure(of_figure, not words.finished)
        # Runs that went on for longer count as finished.
        ends = {run.task.removeprefix("dmc:"): run.steps for run in of_figure}
    folders = [folder for folder in wanted if folder is not None]
    drawn = _panels(folders, reference, ends)
    runs.copy_evaluations(folders, words.out)
    picture = _picture(drawn)
    curves.note_missing(picture, len(wanted) - len(folders), len(wanted))
    picture.savefig(words.out / "curves.png")
    every = [(task, curve) for task, panel in drawn.items() for curve in panel]
    better: dict[str, list[str]] = {}
    for bonus in ("none", "re3"):
        pairs = [(curve, _with_another(curve, drawn[task], bonus)) for task, curve in every]
        better |= curves.better_than(bonus, pairs)
    tasks, drawn_curves = zip(*every, strict=True)
    curves.write_table(drawn_curves, words.out / "table.csv", task=tasks, **better)
    yield words.out / "curves.png"


OPTIONS: command.Options = {
    "folders": {"nargs": "*", "type": Path, "metavar": "RUN_DIR"},
    "--tasks": {"nargs": "+", "default": list(MAIN_TASKS)},
    "--agent": {"default": "rad", "choices": list(AGENTS)},
    "--preset": {"default": "released", "choices": get_args(PresetName)},
    "--bonuses": {"nargs": "+", "default": ["none", "re3"], "choices": list(BONUSES)},
    "--weights": {"nargs": "+", "default": [], "metavar": "BONUS=FILE"},
    "--options": {"nargs": "+", "default": [], "metavar": "NAME=VALUE"},
    "--first-seed": {"type": command.at_least_one, "default": 1},
    "--reference": {"type": Path, "metavar": "FILE.csv"},
}

OPTIONS |= command.STATE | command.FINISHED | command.STEPS | command.OF_RUNS

OF_FIGURE = (
    *("tasks", "agent", "preset", "bonuses", "weights", "options"),
    *("first_seed", "state", "finished", "steps", "seeds", "jobs"),
)
"""Options that say which runs there are to be, and have no effect on folders that are named."""

DEFAULTS = {
    name: (option := OPTIONS[_option(name)]).get("default", False if "action" in option else None)
    for name in OF_FIGURE
}

main = command.of("dmc", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
