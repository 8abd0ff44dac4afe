"""Random whole numbers and places, drawn from random 32-bit words.

Farama's generator draws again until a place is free; here one is drawn from those that are free,
which has the same distribution. A draw among n outcomes has a total variation of less than n / 2^32
from the uniform distribution.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt32

from re3_jax.envs.device.minigrid.codes import Scalar, Whole

Word = UInt32[Array, "*draws"]


def draw_words(key: PRNGKeyArray, number: int) -> UInt32[Array, " {number}"]:
    """Random words, of 32 bits where JAX's default is 64 too."""
    return jax.random.bits(key, (number,), jnp.uint32)


def below(word: Word, bound: Whole) -> tuple[Int[Array, "*draws"], Word]:
    """Returns floor(word * bound / 2^32) and the remaining fraction as 32 bits (bound < 2^16)."""
    count = jnp.asarray(bound).astype(jnp.uint32)
    carry = ((word & 0xFFFF) * count) >> 16
    high = ((word >> 16) * count + carry) >> 16
    return high.astype(jnp.int32), word * count


def uniform(word: Word, low: Whole, high: Whole) -> Int[Array, "*draws"]:
    """A whole number from `low` to `high` - 1; the arguments broadcast."""
    return low + below(word, jnp.asarray(high) - low)[0]


def ranks(words: UInt32[Array, " item"]) -> Int[Array, " item"]:
    """A random order: the rank of each item, each order with the same probability.

    The total variation is less than that of two equal words, n^2 / 2^33 for n items.
    """
    index = jnp.arange(words.shape[0])
    is_before = words[None, :] < words[:, None]
    is_equal = words[None, :] == words[:, None]
    is_before |= is_equal & (index[None, :] < index[:, None])
    return jnp.sum(is_before, axis=1, dtype=jnp.int32)


def chosen(word: UInt32[Array, ""], allowed: Bool[Array, " place"]) -> Scalar:
    """The index of one of the places that are allowed, each with the same probability."""
    target, _ = below(word, jnp.sum(allowed))
    return jnp.argmax(jnp.cumsum(allowed) > target).astype(jnp.int32)
