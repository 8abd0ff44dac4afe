"""The paper's tables as code: task, agent, bonus and preset -> RunConfig."""

import dataclasses

from experiments.config import DEFAULT_PRESET, AgentName, BonusName, PresetName, RunConfig
from experiments.errors import UsageError
from experiments.presets import gymnax, minigrid
from re3_jax.envs.registry import canonical

SUITES = {"minigrid": minigrid, "gymnax": gymnax}


def resolve(
    env: str,
    agent: AgentName | None = None,
    bonus: BonusName | None = None,
    preset: PresetName = DEFAULT_PRESET,
) -> RunConfig:
    """Everything a run needs; an agent or bonus not given is the task's default.

    Raises:
      UsageError: the task is not known; the sentence offers the nearest names.
    """
    try:
        suite, _, task_id = canonical(env).partition(":")
    except ValueError as error:
        raise UsageError(str(error)) from None
    module = SUITES[suite]
    return dataclasses.replace(
        module.preset(task_id, preset),
        env=env,
        agent=agent or module.DEFAULT_AGENT,
        bonus=bonus or module.DEFAULT_BONUS,
        preset=preset,
    )
