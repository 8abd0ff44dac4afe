"""The paper's tables as code: task, agent, bonus and preset -> RunConfig."""

import dataclasses

from experiments.config import DEFAULT_PRESET, LEARNED, AgentName, BonusName, PresetName, RunConfig
from experiments.errors import UsageError
from experiments.presets import atari, brax, dmc, gymnax, minigrid, pixels
from re3_jax.envs.registry import canonical

SUITES = {
    "minigrid": minigrid,
    "dmc": dmc,
    "brax": brax,
    "gymnax": gymnax,
    "pixels": pixels,
    "atari": atari,
}


def resolve(
    env: str,
    agent: AgentName | None = None,
    bonus: BonusName | None = None,
    preset: PresetName = DEFAULT_PRESET,
    fine_tunes: bool = False,
) -> RunConfig:
    """Everything a run needs; an agent or bonus not given is the task's default.

    A run that starts from a pre-trained one (`fine_tunes`) has the rows "+ PT" of the tables.
    Whether the agent can act in the task is not asked here (see `validate.validate_for_task`).

    Raises:
      UsageError: the task is not known (the sentence offers the nearest names), or there is no
        such preset for it.
    """
    try:
        suite, _, task_id = canonical(env).partition(":")
    except ValueError as error:
        raise UsageError(str(error)) from None
    for only, of_suite, what in (
        ("small", "dmc", "tasks of DeepMind Control"),
        ("data_efficient", "atari", "Atari games"),
    ):
        if preset == only and suite != of_suite:
            others = "small, " * (suite == "dmc") + "data_efficient, " * (suite == "atari")
            raise UsageError(
                f"--preset {only} is for {what}, which {env} is not one of: choose recommended, "
                f"paper, released, {others}or debug"
            )
    module = SUITES[suite]
    agent = agent or module.default_agent(task_id)
    bonus = bonus or module.DEFAULT_BONUS
    config = module.preset(task_id, preset, agent)
    if bonus in LEARNED:
        # An observation met again has another latent by then.
        re3 = dataclasses.replace(config.re3, merge_copies=False)
        config = dataclasses.replace(config, re3=re3)
        if suite == "atari":
            config = atari.with_learned_encoder(task_id, config)
    return dataclasses.replace(
        module.fine_tuned(task_id, config) if fine_tunes else config,
        env=env,
        agent=agent,
        bonus=bonus,
        preset=preset,
    )
