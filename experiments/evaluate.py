"""`python -m experiments.evaluate --run DIR`: evaluates the last checkpoint of a run."""

import argparse
import dataclasses
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments import machine, run_folder
from experiments import video as mp4
from experiments.build import build, cpu_devices, seed_numbers, settle_renderer, task_spec
from experiments.errors import UsageError, refuse_lack_of_memory
from re3_jax.training.checkpoint import CheckpointStore


def evaluate(
    run: Path, episodes: int | None, greedy: bool | None, video: Path | None = None
) -> dict[str, object]:
    """Statistics per seed of the newest whole checkpoint in `run`.

    Args:
      run: a run folder.
      episodes: episodes per seed; the run's own number by default.
      greedy: take the most probable action; the run's own choice by default.
      video: MP4 to write of the first seed's first episode; pixel tasks only.

    Raises:
      UsageError: there is no run or no whole checkpoint.
    """
    if episodes is not None and episodes < 1:
        raise UsageError(f"--episodes {episodes} is not positive: give 1 or more")
    config = run_folder.stored_config(run)
    evaluation = dataclasses.replace(
        config.evaluation,
        episodes=config.evaluation.episodes if episodes is None else episodes,
        greedy=config.evaluation.greedy if greedy is None else greedy,
    )
    config = dataclasses.replace(config, evaluation=evaluation)
    machine.use_cpu_devices(cpu_devices(config))
    config = settle_renderer(config)
    runner = build(config, task_spec(config), _warn)
    seeds = seed_numbers(config)
    store = CheckpointStore(run / run_folder.CHECKPOINTS)
    frames: list[np.ndarray] = []
    try:
        found = store.restore(runner.template(), _warn)
        if found is None:
            raise UsageError(f"{run} has no checkpoint to evaluate: train it first")
        state, record = found
        stats = runner.start_evaluation(state, frames.append if video else None)()
    except ValueError as error:
        raise UsageError(str(error)) from None
    finally:
        runner.close()
    if video is not None:
        if not frames:
            raise UsageError(
                f"--video shows tasks that are seen as images, and {config.env} is not one: "
                "leave it out"
            )
        mp4.write(video, frames)
    return {
        "run": str(run),
        "env_frames": record["env_frames"],
        "episodes": evaluation.episodes,
        "greedy": evaluation.greedy,
        "seeds": {
            str(seed): {
                "return_mean": float(stats.return_mean[i]),
                "return_std": float(stats.return_std[i]),
                "length_mean": float(stats.length_mean[i]),
            }
            for i, seed in enumerate(seeds)
        },
        "return_mean": float(stats.return_mean.mean()),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the statistics as JSON."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(prog="python -m experiments.evaluate")
    parser.add_argument("--run", type=Path, required=True, metavar="DIR")
    parser.add_argument("--episodes", type=int, help="episodes per seed (default: the run's)")
    parser.add_argument(
        "--greedy",
        action=argparse.BooleanOptionalAction,
        help="take the most probable action (default: as the run does)",
    )
    parser.add_argument("--video", type=Path, metavar="FILE.mp4", help="write one episode")
    words = parser.parse_args(argv)
    machine.keep_compiled_programs()
    try:
        with refuse_lack_of_memory("--episodes"):
            stats = evaluate(words.run, words.episodes, words.greedy, words.video)
            print(json.dumps(stats, indent=2))
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _warn(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
