"""Rainbow as a `Learner`: prioritised n-step transitions, and updates every so many agent steps.

The policy acts from the start, as in Kaixhin/Rainbow: its noise explores, or epsilon does.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.agents.base import (
    Action,
    Frame,
    Info,
    Learner,
    LearnerState,
    Observation,
    acting_on,
    reported,
)
from re3_jax.agents.off_policy import Storage, if_drawn, info_if_drawn, off_policy_learner
from re3_jax.agents.rainbow.agent import RainbowBatch, make_rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.envs.base import EnvSpec, LaneStep
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.rewarding import with_bonus
from re3_jax.replay import prioritized
from re3_jax.replay.frame_stack import FrameStack
from re3_jax.replay.prioritized import PrioritizedReplay


def make_learner(config: RainbowConfig, spec: EnvSpec, bonus: IntrinsicReward) -> Learner:
    """Rainbow for one task.

    Args:
      config: numbers of the agent.
      spec: the task, with discrete actions.
      bonus: rewards it for exploring; RE3's `ring_size` must be `replay_capacity`.

    Raises:
      ValueError: the agent cannot act in the task, the capacity is no multiple of the lanes, or
        there could be nothing to sample when an update is due.
    """
    check_sizes(config, spec)
    agent, lanes, n = make_rainbow(config, spec), config.num_envs, config.n_steps
    frames = FrameStack(spec.frame_stack, "zeros")
    channels = spec.frame_shape[-1]

    def empty(frame: Frame) -> PrioritizedReplay:
        del frame
        return prioritized.init(
            config.replay_capacity // lanes,
            lanes,
            spec.frame_shape,
            spec.observation_dtype,
            n=n,
            stack=spec.frame_stack,
            index_shape=bonus.index_shape,
        )

    def add(
        replay: PrioritizedReplay,
        observation: Observation,
        action: Action,
        step: LaneStep,
        index: Int[Array, " lane *index"],
    ) -> PrioritizedReplay:
        return prioritized.add(
            replay,
            observation[..., -channels:],
            action,
            jnp.clip(step.reward, -config.reward_clip, config.reward_clip),
            step.task_ended,
            step.truncated,
            index,
            n=n,
            stack=spec.frame_stack,
        )

    storage = Storage(
        init=empty,
        cut=lambda replay, frame: prioritized.cut(replay),
        add=add,
        sample=lambda key, replay: prioritized.sample(
            key, replay, config.batch_size, n=n, stack=spec.frame_stack, gamma=config.discount
        ),
    )

    def update(
        state: LearnerState, agent_steps: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[LearnerState, Info]:
        sample_key, bonus_key, agent_key = jax.random.split(key, 3)
        replay, beta = state.replay, priority_weight(config, agent_steps)
        # Where time limits came within n steps of every step there is nothing: all weights are then
        # 0, and with them gradients. To keep the old networks, as the bonus is kept below, would
        # copy all of them in every update.
        is_drawn = prioritized.can_sample(replay)
        with jax.named_scope("sample"):
            drawn = storage.sample(sample_key, replay)
        batch = RainbowBatch(
            observation=drawn.observation,
            action=drawn.action,
            reward=drawn.reward,
            bonus=jnp.zeros_like(drawn.reward),
            discount=drawn.discount,
            next_observation=drawn.next_observation,
            weight=jnp.where(
                is_drawn, prioritized.importance_weights(drawn.probability, beta), 0.0
            ),
        )
        batch, intrinsic, bonus_info = with_bonus(
            bonus,
            state.intrinsic,
            batch,
            drawn.bonus_index,
            agent_steps,
            bonus_key,
            partial(agent.value, state.agent),
            next_observation=drawn.following,
            # The replay has the frame of the next episode where the task ended.
            next_is_known=~drawn.ended,
        )
        with jax.named_scope("update"):
            learned, priority, info = agent.update(state.agent, batch, agent_key)
        if config.prioritized:
            priority = jnp.where(is_drawn, priority, 0.0)
            replay = prioritized.update_priorities(replay, drawn.slot, priority)
        intrinsic = if_drawn(is_drawn, intrinsic, state.intrinsic)
        after = state._replace(agent=learned, intrinsic=intrinsic, replay=replay)
        return after, info_if_drawn(is_drawn, reported(info, bonus_info))

    def updates_due(before: Any, after: Any) -> Any:
        every = config.agent_steps_per_update
        return (after >= config.initial_agent_steps) * (after // every - before // every)

    return off_policy_learner(
        spec,
        bonus,
        lanes,
        agent.init,
        acting_on(agent.act, frames),
        storage,
        frames=frames,
        updates_due=updates_due,
        phases=(update,),
        learns=("agent", "intrinsic", "replay"),
        value=agent.value,
    )


def priority_weight(config: RainbowConfig, agent_steps: Int[Array, ""]) -> Float[Array, ""] | float:
    """Beta of the importance weights: linear from the first update to `anneal_agent_steps`."""
    if not config.prioritized:
        return 0.0
    length = max(config.anneal_agent_steps - config.initial_agent_steps, 1)
    done = jnp.clip((agent_steps - config.initial_agent_steps) / length, 0.0, 1.0)
    return config.priority_weight + (1.0 - config.priority_weight) * done


def check_sizes(config: RainbowConfig, spec: EnvSpec) -> None:
    """Refuses a replay from which nothing could be drawn when an update is due.

    Where an environment cuts episodes before its time limit there may still be nothing; an update
    then has gradients of 0 and leaves priorities and bonus as they are.

    Raises:
      ValueError: if the capacity is no multiple of the number of lanes, or a transition of
        `n_steps` would not be whole in time, or never.
    """
    if config.replay_capacity % config.num_envs:
        raise ValueError(
            f"a replay of {config.replay_capacity} agent steps is not a whole number of steps of "
            f"{config.num_envs} lanes: make replay_capacity a multiple of num_envs"
        )
    window = config.num_envs * config.n_steps
    if config.initial_agent_steps <= window:
        raise ValueError(
            f"initial_agent_steps is {config.initial_agent_steps}, but the first transition of "
            f"{config.n_steps} steps of {config.num_envs} lanes is whole after {window}: raise it"
        )
    # Windows that a time limit cuts are never drawn, nor rows whose stack is no longer whole: what
    # is stored must reach beyond both.
    least = config.num_envs * (2 * (config.n_steps + 1) + spec.frame_stack - 1)
    if config.replay_capacity < least:
        raise ValueError(
            f"a replay of {config.replay_capacity} agent steps can be without a transition of "
            f"{config.n_steps} steps: raise replay_capacity to {least} or more"
        )
    if spec.max_agent_steps <= config.n_steps:
        raise ValueError(
            f"episodes of {spec.task} end after {spec.max_agent_steps} agent steps, which "
            f"leaves no transition of {config.n_steps}: lower n_steps"
        )
