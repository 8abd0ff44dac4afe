"""Ranges and combinations: everything about a RunConfig that can be wrong by value."""

import math
from typing import Any

from experiments.config import RunConfig, frames_per_update, option_name
from experiments.errors import UsageError
from re3_jax.envs.base import Discrete, EnvSpec

INT32_MAX = 2**31 - 1

POSITIVE = (
    "seeds",
    "steps",
    "chunk_updates",
    "a2c.num_envs",
    "a2c.rollout_length",
    "a2c.learning_rate",
    "a2c.max_grad_norm",
    "a2c.hidden_dim",
    "evaluation.every_env_frames",
    "evaluation.episodes",
    "re3.first_neighbour",
    "re3.last_neighbour",
    "re3.ring_size",
    "re3.latent_dim",
    "re3.ensemble_size",
)
NOT_NEGATIVE = (
    "seed",
    "checkpoint_seconds",
    "a2c.rmsprop_eps",
    "a2c.entropy_coef",
    "a2c.value_coef",
    "re3.beta",
)
UNIT_INTERVAL = ("a2c.rmsprop_decay", "a2c.discount", "a2c.gae_lambda", "re3.rho")


def validate_values(values: dict[str, Any]) -> None:
    """Checks the values of a RunConfig, by dotted name, before it is made.

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
    if values["steps"] > INT32_MAX:
        raise UsageError(
            f"--steps {values['steps']} is too large: counters are 32-bit, at most {INT32_MAX}"
        )


def validate_for_task(config: RunConfig, spec: EnvSpec) -> None:
    """Checks a configuration against the task it is for.

    Raises:
      UsageError: agent and task do not fit, or there is not one update to do.
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
    if name in POSITIVE and value <= 0:
        raise UsageError(f"{option} {value} is not positive: give a number above 0")
    if name in NOT_NEGATIVE and value < 0:
        raise UsageError(f"{option} {value} is negative: give 0 or more")
    if name in UNIT_INTERVAL and not 0 <= value <= 1:
        raise UsageError(f"{option} {value} is outside [0, 1]: give a number between 0 and 1")


def _check_re3(values: dict[str, Any]) -> None:
    first, last = values["re3.first_neighbour"], values["re3.last_neighbour"]
    ring, lanes, steps = (
        values["re3.ring_size"],
        values["a2c.num_envs"],
        values["a2c.rollout_length"],
    )
    if first > last:
        raise UsageError(
            f"--re3.first-neighbour {first} is above --re3.last-neighbour {last}: "
            "neighbours are counted from the nearest, so give first <= last"
        )
    if last > ring:
        raise UsageError(
            f"--re3.last-neighbour {last} is above --re3.ring-size {ring}: "
            "a ring has no more neighbours than rows, so lower one or raise the other"
        )
    if ring < lanes * steps:
        raise UsageError(
            f"--re3.ring-size {ring} cannot hold one rollout of {lanes * steps} states "
            f"({lanes} lanes x {steps} steps): give at least {lanes * steps}"
        )
