"""Repeated elements of a batch, against NumPy."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.cpu.branches import tracing_for
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.re3 import encoder_from
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import state_entropy
from re3_jax.repeats import (
    ALL_PAIRS,
    AT_ONCE,
    AT_ONCE_ON_A_CPU,
    first_places,
    once_each,
    once_each_element,
)


@pytest.mark.parametrize("size", [1, 7, ALL_PAIRS, ALL_PAIRS + 1, 1000])
@pytest.mark.parametrize("kinds", [1, 5, 2**32])
def test_where_a_value_comes_first(size, kinds):
    values = np.random.default_rng(size).integers(0, kinds, size, dtype=np.uint32)
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    found = jax.jit(first_places)(values)
    assert found.dtype == jnp.int32
    np.testing.assert_array_equal(found, first[inverse])
    # Negative values are values, too: a ring has -1 for a place without a row.
    signed = values.astype(np.int32)
    np.testing.assert_array_equal(first_places(jnp.asarray(signed)), first[inverse])


@pytest.fixture(params=["cpu", "gpu"])
def at_once(request):
    """Distinct values for which work is done together, on the platform that is traced for."""
    with tracing_for(request.param):
        yield {"cpu": AT_ONCE_ON_A_CPU, "gpu": AT_ONCE}[request.param]


@pytest.mark.parametrize("tiles", [1.0, 1.01, 4.99])
def test_work_is_done_once_for_each_value(tiles, at_once):
    calls, size = [], math.ceil(tiles * at_once)

    def function(values):
        jax.debug.callback(lambda x: calls.append(x), values)
        return {"square": values * values, "pair": jnp.stack([values, -values], axis=1)}

    program = jax.jit(lambda values: once_each(function, values))
    for kinds in (1, at_once, at_once + 1, 10**6):
        values = np.random.default_rng(kinds).integers(0, kinds, size, dtype=np.int32)
        calls.clear()
        found = jax.block_until_ready(program(values))
        np.testing.assert_array_equal(found["square"], values * values)
        np.testing.assert_array_equal(found["pair"], np.stack([values, -values], axis=1))
        jax.effects_barrier()
        distinct = np.unique(values)
        assert len(calls) == (1 if size <= at_once else -(-len(distinct) // at_once)), kinds
        np.testing.assert_array_equal(np.unique(calls), distinct)


def test_batches_of_several_members():
    values = np.random.default_rng(0).integers(0, 700, (3, 1000), dtype=np.int32)
    found = jax.jit(jax.vmap(lambda row: once_each(jnp.square, row)))(values)
    np.testing.assert_array_equal(found, values**2)


@pytest.mark.parametrize("tiles", [1, 4])
def test_equal_elements_share_their_result_and_hashes_may_collide(tiles, at_once):
    size = tiles * at_once
    elements = np.random.default_rng(1).integers(0, 2, (size, 3, 2), dtype=np.uint8)
    # 32 hashes of 64 kinds of elements.
    hashes = elements.reshape(size, -1)[:, :5] @ np.array([1, 2, 4, 8, 16], np.uint32)
    calls = []

    def function(elements):
        jax.debug.callback(lambda x: calls.append(x), elements)
        return jnp.cos(elements)

    found = jax.jit(lambda *given: once_each_element(function, *given))(elements, hashes)
    np.testing.assert_allclose(found, np.cos(elements.astype(np.float32)), rtol=1e-6)
    jax.effects_barrier()
    # Once for the kind that comes first with its hash, each time for the other one.
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    others = (elements != elements[first[inverse]]).any(axis=(1, 2)).sum()
    assert len(calls) == (1 if tiles == 1 else -(-(len(first) + others) // at_once))
    np.testing.assert_array_equal(once_each_element(function, elements, hashes), found)


def test_devices_that_share_a_batch_of_values():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("seed",))
    spec = jax.sharding.PartitionSpec("seed")
    values = jnp.arange(900, dtype=jnp.int32) % 300
    found = jax.jit(
        jax.shard_map(partial(once_each, jnp.square), mesh=mesh, in_specs=spec, out_specs=spec)
    )(values)
    np.testing.assert_array_equal(found, np.square(values))


VIEWS = EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360)


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"count_self": True}, marks=pytest.mark.slow),
        pytest.param({"ensemble_size": 2}, marks=pytest.mark.slow),
        {"search_size": 700},
    ],
)
def test_a_large_rollout_has_the_bonus_of_a_ring_that_merges_nothing(options):
    def run(merge_copies, key, rollouts):
        config = RE3Config(
            first_neighbour=1, last_neighbour=3, ring_size=1000, latent_dim=16, num_filters=4,
            **{"count_self": False, "merge_copies": merge_copies, **options},
        )  # fmt: skip
        bonus = state_entropy(config, encoder_from(config))
        state, _ = bonus.observe(bonus.init(key, VIEWS), Step(rollouts[0]))
        state, index = bonus.observe(state, Step(rollouts[1]))
        batch = IntrinsicBatch(rollouts[1], None, None, index, jnp.int32(0))
        return bonus.reward(state, batch)[0]

    keys = jax.random.split(jax.random.key(0), 2)
    merged, plain = (jax.jit(jax.vmap(partial(run, merges))) for merges in (True, False))
    for kinds in (40, 500):
        rng = np.random.default_rng(kinds)
        views = rng.integers(0, 6, (kinds, 7, 7, 3), dtype=np.uint8)
        rollouts = jnp.asarray(views[rng.integers(0, kinds, (2, 2, 600))])
        np.testing.assert_allclose(
            merged(keys, rollouts), plain(keys, rollouts), rtol=1e-4, atol=1e-5, err_msg=str(kinds)
        )
