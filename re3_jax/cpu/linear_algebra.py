"""Matrix factorisations, one at a time.

Reason: on a CPU, jaxlib 0.10.2 calls OpenBLAS, and XLA runs independent calls in parallel. Several
batched factorisations in one program can then deadlock (two cores, two seeds, six matrices of
256 x 256).

Remove when: several `jnp.linalg.qr` of 256 x 256 under `vmap` over two seeds finish on two cores,
with OpenBLAS's default number of threads.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jaxtyping import Array, Float


class QR(NamedTuple):
    """Reduced QR factorisation of a matrix with at least as many rows as columns."""

    q: Float[Array, "rows columns"]
    r: Float[Array, "columns columns"]


def qr_one_at_a_time(matrices: Sequence[Float[Array, "rows columns"]]) -> list[QR]:
    """Reduced QR of each matrix; each begins after the one before it has finished.

    Args:
      matrices: of any shapes with rows >= columns, float32 or float64. Under `vmap` the matrices
        are factorised one after the other, too.

    Returns:
      Factors of the matrices, in their order and dtype.
    """
    factors: list[QR] = []
    for matrix in matrices:
        factors.append(_qr(_after(factors[-1].q, matrix) if factors else matrix))
    return factors


def _after(earlier: Float[Array, "..."], x: Float[Array, "..."]) -> Float[Array, "..."]:
    """`x`, with a dependence on `earlier` that makes XLA compute `earlier` first.

    Adding a zero that depends on `earlier` changes no number. `jax.lax.optimization_barrier` does
    not work here: XLA's CPU compiler removes it, and the order with it.
    """
    return x + 0.0 * earlier.ravel()[0]


@sequential_vmap
def _qr(matrix: Float[Array, "rows columns"]) -> QR:
    q, r = jnp.linalg.qr(matrix)
    return QR(q, r)
