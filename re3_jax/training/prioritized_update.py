"""One update from prioritised n-step transitions: what Rainbow's device and host loop share."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.agents.base import Info
from re3_jax.agents.rainbow.agent import RainbowBatch, RainbowState
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.envs.base import EnvSpec
from re3_jax.intrinsic.base import IntrinsicReward, IntrinsicState
from re3_jax.replay import prioritized
from re3_jax.replay.prioritized import PrioritizedReplay
from re3_jax.training.learner import Metrics, learn


def update(
    agent_update: Callable[[RainbowState, RainbowBatch, PRNGKeyArray], tuple[RainbowState, Info]],
    bonus: IntrinsicReward,
    config: RainbowConfig,
    agent_state: RainbowState,
    intrinsic: IntrinsicState,
    replay: PrioritizedReplay,
    agent_steps: Int[Array, ""],
    key: PRNGKeyArray,
    *,
    stack: int,
) -> tuple[RainbowState, IntrinsicState, PrioritizedReplay, Metrics]:
    """Draws a batch by priority, rewards it, learns from it and gives it new priorities.

    Args:
      agent_update: Rainbow's.
      bonus: the intrinsic reward.
      config: numbers of the agent and of the loop.
      agent_state: Rainbow's state.
      intrinsic: the bonus's state.
      replay: what to draw from; it must hold a transition.
      agent_steps: taken so far.
      key: decides the batch and all that is random in the update.
      stack: frames of an observation; without a stack (1) frames are observations.
    """
    sample_key, learn_key = jax.random.split(key)
    drawn = prioritized.sample(
        sample_key,
        replay,
        config.batch_size,
        n=config.n_steps,
        stack=stack,
        gamma=config.discount,
    )
    observation, following = drawn.observation, drawn.next_observation
    if stack == 1:
        observation, following = observation[..., 0], following[..., 0]
    weight = priority_weight(config, agent_steps)
    batch = RainbowBatch(
        observation=observation,
        action=drawn.action,
        reward=drawn.reward,
        bonus=jnp.zeros_like(drawn.reward),
        discount=drawn.discount,
        next_observation=following,
        weight=prioritized.importance_weights(drawn.probability, weight),
    )
    agent_state, intrinsic, metrics = learn(
        agent_update,
        bonus,
        agent_state,
        intrinsic,
        lambda _: (batch, drawn.bonus_index),
        agent_steps,
        learn_key,
    )
    if config.prioritized:
        replay = prioritized.update_priorities(replay, drawn.slot, agent_state.priority)
    return agent_state, intrinsic, replay, metrics


def priority_weight(config: RainbowConfig, agent_steps: Int[Array, ""]) -> Float[Array, ""] | float:
    """Beta of the importance weights: linear from the first update to `anneal_agent_steps`."""
    if not config.prioritized:
        return 0.0
    length = max(config.anneal_agent_steps - config.initial_agent_steps, 1)
    done = jnp.clip((agent_steps - config.initial_agent_steps) / length, 0.0, 1.0)
    return config.priority_weight + (1.0 - config.priority_weight) * done


def check_sizes(config: RainbowConfig, spec: EnvSpec) -> None:
    """Refuses a replay from which nothing could be drawn when an update is due.

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
    # Windows that a time limit cuts are never drawn: what is stored must reach beyond one.
    if config.replay_capacity < 2 * (window + config.num_envs):
        raise ValueError(
            f"a replay of {config.replay_capacity} agent steps can be without a transition of "
            f"{config.n_steps} steps: raise replay_capacity to "
            f"{2 * (window + config.num_envs)} or more"
        )
    if spec.max_agent_steps <= config.n_steps:
        raise ValueError(
            f"episodes of {spec.task} end after {spec.max_agent_steps} agent steps, which "
            f"leaves no transition of {config.n_steps}: lower n_steps"
        )
