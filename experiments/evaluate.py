"""`python -m experiments.evaluate --run DIR`: evaluates the last checkpoint of a run."""

import argparse
import dataclasses
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp

from experiments import machine, run_folder
from experiments.build import build, make_environment, seed_numbers
from experiments.errors import UsageError, refuse_lack_of_memory
from re3_jax.training.checkpoint import CheckpointStore


def evaluate(run: Path, episodes: int | None, greedy: bool | None) -> dict[str, object]:
    """Statistics per seed of the newest whole checkpoint in `run`.

    Args:
      run: a run folder.
      episodes: episodes per seed; the run's own number by default.
      greedy: take the most probable action; the run's own choice by default.

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
    program = build(config, make_environment(config.env))
    seeds = seed_numbers(config)
    store = CheckpointStore(run / run_folder.CHECKPOINTS)
    try:
        found = store.restore(program.init(jnp.asarray(seeds, jnp.int32)), _warn)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if found is None:
        raise UsageError(f"{run} has no checkpoint to evaluate: train it first")
    state, record = found
    stats = jax.device_get(program.evaluate(state))
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
    words = parser.parse_args(argv)
    machine.use_every_core()
    machine.keep_compiled_programs()
    try:
        with refuse_lack_of_memory("--episodes"):
            print(json.dumps(evaluate(words.run, words.episodes, words.greedy), indent=2))
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _warn(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
