"""Where soft actor-critic stores transitions of images: each frame once."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from re3_jax.agents.off_policy import Storage
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import EnvSpec, LaneStep
from re3_jax.replay import frame_ring
from re3_jax.replay.frame_ring import FrameReplay


def of_frames(
    config: SACConfig, spec: EnvSpec, action_dim: int, index_shape: tuple[int, ...]
) -> Storage:
    """Each frame once; stacks are put together when they are sampled.

    It samples `Transitions` and their bonus_index [batch, ...].
    """

    def init(frame: Shaped[Array, " lane *frame"]) -> FrameReplay:
        empty = frame_ring.init(
            config.replay_capacity // config.num_envs,
            config.num_envs,
            spec.frame_shape,
            action_dim,
            spec.frame_stack,
            spec.max_agent_steps,
            index_shape,
        )
        return frame_ring.begin(empty, frame)

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

    return Storage(
        init=init,
        cut=frame_ring.begin,
        add=add,
        sample=lambda key, replay: frame_ring.sample(
            key, replay, config.batch_size, spec.frame_stack, config.n_steps, config.discount
        ),
    )
