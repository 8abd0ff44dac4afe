"""Computes over a batch in parts of a few elements, to save memory and to fit a CPU's caches.

Reason: with jaxlib 0.10.2 a gradient keeps the residuals of every layer for the whole batch:
several gigabytes for Dreamer's 2,500 images, over half a gigabyte for its imagined steps. In parts
of 250 these arrays stay small and near the core.

Remove when: the whole batch at once is as fast on a CPU and fits in memory
(`benchmarks.dreamer_update` measures both).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from re3_jax import batch_split, checks
from re3_jax.cpu.branches import of_platform

AT_ONCE = 250
"""Largest number of elements in a part."""

Means = TypeVar("Means")
"""A pytree of arrays."""


def map_parts(
    function: Callable[[Any], Float[Array, "part ..."]], batch: Any
) -> Float[Array, "batch ..."]:
    """Computes `function(batch)` in parts on every backend.

    Gradients of the values that `function` closes over are summed over the parts in their own
    dtype.

    Args:
      function: takes a part; each row of its result depends on one element only.
      batch: pytree with leaves [batch, ...], any dtype.
    """
    out = jax.lax.map(function, _split(batch, 0))
    return _joined(out)


def mean_over_batch(function: Callable[..., Means], *batch: Any, axes: tuple[int, ...]) -> Means:
    """Computes `function(*batch)`, in parts on a CPU.

    Other backends take the whole batch at once, which keeps them busy.

    Args:
      function: takes a part; every leaf of its result is a mean over the elements, of a float
        dtype.
      batch: the function's arguments, pytrees of arrays.
      axes: for each argument, the batch axis of its leaves.
    """

    def in_parts(*batch):
        parts = tuple(_split(x, axis) for x, axis in zip(batch, axes, strict=True))

        def add(total, part):
            return jax.tree.map(jnp.add, total, function(*part)), None

        zeros = jax.tree.map(jnp.zeros_like, jax.eval_shape(function, *batch))
        total, _ = jax.lax.scan(add, zeros, parts)
        number = len(jax.tree.leaves(parts)[0])
        return jax.tree.map(lambda x: x / number, total)

    return of_platform(*batch, cpu=in_parts, default=function)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def mean_loss(
    loss: Callable[[Any, Any, Any], Float[Array, ""]], parameters: Any, inputs: Any, targets: Any
) -> Float[Array, ""]:
    """Computes `loss(parameters, inputs, targets)` in parts on every backend.

    Under differentiation, each part computes its gradient together with its loss, so that no
    residuals outlive the part. Supports first derivatives in reverse mode.

    Args:
      loss: mean over the elements of a part, float32; it closes over no traced value.
      parameters: pytree of a float dtype, with gradients.
      inputs: pytree with leaves [batch, ...] of a float dtype, with gradients.
      targets: pytree with leaves [batch, ...], any dtype, without gradients.
    """
    parts = _split((inputs, targets), 0)
    return jnp.mean(jax.lax.map(lambda part: loss(parameters, *part), parts))


def _loss_and_gradients(loss, parameters, inputs, targets):
    parts = _split((inputs, targets), 0)
    of_part = jax.value_and_grad(loss, (0, 1))

    def add(total, part):
        value, (d_parameters, d_inputs) = of_part(parameters, *part)
        return jax.tree.map(jnp.add, total, (value, d_parameters)), d_inputs

    zeros = jnp.float32(0), jax.tree.map(jnp.zeros_like, parameters)
    (total, d_parameters), d_inputs = jax.lax.scan(add, zeros, parts)
    number = len(jax.tree.leaves(parts)[0])
    d_inputs = jax.tree.map(_joined, d_inputs)
    return total / number, jax.tree.map(lambda d: d / number, (d_parameters, d_inputs))


def _scale_gradients(loss, gradients, d_loss):
    del loss
    return *jax.tree.map(lambda d: d_loss * d, gradients), None


mean_loss.defvjp(_loss_and_gradients, _scale_gradients)


def _split(batch, axis: int):
    """Splits `axis` of each leaf into parts, which become the first axis.

    A part has as many elements of every device's share, where a batch is divided (`batch_split`):
    of consecutive ones a single device would have all.
    """
    shares = batch_split.num_devices()
    size = checks.largest_divisor(jax.tree.leaves(batch)[0].shape[axis] // shares, AT_ONCE)

    def of_leaf(leaf):
        before, after = leaf.shape[:axis], leaf.shape[axis + 1 :]
        parts = jnp.moveaxis(leaf.reshape(*before, shares, -1, size, *after), axis + 1, 0)
        return parts.reshape(len(parts), *before, shares * size, *after)

    return jax.tree.map(of_leaf, batch)


def _joined(parts: Float[Array, "part element ..."]) -> Float[Array, "batch ..."]:
    """What `_split` has split along the first axis."""
    number, size, *after = parts.shape
    shares = batch_split.num_devices()
    in_order = jnp.swapaxes(parts.reshape(number, shares, size // shares, *after), 0, 1)
    return in_order.reshape(number * size, *after)
