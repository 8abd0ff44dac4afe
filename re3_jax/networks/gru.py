"""A gated recurrent unit (Cho et al., 2014)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class GRU(NamedTuple):
    """Gates in the order update, reset, candidate.

    Keras's `GRUCell` with `reset_after`, and PyTorch's, whose order is reset, update, candidate.
    """

    kernel: Float[Array, "in 3*hidden"]
    recurrent: Float[Array, "hidden 3*hidden"]
    bias: Float[Array, " 3*hidden"]
    recurrent_bias: Float[Array, " 3*hidden"]


def gru_step(
    gru: GRU, x: Float[Array, "*batch in"], h: Float[Array, "*batch hidden"]
) -> Float[Array, "*batch hidden"]:
    """One step of the recurrence."""
    update, reset, candidate = jnp.split(x @ gru.kernel + gru.bias, 3, axis=-1)
    h_update, h_reset, h_candidate = jnp.split(h @ gru.recurrent + gru.recurrent_bias, 3, axis=-1)
    z = jax.nn.sigmoid(update + h_update)
    r = jax.nn.sigmoid(reset + h_reset)
    return z * h + (1 - z) * jnp.tanh(candidate + r * h_candidate)
