"""A ring of latents y_i on the device, in which RE3 searches for neighbours."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from re3_jax import fingerprint

FAR = 2e19
"""What a latent whose square is not finite is stored as in every dimension.

Its own square overflows float32, so that it is a neighbour of nothing, and a query with it finds
NaN; but its product with any latent is a number, which a search may compare with others.
"""


class LatentRing(NamedTuple):
    """First-in-first-out store; rows at or past `num_valid` are zero and not yet written.

    Attributes:
      latents: float32 rows.
      squared_norms: |y_i|^2 of each row; +inf for one that is `FAR`.
      fingerprints: of the observation behind each row, see `fingerprint`.
      cursor: row that the next insertion writes first.
      num_valid: number of rows written so far, at most the capacity.
    """

    latents: Float[Array, "capacity latent"]
    squared_norms: Float[Array, " capacity"]
    fingerprints: UInt32[Array, " capacity"]
    cursor: Int[Array, ""]
    num_valid: Int[Array, ""]


def init(capacity: int, latent_dim: int) -> LatentRing:
    """An empty ring of `capacity` rows of `latent_dim` float32.

    Raises:
      ValueError: if either is not positive.
    """
    check_size(capacity, latent_dim)
    return LatentRing(
        latents=jnp.zeros((capacity, latent_dim), jnp.float32),
        squared_norms=jnp.zeros((capacity,), jnp.float32),
        fingerprints=jnp.zeros((capacity,), jnp.uint32),
        cursor=jnp.zeros((), jnp.int32),
        num_valid=jnp.zeros((), jnp.int32),
    )


def row_at(ring: LatentRing, index: Int[Array, " batch"]) -> Int[Array, " batch"]:
    """Rows of `ring.latents` at places that `add` returned: the places themselves."""
    del ring
    return index


def place_in_newest(
    cursor: Int[Array, ""],
    capacity: int,
    newest_cursor: Int[Array, ""],
    size: int,
    place: Int[Array, " batch"],
) -> Int[Array, " batch"]:
    """Where a ring of `size` newest latents holds those at places of one of `capacity`.

    -1 for those older than its oldest. The same was stored in both; the cursors are where each
    writes next.
    """
    age = (cursor - 1 - place) % capacity
    return jnp.where(age < size, (newest_cursor - 1 - age) % size, -1)


def add(
    ring: LatentRing,
    latents: Float[Array, "batch latent"],
    fingerprints: UInt32[Array, " batch"] | None = None,
) -> tuple[LatentRing, Int[Array, " batch"]]:
    """Writes a batch over the oldest rows; also returns the rows that were written.

    Args:
      ring: updated in place by XLA if the caller does not use it again.
      latents: one row each; `FAR` replaces those that are NaN or infinite.
      fingerprints: `fingerprint.of` the observations; with None, of the latents themselves.

    Example:
      >>> import jax.numpy as jnp
      >>> from re3_jax.replay import latent_ring
      >>> ring = latent_ring.init(capacity=3, latent_dim=2)
      >>> ring, index = latent_ring.add(ring, jnp.ones((2, 2)))
      >>> ring, index = latent_ring.add(ring, jnp.zeros((2, 2)))
      >>> index.tolist(), int(ring.num_valid)
      ([2, 0], 3)

    Raises:
      ValueError: if the batch has more rows than the ring, or latents of another length.
    """
    capacity, batch_size = ring.latents.shape[0], latents.shape[0]
    check_batch(latents, *ring.latents.shape)
    index = (ring.cursor + jnp.arange(batch_size, dtype=jnp.int32)) % capacity
    if fingerprints is None:
        fingerprints = fingerprint.of(latents)
    latents, norms = measurable(latents)
    return (
        LatentRing(
            latents=ring.latents.at[index].set(
                latents, unique_indices=True, mode="promise_in_bounds"
            ),
            squared_norms=ring.squared_norms.at[index].set(
                norms, unique_indices=True, mode="promise_in_bounds"
            ),
            fingerprints=ring.fingerprints.at[index].set(
                fingerprints, unique_indices=True, mode="promise_in_bounds"
            ),
            cursor=(ring.cursor + batch_size) % capacity,
            num_valid=jnp.minimum(ring.num_valid + batch_size, capacity),
        ),
        index,
    )


def measurable(
    latents: Float[Array, "batch latent"],
) -> tuple[Float[Array, "batch latent"], Float[Array, " batch"]]:
    """The latents, `FAR` in place of those whose square is not finite, and |y_i|^2 of each.

    Both are float32: squares of half precision would overflow, and order rows wrongly.
    """
    latents = latents.astype(jnp.float32)
    norms = jnp.sum(latents * latents, axis=1)
    is_finite = jnp.isfinite(norms)
    return jnp.where(is_finite[:, None], latents, FAR), jnp.where(is_finite, norms, jnp.inf)


def check_size(capacity: int, latent_dim: int) -> None:
    """Rejects a ring that cannot hold anything.

    Raises:
      ValueError: if either size is not positive.
    """
    if capacity < 1 or latent_dim < 1:
        raise ValueError(
            f"a ring of {capacity} rows of {latent_dim} numbers cannot hold anything: "
            "both must be at least 1"
        )


def check_batch(latents: Float[Array, "batch latent"], capacity: int, latent_dim: int) -> None:
    """Rejects a batch that would overwrite itself, or of latents of another length.

    Raises:
      ValueError: if the batch has more latents than the ring has places, or they do not fit them.
    """
    if latents.ndim != 2:
        raise ValueError(
            f"latents of shape {list(latents.shape)} are no batch: give [batch, {latent_dim}]"
        )
    batch_size, width = latents.shape
    if width != latent_dim:
        raise ValueError(
            f"latents of {width} numbers do not fit a ring of rows of {latent_dim}: make the "
            "encoder's latent_dim what its encode returns"
        )
    if batch_size > capacity:
        raise ValueError(
            f"a batch of {batch_size} latents does not fit a ring of {capacity} rows: "
            "make the ring at least as large as one rollout"
        )
