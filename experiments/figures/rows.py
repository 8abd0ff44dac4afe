"""One row of a figure: a training run in a process of its own, run once and gone on with.

Rows that several figures share are one run: its folder is named after its options.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from experiments import run_folder
from experiments.errors import UsageError
from experiments.figures.jobs import ONE_AT_A_TIME, Jobs

RUNS = Path("runs/figures")


def ensure(
    task: str,
    bonus: str,
    preset: str,
    *,
    agent: str = "a2c",
    seeds: int,
    steps: int,
    changes: Mapping[str, str | bool] | None = None,
    runs: Path = RUNS,
    jobs: Jobs = ONE_AT_A_TIME,
) -> Path:
    """The folder of a finished run, which is run or gone on with if need be.

    Args:
      task: task.
      bonus: intrinsic reward.
      preset: preset.
      agent: agent; part of the folder's name unless it is A2C.
      seeds: number of seeds.
      steps: env frames per seed.
      changes: further options of `experiments.train`, without the leading dashes, a switch with
        True or False; of a path only the last part goes into the folder's name.
      runs: folder of all runs.
      jobs: what starts the processes.

    Raises:
      UsageError: the folder holds a run of another number of seeds.
      SystemExit: the run failed or was stopped; with its exit code.
    """
    changes = changes or {}
    extra = "".join(
        f"-{name.rpartition('.')[2]}_{Path(str(value)).name}" for name, value in changes.items()
    )
    name = task if agent == "a2c" else f"{task}-{agent}"
    folder = runs / f"{name}-{bonus}-{preset}{extra}"
    options = {"env": task, "agent": agent, "bonus": bonus, "preset": preset}
    options |= {"seeds": str(seeds), "out": str(folder)}
    # A run of pre-training says by that option how long it is.
    if "pretrain" not in changes:
        options["steps"] = str(steps)
    command = [sys.executable, "-m", "experiments.train", "--no-tensorboard"]
    for option, value in {**options, **changes}.items():
        command += _words(option, value)
    with jobs.alone_in(folder):
        if _is_finished(folder, seeds, steps):
            return folder
        if (folder / run_folder.CONFIG).exists():
            command.append("--resume")
        code = jobs.run(command, folder.name, runs / f"{folder.name}.log")
    if code:
        raise SystemExit(code)
    return folder


def _words(option: str, value: str | bool) -> list[str]:
    if isinstance(value, str):
        return [f"--{option}", value]
    group, dot, leaf = option.rpartition(".")
    return [f"--{option}" if value else f"--{group}{dot}no-{leaf}"]


def _is_finished(folder: Path, seeds: int, steps: int) -> bool:
    summary = folder / "summary.json"
    if not summary.exists():
        return False
    reached = json.loads(summary.read_text())
    if len(reached["final_return"]) != seeds:
        raise UsageError(
            f"the run in {folder} has {len(reached['final_return'])} seed(s), not {seeds}: "
            "give as many with --seeds, or another folder for all runs with --runs"
        )
    return bool(reached["complete"]) and reached["env_frames"] >= steps
