"""Evaluation of a state on request: with the run's settings or others."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError
from re3_jax.training.evaluate import EvalStats


def asked(config: RunConfig, episodes: int | None, greedy: bool | None) -> RunConfig:
    """The run with these settings of its evaluations; None leaves the run's own.

    Raises:
      UsageError: `episodes` is not positive.
    """
    if episodes is not None and episodes < 1:
        raise UsageError(f"--episodes {episodes} is not positive: give 1 or more")
    settings: dict[str, Any] = {"episodes": episodes, "greedy": greedy}
    settings = {name: value for name, value in settings.items() if value is not None}
    evaluation = dataclasses.replace(config.evaluation, **settings)
    return dataclasses.replace(config, evaluation=evaluation)


def described(config: RunConfig, stats: EvalStats, env_frames: int) -> dict[str, Any]:
    """The statistics of each seed, in JSON's types."""
    return {
        "env_frames": env_frames,
        "episodes": config.evaluation.episodes,
        "greedy": config.evaluation.greedy,
        "seeds": {
            str(seed): {
                name: float(getattr(stats, name)[i])
                for name in ("return_mean", "return_std", "length_mean")
            }
            for i, seed in enumerate(config.seed_numbers)
        },
        "return_mean": float(stats.return_mean.mean()),
    }


def check_filmed(config: RunConfig, frames: Sequence[np.ndarray]) -> None:
    """Refuses a video of a task that shows no frames."""
    if not frames:
        raise UsageError(
            f"--video needs a task of DeepMind Control or Atari, which {config.env} is not: "
            "leave it out"
        )
