"""Estimates of returns that several agents use."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

MOST_UNROLLED = 16
"""Steps of a rollout in one turn of a loop: longer rollouts would take long to compile."""


def generalized_advantage(
    reward: Float[Array, "time batch"],
    value: Float[Array, "time batch"],
    next_value: Float[Array, "time batch"],
    done: Bool[Array, "time batch"],
    discount: float,
    gae_lambda: float,
) -> Float[Array, "time batch"]:
    """Generalised advantage estimation (Schulman et al. 2016, Eq. 16).

    delta_t = r_t + gamma V'_t - V_t and A_t = delta_t + gamma lambda (1 - done_t) A_{t+1}.
    The caller chooses `next_value` V'_t: zero after termination, the value of the final
    observation to bootstrap at a time limit.
    """
    delta = reward + discount * next_value - value
    decay = discount * gae_lambda * (1.0 - done.astype(jnp.float32))

    def accumulate(advantage, step):
        step_delta, step_decay = step
        advantage = step_delta + step_decay * advantage
        return advantage, advantage

    unroll = min(len(delta), MOST_UNROLLED)
    _, advantage = jax.lax.scan(
        accumulate, jnp.zeros_like(delta[0]), (delta, decay), reverse=True, unroll=unroll
    )
    return advantage
