"""The number of screens seen, against a set of Go-Explore's cells."""

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.training import screens


def cell(frame):
    """A Go-Explore cell: the shade of each block's mean."""
    side = frame.shape[0] // 12
    blocks = [
        frame[side * i : side * (i + 1), side * j : side * (j + 1)].mean()
        for i in range(12)
        for j in range(12)
    ]
    return tuple(int(mean * 8 / 256) for mean in blocks)


def test_counts_different_cells():
    rng = np.random.default_rng(0)
    # Few kinds of frames, so that cells repeat, and noise too small to make a new cell.
    kinds = rng.integers(0, 8, (300, 12, 12))
    drawn = kinds[rng.integers(0, 300, 700)]
    frames = np.repeat(np.repeat(drawn * 32 + 10, 7, axis=1), 7, axis=2)
    frames = (frames + rng.integers(-8, 9, frames.shape)).astype(np.uint8)
    see, table, seen = jax.jit(screens.see), screens.none_seen(), set()
    for i in range(0, 700, 100):
        table = see(table, jnp.asarray(frames[i : i + 100]))
        seen |= {cell(frame) for frame in frames[i : i + 100]}
        assert int(screens.count(table)) == len(seen)
    assert 250 < len(seen) <= 300


def test_places_are_spread_evenly():
    """As many collisions as random places have, by the birthday problem."""
    rng = np.random.default_rng(1)
    frames = rng.integers(0, 256, (20_000, 12, 12)).astype(np.uint8)
    # One block differs from one plain screen at a time, as in games.
    frames[:10_000] = 0
    which = np.arange(10_000)
    frames[which, which % 144 // 12, which % 12] = (which // 144 % 8 * 32).astype(np.uint8)
    different = len({frame.tobytes() for frame in frames // 32})
    places = np.unique(jax.jit(screens.place_of)(jnp.asarray(frames)))
    expected = different - different**2 / (2 * screens.PLACES)
    assert abs(len(places) - expected) < 6 * np.sqrt(different**2 / (2 * screens.PLACES))


def test_odd_sizes_ignore_the_remaining_pixels():
    frames = np.random.default_rng(2).integers(0, 256, (5, 86, 90)).astype(np.uint8)
    np.testing.assert_array_equal(
        screens.shrink(jnp.asarray(frames)), screens.shrink(jnp.asarray(frames[:, :84, :84]))
    )
