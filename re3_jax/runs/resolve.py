"""Task, agent, bonus and preset -> RunConfig."""

import dataclasses
from typing import Any, get_args

from re3_jax.runs import bonuses, suites
from re3_jax.runs.config import (
    AgentName,
    BonusName,
    PresetName,
    RunConfig,
    config_class,
    flatten,
    unflatten,
)
from re3_jax.runs.errors import UsageError, refusing


def resolve(
    env: str,
    agent: AgentName | None = None,
    bonus: BonusName | None = None,
    preset: PresetName = RunConfig.preset,
    fine_tunes: bool = False,
) -> RunConfig:
    """A complete configuration; the default agent is the task's, the default bonus RE3.

    A run that starts from a pre-trained one (`fine_tunes`) uses the rows "+ PT" of the tables.
    `validate.validate_for_task` checks whether the agent can act in the task.

    Raises:
      UsageError: the task is not known (the sentence offers the nearest names), there is no
        such preset for it, or its suite returns no configuration.
    """
    suite, task_id = suites.find(env)
    if not _has(suite, preset):
        owners = " and ".join(s.tasks for s in suites.SUITES.values() if preset in s.own_presets)
        *others, last = (name for name in get_args(PresetName) if _has(suite, name))
        raise UsageError(
            f"--preset {preset} is for {owners}, which {env} is not one of: choose "
            f"{', '.join(others)} or {last}"
        )
    agent = agent or suites.default_agent(env)
    bonus = bonus or RunConfig.bonus
    config = _returned(suite, "preset", suite.preset(task_id, preset, agent))
    with refusing(ValueError):
        parts = bonuses.parts(bonus)
    if any(part.is_learned for part in parts):
        # A repeated observation has another latent by then.
        re3 = dataclasses.replace(config.re3, merge_copies=False)
        config = suite.with_learned_encoder(task_id, dataclasses.replace(config, re3=re3))
        config = _returned(suite, "with_learned_encoder", config)
    given = {name: value for part in parts for name, value in part.values.items()}
    config = unflatten(flatten(config) | given)
    named = {"env": env, "agent": agent, "bonus": bonus, "preset": preset}
    config = config_class()(**vars(config) | named)
    if not fine_tunes:
        return config
    return _returned(suite, "fine_tuned", suite.fine_tuned(task_id, config))


def _returned(suite: suites.Suite, function: str, config: Any) -> RunConfig:
    """What a function of a suite returned; a UsageError unless it is a configuration."""
    if not isinstance(config, RunConfig):
        raise UsageError(
            f"{function} of the suite {suite.name} returns a {type(config).__name__}: return a "
            "re3_jax.runs.config.RunConfig"
        )
    return config


def _has(suite: suites.Suite, preset: PresetName) -> bool:
    return preset in suite.own_presets or not any(
        preset in other.own_presets for other in suites.SUITES.values()
    )
