"""Soft actor-critic as a `Learner`: random actions first, then so many updates with each step."""

from functools import partial
from typing import Any

import jax
from jaxtyping import Array, Int, PRNGKeyArray

from re3_jax import batch_split
from re3_jax.agents.base import Info, Learner, LearnerState, Phase, acting_on, reported
from re3_jax.agents.off_policy import off_policy_learner, transition_storage
from re3_jax.agents.sac import replays
from re3_jax.agents.sac.agent import Update, make_sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import EnvSpec
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.rewarding import with_bonus
from re3_jax.replay.frame_stack import FrameStack


def make_learner(config: SACConfig, spec: EnvSpec, bonus: IntrinsicReward) -> Learner:
    """SAC, RAD or DrQ for one task.

    Args:
      config: numbers of the agent.
      spec: the task.
      bonus: rewards it for exploring; RE3's `ring_size` must be `replay_capacity`.

    Raises:
      ValueError: the agent cannot act in the task, the replay is smaller than one step of all
        lanes, or there are no images and `n_steps` is above 1.
    """
    agent, lanes = make_sac(config, spec), config.num_envs
    frames = FrameStack(spec.frame_stack)
    if config.replay_capacity < lanes:
        raise ValueError(
            f"a replay of {config.replay_capacity} transitions does not hold one step of {lanes} "
            "lanes: raise replay_capacity or lower num_envs"
        )
    if config.n_steps > 1 and not spec.is_image:
        raise ValueError(
            f"{spec.task} has flat observations, of which single steps are stored: set n_steps to "
            f"1 instead of {config.n_steps}"
        )
    if spec.is_image:
        storage = replays.of_frames(config, spec, agent.action_dim, bonus.index_shape)
    else:
        storage = transition_storage(
            config.replay_capacity, config.batch_size, spec, bonus.index_shape
        )

    def updates_due(before: Any, after: Any) -> Any:
        del before
        is_due = (after >= config.initial_agent_steps) & (after // lanes % config.update_every == 0)
        return is_due * config.updates_per_step

    def phase_of(update: Update) -> Phase:
        def phase(
            state: LearnerState, agent_steps: Int[Array, ""], key: PRNGKeyArray
        ) -> tuple[LearnerState, Info]:
            sample_key, bonus_key, agent_key = jax.random.split(key, 3)
            with jax.named_scope("sample"):
                batch, index = batch_split.split(storage.sample(sample_key, state.replay))
            batch, intrinsic, bonus_info = with_bonus(
                bonus,
                state.intrinsic,
                batch,
                index,
                agent_steps,
                bonus_key,
                partial(agent.value, state.agent),
            )
            with jax.named_scope("update"):
                learned, info = update(state.agent, batch, agent_key)
            return state._replace(agent=learned, intrinsic=intrinsic), reported(info, bonus_info)

        return phase

    # One object for each different update: the host loop compiles each once.
    phases = {update: phase_of(update) for update in dict.fromkeys(agent.phases)}
    return off_policy_learner(
        spec,
        bonus,
        lanes,
        agent.init,
        acting_on(agent.act, frames),
        storage,
        frames=frames,
        updates_due=updates_due,
        phases=tuple(phases[update] for update in agent.phases),
        random_agent_steps=config.initial_agent_steps,
        value=agent.value,
    )
