"""Soft actor-critic as a `Learner`: random actions first, then so many updates with each step."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from re3_jax import batch_split
from re3_jax.agents.base import (
    Action,
    Frame,
    Info,
    Learner,
    LearnerState,
    Phase,
    acting_on,
    observe,
    reported,
)
from re3_jax.agents.sac import replays
from re3_jax.agents.sac.agent import Update, make_sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import EnvSpec, LaneStep
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
        store_of = replays.of_frames(config, spec, agent.action_dim, bonus.index_shape)
    else:
        store_of = replays.of_transitions(config, spec, bonus.index_shape)

    def init(key: PRNGKeyArray, frame: Frame) -> LearnerState:
        agent_key, bonus_key = jax.random.split(key)
        return LearnerState(
            agent=agent.init(agent_key),
            intrinsic=bonus.init(bonus_key, spec, lanes),
            replay=store_of.begin(store_of.init(), frame),
            memory=frames.first(frame),
        )

    def restart(state: LearnerState, frame: Frame) -> LearnerState:
        return state._replace(
            intrinsic=bonus.restart(state.intrinsic, jnp.ones(lanes, bool)),
            replay=store_of.begin(state.replay, frame),
            memory=frames.first(frame),
        )

    def store(state: LearnerState, action: Action, step: LaneStep) -> LearnerState:
        observation = state.memory
        value_of = partial(agent.value, state.agent)
        intrinsic, index = observe(
            bonus, state.intrinsic, frames, observation, action, step, value_of
        )
        return state._replace(
            intrinsic=intrinsic,
            replay=store_of.add(state.replay, observation, action, step, index),
            memory=frames.following(observation, step.frame, step.done),
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
                batch, index = batch_split.split(store_of.sample(sample_key, state.replay))
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
    return Learner(
        spec=spec,
        num_lanes=lanes,
        random_agent_steps=config.initial_agent_steps,
        acting=acting_on(agent.act, frames),
        init=init,
        restart=restart,
        store=store,
        updates_due=updates_due,
        phases=tuple(phases[update] for update in agent.phases),
    )
