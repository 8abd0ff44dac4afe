"""Numbers of actions and states as indices, whatever whole-number dtype they come in."""

import jax.numpy as jnp
from jaxtyping import Array, Int


def below(bound: int, number: Int[Array, " batch"]) -> Int[Array, " batch"]:
    """The numbers as int32, with `bound` in place of each that is not from 0 to `bound` - 1.

    Converted first, because beside uint8 a bound of 256 is 0.
    """
    number = number.astype(jnp.int32)
    return jnp.where((number >= 0) & (number < bound), number, bound)
