"""Evaluation of a state on request: with the run's settings or others."""

import contextlib
import dataclasses
import operator
from collections.abc import Callable
from typing import Any

from re3_jax.runs import suites
from re3_jax.runs.build import build, task_spec
from re3_jax.runs.config import MOST_EPISODES, RunConfig
from re3_jax.runs.errors import UsageError, refuse_lack_of_memory
from re3_jax.runs.session import Session
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.host_evaluation import Frames


def asked(config: RunConfig, episodes: int | None, greedy: bool | None) -> RunConfig:
    """The run with these settings of its evaluations; None leaves the run's own.

    Raises:
      UsageError: `episodes` is no whole number from 1 to `MOST_EPISODES`.
    """
    if episodes is not None and not _is_possible(episodes):
        raise UsageError(
            f"--episodes {episodes} is not possible: give a whole number from 1 to "
            f"{MOST_EPISODES:,}"
        )
    settings: dict[str, Any] = {"episodes": episodes, "greedy": greedy}
    settings = {name: value for name, value in settings.items() if value is not None}
    evaluation = dataclasses.replace(config.evaluation, **settings)
    return dataclasses.replace(config, evaluation=evaluation)


def _is_possible(episodes: Any) -> bool:
    try:
        return 1 <= operator.index(episodes) <= MOST_EPISODES
    except TypeError:
        return False


def played(
    session: Session, config: RunConfig, film: Frames | None, say: Callable[[str], None]
) -> EvalStats:
    """Episodes of a session's present state with the settings of `config`; `film` gets the frames.

    Raises:
      UsageError: they do not fit into memory.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(refuse_lack_of_memory("--episodes"))
        runner = session.runner
        if config.evaluation != session.config.evaluation:
            runner = stack.enter_context(contextlib.closing(build(config, task_spec(config), say)))
        return runner.start_evaluation(session.state, film)()


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


def check_films(config: RunConfig) -> None:
    """Refuses a film of a task that shows no frames."""
    if not suites.shows_frames(config.env):
        raise UsageError(
            "a video or a strip needs a task on the host that is seen as pixels, such as one of "
            f"DeepMind Control or Atari, which {config.env} is not: leave it out"
        )
