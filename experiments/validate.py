"""Ranges and combinations of options, but for what A2CConfig and RE3Config refuse themselves."""

import math
from typing import Any

from experiments.config import (
    RunConfig,
    choose_chunk_updates,
    frames_per_update,
    option_name,
)
from experiments.errors import UsageError
from re3_jax.envs.base import Discrete, EnvSpec

INT32_MAX = 2**31 - 1

POSITIVE = (
    "seeds",
    "steps",
    "chunk_updates",
    "evaluation.every_env_frames",
    "evaluation.episodes",
)
NOT_NEGATIVE = ("seed", "checkpoint_seconds", "re3.beta")


def validate_values(values: dict[str, Any]) -> None:
    """Checks the values of a RunConfig by dotted name.

    Raises:
      UsageError: one sentence that names the option and a value that would do.
    """
    for name, value in values.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            _check_range(name, value)
    if values["bonus"] == "re3":
        _check_re3(values)
    if values["seed"] + values["seeds"] - 1 > INT32_MAX:
        raise UsageError(f"--seed {values['seed']} is too large: seeds end at {INT32_MAX}")


def validate_for_task(config: RunConfig, spec: EnvSpec) -> None:
    """Checks a configuration against the task it is for.

    Raises:
      UsageError: agent and task do not fit, there is not one update to do, or there are more
        env frames than can be counted.
    """
    if config.agent == "a2c" and not isinstance(spec.action_space, Discrete):
        raise UsageError(
            f"--agent a2c cannot act in {config.env}, whose actions are continuous: "
            "choose a task with discrete actions, such as doorkey_6x6 or gymnax:CartPole-v1"
        )
    update = frames_per_update(config, spec.action_repeat)
    repeat = f" x {spec.action_repeat} frames" if spec.action_repeat > 1 else ""
    for name, frames in (
        ("steps", config.steps),
        ("evaluation.every_env_frames", config.evaluation.every_env_frames),
    ):
        if frames < update:
            raise UsageError(
                f"{option_name(name)} {frames} is less than one update, which takes {update} env "
                f"frames ({config.a2c.num_envs} lanes x {config.a2c.rollout_length} steps"
                f"{repeat}): give at least {update}"
            )
    chunk = update * (config.chunk_updates or choose_chunk_updates(config, spec.action_repeat))
    # Whole chunks are trained, so the last one may end after STEPS.
    if -(-config.steps // chunk) * chunk > INT32_MAX:
        raise UsageError(
            f"--steps {config.steps} in chunks of {chunk} env frames is too large: counters are "
            f"32-bit, so give at most {INT32_MAX // chunk * chunk}"
            if chunk <= INT32_MAX
            else f"--chunk-updates {config.chunk_updates} is too large: a chunk would be {chunk} "
            f"env frames, and counters are 32-bit, so give at most {INT32_MAX // update}"
        )


def check_memory(needed_bytes: int, available_bytes: int | None, seeds: int) -> None:
    """Refuses a state that cannot fit.

    Raises:
      UsageError: the state of all seeds is larger than the memory that is free.
    """
    if available_bytes is not None and needed_bytes > available_bytes:
        raise UsageError(
            f"the state of {seeds} seeds takes {needed_bytes / 2**30:.1f} GiB and "
            f"{available_bytes / 2**30:.1f} GiB are free: lower --seeds, --re3.ring-size or "
            "--a2c.num-envs"
        )


def _check_range(name: str, value: Any) -> None:
    option = option_name(name)
    if not math.isfinite(value):
        raise UsageError(f"{option} {value} is not finite: give an ordinary number")
    if isinstance(value, int) and value > INT32_MAX:
        raise UsageError(f"{option} {value} is too large: counters are 32-bit, at most {INT32_MAX}")
    if name in POSITIVE and value <= 0:
        raise UsageError(f"{option} {value} is not positive: give a number above 0")
    if name in NOT_NEGATIVE and value < 0:
        raise UsageError(f"{option} {value} is negative: give 0 or more")


def _check_re3(values: dict[str, Any]) -> None:
    ring, lanes = values["re3.ring_size"], values["a2c.num_envs"]
    steps = values["a2c.rollout_length"]
    if ring < lanes * steps:
        raise UsageError(
            f"--re3.ring-size {ring} cannot hold one rollout of {lanes * steps} states "
            f"({lanes} lanes x {steps} steps): give at least {lanes * steps}"
        )
