"""Copies of an observation are recognised however a processor rounds their latents.

If a convolution's rounding depends on the place in the batch, latents of copies differ by some
1e-6. The tests add noise of that size to every latent, which is more than any processor does;
copies must still be counted, merged and found at distance exactly 0.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import fingerprint, knn
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.re3 import encoder_from
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import state_entropy
from re3_jax.replay import distinct_ring, latent_ring

ACTION = Box((2,), -1.0, 1.0)
SPECS = {
    "views": EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360),
    "pixels": EnvSpec("dmc:any", (20, 20, 9), np.dtype(np.uint8), ACTION, 500),
    "odd pixels": EnvSpec("dmc:any", (21, 23, 9), np.dtype(np.uint8), ACTION, 500),
    "grey": EnvSpec("atari:any", (36, 36, 4), np.dtype(np.uint8), Discrete(4), 500, colours=1),
    "vectors": EnvSpec("gymnax:any", (5,), np.dtype(np.float32), Discrete(3), 200),
}
RINGS = {"plain": latent_ring, "distinct": distinct_ring}


def draw(spec, seed, count):
    rng = np.random.default_rng(seed)
    shape = (count, *spec.observation_shape)
    if spec.observation_dtype == np.uint8:
        return jnp.asarray(rng.integers(0, 6 if len(shape) == 4 else 256, shape), jnp.uint8)
    return jnp.asarray(rng.normal(size=shape), jnp.float32)


def shaken(encoder, size=1e-6):
    """The encoder on the worst possible processor: no two latents round alike."""

    def encode(state, observation):
        latents = encoder.encode(state, observation)
        # Different in every batch, because the seed depends on all of its numbers.
        seed = jnp.sum(fingerprint.of(observation) * jnp.arange(1, len(observation) + 1))
        noise = jax.random.normal(jax.random.key(seed.astype(jnp.uint32)), latents.shape)
        return latents * (1 + size * noise)

    return encoder._replace(encode=encode)


def slow(*cases):
    return (pytest.param(*case, marks=pytest.mark.slow) for case in cases)


@pytest.mark.parametrize("merge_copies", [True, *slow((False,))])
@pytest.mark.parametrize(
    ("task", "batch"),
    [
        *((task, 33) for task in ("views", "grey", "vectors")),
        *(("pixels", 3), ("odd pixels", 8)),
        *slow(("pixels", 33), ("odd pixels", 33)),
    ],
)
def test_copies_earn_nothing_at_any_place_of_any_batch(task, batch, merge_copies):
    """Four new observations, then the same four among others, in a batch of another size."""
    spec = SPECS[task]
    config = RE3Config(
        first_neighbour=1, last_neighbour=1, count_self=False, ring_size=80, latent_dim=16,
        num_filters=4, merge_copies=merge_copies,
    )  # fmt: skip
    bonus = state_entropy(config, shaken(encoder_from(config)))
    known, fresh = draw(spec, 1, 4), draw(spec, 2, batch)
    place = np.random.default_rng(batch).permutation(batch)[: min(4, batch - 1)]
    later = fresh.at[place].set(known[: len(place)])

    @jax.jit
    def run(key):
        state, _ = bonus.observe(bonus.init(key, spec), Step(known))
        state, index = bonus.observe(state, Step(later))
        return bonus.reward(state, IntrinsicBatch(later, None, None, index, jnp.int32(0)))

    reward, state, info = run(jax.random.key(0))
    is_copy = np.isin(np.arange(batch), place)
    np.testing.assert_array_equal(reward == 0, is_copy)
    np.testing.assert_allclose(info["duplicate_share"], is_copy.mean(), rtol=1e-6)
    if merge_copies:
        assert np.count_nonzero(np.asarray(state.ring.copies)) == 4 + batch - len(place)


@pytest.mark.parametrize("neighbours", ["minibatch", "stored_minibatch"])
@pytest.mark.parametrize(
    "task", ["views", "odd pixels", *slow(("pixels",), ("grey",), ("vectors",))]
)
def test_copies_within_a_minibatch(task, neighbours):
    spec = SPECS[task]
    config = RE3Config(
        first_neighbour=1, last_neighbour=1, count_self=False, ring_size=80, latent_dim=16,
        num_filters=4,
    )  # fmt: skip
    bonus = state_entropy(config, shaken(encoder_from(config)), neighbours)
    images = draw(spec, 3, 17)
    images = images.at[16].set(images[2]).at[9].set(images[2])

    @jax.jit
    def run(key):
        state, index = bonus.observe(bonus.init(key, spec), Step(images))
        return bonus.reward(state, IntrinsicBatch(images, None, None, index, jnp.int32(0)))[0]

    np.testing.assert_array_equal(run(jax.random.key(0)) == 0, np.isin(np.arange(17), [2, 9, 16]))


def test_only_what_the_encoder_sees_makes_a_copy():
    """Only the newest frame decides, not the frames before it."""
    spec = SPECS["pixels"]
    config = RE3Config(
        first_neighbour=1, last_neighbour=1, count_self=False, ring_size=20, latent_dim=16,
        num_filters=4,
    )  # fmt: skip
    bonus = state_entropy(config, shaken(encoder_from(config)))
    images = draw(spec, 4, 6)
    images = images.at[5, ..., 6:].set(images[0, ..., 6:])

    @jax.jit
    def run(key):
        state, index = bonus.observe(bonus.init(key, spec), Step(images))
        return bonus.reward(state, IntrinsicBatch(images, None, None, index, jnp.int32(0)))[0]

    np.testing.assert_array_equal(run(jax.random.key(0)) == 0, [True, *[False] * 4, True])


@partial(jax.jit, static_argnames=("kind", "k", "excluding"))
def search(latents, identity, kind, k, excluding):
    """The k nearest of all latents to each of them."""
    ring = RINGS[kind].init(*latents.shape)
    ring, index = RINGS[kind].add(ring, latents, identity)
    row = RINGS[kind].row_at(ring, index)
    return knn.nearest_distances(
        ring.latents[row], ring, k=k, fingerprints=identity, exclude=row if excluding else None
    )


@pytest.mark.parametrize("kind", RINGS)
@pytest.mark.parametrize("excluding", [False, True])
@pytest.mark.parametrize("copies", [1, 2, 3, 40])
def test_copies_count_as_often_as_they_are_stored(kind, excluding, copies):
    """Against a sort in float64, which identifies copies by number and not by distance."""
    rng = np.random.default_rng(copies)
    number = np.repeat(np.arange(1200 // copies), copies)[rng.permutation(1200 // copies * copies)]
    kinds = rng.normal(size=(number.max() + 1, 20))
    noise = 1e-6 * rng.normal(size=(len(number), 20))
    latents = (kinds[number] * (1 + noise)).astype(np.float32)
    identity = fingerprint.of(jnp.asarray(number)[:, None])
    found = np.asarray(search(latents, identity, kind, 5, excluding))
    squared = ((kinds[number][:, None] - kinds[number]) ** 2).sum(-1)
    if excluding:
        np.fill_diagonal(squared, np.inf)
    expected = np.sqrt(np.sort(squared, axis=1)[:, :5])
    np.testing.assert_array_equal(found == 0, expected == 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.bool_])
@pytest.mark.parametrize("size", [1, 2, 147, 4000])
def test_a_fingerprint_depends_on_the_observation_alone(dtype, size):
    rng = np.random.default_rng(size)
    batch = rng.integers(0, 256, (40, size)).astype(dtype)
    together = np.asarray(jax.jit(fingerprint.of)(batch))
    alone = [int(fingerprint.of(jnp.asarray(one)[None])[0]) for one in batch[:5]]
    np.testing.assert_array_equal(together[:5], alone)
    order = rng.permutation(40)
    np.testing.assert_array_equal(jax.jit(fingerprint.of)(batch[order]), together[order])
    assert len(np.unique(together)) == len(np.unique(batch, axis=0))


def test_neighbouring_observations_never_collide():
    """Changing one element to any other byte, at any place, changes the fingerprint."""
    base = np.random.default_rng(0).integers(0, 256, 48).astype(np.uint8)
    near = np.tile(base, (48 * 255, 1))
    place = np.arange(48 * 255)
    near[place, place // 255] += (1 + place % 255).astype(np.uint8)
    found = np.asarray(fingerprint.of(jnp.asarray(np.concatenate([base[None], near]))))
    assert (found[1:] != found[0]).all()
    assert len(np.unique(found)) >= len(found) - 1
    assert fingerprint.of(jnp.zeros((1, 3))) == fingerprint.of(-jnp.zeros((1, 3)))


def test_64_bit_elements_have_the_fingerprints_of_the_32_bits_that_encoders_see():
    wide = np.random.default_rng(0).normal(size=(5, 3))
    with jax.enable_x64(True):
        found = fingerprint.of(jnp.asarray(wide)), fingerprint.of(jnp.asarray(wide * 9).astype(int))
    assert (found[0] == fingerprint.of(jnp.asarray(wide, jnp.float32))).all()
    assert (found[1] == fingerprint.of(jnp.asarray(wide * 9, jnp.int32))).all()


def test_latents_of_one_observation_by_two_encoders_stay_apart():
    """A learned encoder has changed in between, so the distance between latents counts."""
    latents = jnp.array([[1.0, 0.0], [1.01, 0.0], [1.0, 5.0]])
    same = jnp.zeros(3, jnp.uint32)
    for kind in RINGS:
        found = search(latents, same, kind, 1, True)
        np.testing.assert_allclose(found[:2, 0], 0.01, rtol=1e-4)


@pytest.mark.parametrize("kind", RINGS)
def test_a_copy_is_found_despite_nearer_latents_of_others(kind):
    """Four hundred other latents are ten times nearer than the copy, by less than rounding."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=50)
    away = np.where(np.arange(2000) < 400, 3e-6, 1.0)[:, None]
    latents = base * (1 + away * rng.normal(size=(2000, 50)))
    latents[1234], latents[5] = base * (1 + 4e-5 * rng.normal(size=50)), base
    number = np.arange(2000)
    number[1234] = 5
    order = rng.permutation(2000)
    identity = fingerprint.of(jnp.asarray(number[order])[:, None])
    found = np.asarray(search(latents[order].astype(np.float32), identity, kind, 1, True))[:, 0]
    np.testing.assert_array_equal(found == 0, np.isin(order, [5, 1234]))
