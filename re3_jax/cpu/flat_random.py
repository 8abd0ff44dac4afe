"""Functions of `jax.random` that draw along one axis, and then shape: the same numbers.

Reason: with jaxlib 0.10.2 a program that draws [16, 7] uniform numbers for each of five seeds on a
CPU takes 4.3 seconds of a core to compile and 48 us to run; where it draws [112] and reshapes them,
1.0 seconds and 17 us. (Measured once, by no command of this repository, and not on accelerators.)

Remove when: `compile_seconds` of `benchmarks.a2c --seeds 5` are as few without it.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int, PRNGKeyArray

Shape = tuple[int, ...]


def normal(key: PRNGKeyArray, shape: Shape, dtype: DTypeLike = jnp.float32) -> Float[Array, "..."]:
    """`jax.random.normal`."""
    return _shaped(lambda flat: jax.random.normal(key, flat, dtype), shape)


def uniform(
    key: PRNGKeyArray,
    shape: Shape,
    dtype: DTypeLike = jnp.float32,
    minval: float | Float[Array, "..."] = 0.0,
    maxval: float | Float[Array, "..."] = 1.0,
) -> Float[Array, "..."]:
    """`jax.random.uniform`; bounds broadcast to `shape`."""
    low, high = (_flat(bound, shape) for bound in (minval, maxval))
    return _shaped(lambda flat: jax.random.uniform(key, flat, dtype, low, high), shape)


def randint(
    key: PRNGKeyArray, shape: Shape, minval: int, maxval: int | Int[Array, "..."]
) -> Int[Array, "..."]:
    """`jax.random.randint`, int32; the upper bound broadcasts to `shape`."""
    high = _flat(maxval, shape)
    return _shaped(lambda flat: jax.random.randint(key, flat, minval, high, jnp.int32), shape)


def categorical(key: PRNGKeyArray, logits: Float[Array, "*batch n"]) -> Int[Array, "*batch"]:
    """`jax.random.categorical` over the last axis, int32."""
    noise = _shaped(lambda flat: jax.random.gumbel(key, flat, logits.dtype), logits.shape)
    return jnp.argmax(logits + noise, axis=-1).astype(jnp.int32)


def _shaped(draw: Callable[[Shape], Array], shape: Shape) -> Array:
    return draw((math.prod(shape),)).reshape(shape)


def _flat(bound: float | Array, shape: Shape) -> float | Array:
    return jnp.broadcast_to(bound, shape).reshape(-1) if jnp.ndim(bound) else bound
