"""Where soft actor-critic stores transitions: images frame by frame, flat observations whole."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import EnvSpec, LaneStep
from re3_jax.replay import frame_ring, transition_ring
from re3_jax.replay.frame_ring import FrameReplay
from re3_jax.replay.transition_ring import TransitionRing
from re3_jax.replay.transitions import Transitions

Replay = Any
"""A `FrameReplay` or a `TransitionRing`."""


class Store(NamedTuple):
    """A replay and how it is used.

    init: () -> replay
    begin: (replay, frame[lane]) -> replay; episodes of all lanes begin with `frame`
    add: (replay, observation[lane], action[lane], step, bonus_index[lane]) -> replay
    sample: (key, replay) -> (transitions, bonus_index[batch])
    """

    init: Callable[[], Replay]
    begin: Callable[[Replay, Shaped[Array, " lane *frame"]], Replay]
    add: Callable[..., Replay]
    sample: Callable[[PRNGKeyArray, Replay], tuple[Transitions, Int[Array, " batch *index"]]]


def of_frames(
    config: SACConfig, spec: EnvSpec, action_dim: int, index_shape: tuple[int, ...]
) -> Store:
    """Each frame once; stacks are put together when they are sampled."""

    def add(
        replay: FrameReplay,
        observation: Shaped[Array, " lane *observation"],
        action: Float[Array, "lane action"],
        step: LaneStep,
        index: Int[Array, " lane *index"],
    ) -> FrameReplay:
        del observation
        return frame_ring.add(
            replay,
            action,
            step.reward,
            1.0 - step.task_ended.astype(jnp.float32),
            step.frame,
            step.final_frame,
            step.done,
            index,
        )

    return Store(
        init=lambda: frame_ring.init(
            config.replay_capacity // config.num_envs,
            config.num_envs,
            spec.frame_shape,
            action_dim,
            spec.frame_stack,
            spec.max_agent_steps,
            index_shape,
        ),
        begin=frame_ring.start,
        add=add,
        sample=lambda key, replay: frame_ring.sample(
            key, replay, config.batch_size, spec.frame_stack, config.n_steps, config.discount
        ),
    )


def of_transitions(config: SACConfig, spec: EnvSpec, index_shape: tuple[int, ...]) -> Store:
    """Whole transitions."""

    def add(
        replay: TransitionRing,
        observation: Shaped[Array, " lane *observation"],
        action: Float[Array, "lane action"],
        step: LaneStep,
        index: Int[Array, " lane *index"],
    ) -> TransitionRing:
        return transition_ring.add(
            replay,
            observation,
            action,
            step.reward,
            1.0 - step.task_ended.astype(jnp.float32),
            step.final_frame,
            index,
        )

    return Store(
        init=lambda: transition_ring.init(config.replay_capacity, spec, index_shape),
        begin=lambda replay, frame: replay,
        add=add,
        sample=lambda key, replay: transition_ring.sample(key, replay, config.batch_size),
    )
