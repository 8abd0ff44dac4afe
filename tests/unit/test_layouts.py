"""Short rows innermost: the numbers stay, and so does the order, in training and after a restore.

A CPU keeps arrays in any order that it is asked for, so it can stand in for a TPU here.
"""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import tiles
from re3_jax.accelerators import targets
from re3_jax.accelerators.cost import report
from re3_jax.agents.rainbow import learner as rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.sac.config import SACConfig
from re3_jax.agents.sac.learner import make_learner
from re3_jax.cpu import branches
from re3_jax.intrinsic import RE3Config, from_config
from re3_jax.intrinsic.base import none
from re3_jax.knn import nearest_distances
from re3_jax.replay import frame_ring, latent_ring, sequence_ring
from re3_jax.runs import fine_tuning
from re3_jax.training import layouts, transfer
from re3_jax.training.checkpoint import CheckpointStore
from re3_jax.training.off_policy import make_off_policy_program
from re3_jax.training.seeds import OverSeeds
from tests.probe_envs import aim, corridor

CAPACITY, WIDTH = 40, 6
TURNED = 0, 2, 1
SAC = SACConfig(
    hidden_dim=8, num_envs=2, batch_size=8, replay_capacity=CAPACITY, initial_agent_steps=10,
    # One kind of update compiles in less time than two.
    actor_every=1, target_every=1,
)  # fmt: skip
RE3 = RE3Config(ring_size=CAPACITY, latent_dim=WIDTH, normalize="running_std")


def make():
    env = aim(4)
    learner = make_learner(SAC, env.spec, from_config(RE3))
    return make_off_policy_program(env, learner, chunk_steps=9, eval_episodes=2, eval_greedy=True)


def begin(program):
    return program.init(jnp.asarray([1, 2], jnp.int32))


def trained(program, state):
    state, _ = program.train(state)
    return state


def order(leaf):
    return leaf.format.layout.major_to_minor


def latents_of(state):
    return state.intrinsic.bonus.ring.latents


def assert_same_numbers(ours, theirs):
    def check(a, b):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))

    jax.tree.map(check, ours, theirs)


@pytest.fixture(scope="module")
def usual():
    """The state after two chunks in the usual order."""
    program = make()
    state = begin(program)
    assert order(latents_of(state)) == (0, 1, 2)
    return trained(program, trained(program, state))


def turn(patch):
    patch.setattr(layouts, "PLATFORMS", ("cpu",))
    patch.setattr(layouts, "MANY_ROWS", CAPACITY)
    patch.setattr(tiles, "PADDING_BYTES", 0)


@pytest.fixture(scope="module")
def shared():
    """Compiled by the first test that trains with it, in the order of that time."""
    with pytest.MonkeyPatch.context() as patch:
        turn(patch)
        return make()


@pytest.fixture
def turned(monkeypatch, shared):
    turn(monkeypatch)
    return shared


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((1, CAPACITY, WIDTH), jnp.float32, TURNED),
        ((1, 3, CAPACITY, WIDTH), jnp.int32, (0, 1, 3, 2)),
        ((1, CAPACITY, 56), jnp.float32, TURNED),
        ((1, CAPACITY, 57), jnp.float32, (0, 1, 2)),
        ((1, CAPACITY, 150), jnp.float32, (0, 1, 2)),
        ((CAPACITY, WIDTH), jnp.float32, None),
        ((1, CAPACITY, WIDTH), jnp.uint8, None),
        ((1, CAPACITY, 1), jnp.float32, None),
        ((1, CAPACITY, tiles.TILE), jnp.float32, None),
        ((1, CAPACITY - 1, WIDTH), jnp.float32, None),
    ],
)
def test_which_arrays(turned, shape, dtype, expected):
    sharding = OverSeeds().sharding
    found = layouts.format_of(jax.ShapeDtypeStruct(shape, dtype), sharding)
    if expected is None:
        assert found is sharding
    else:
        assert found.layout.major_to_minor == expected


@pytest.mark.parametrize(
    ("rows", "width", "whole"),
    [
        (100_000, 50, True),
        (100_000, 6, True),
        (250_500, 50, True),
        (250_501, 6, False),
        (1_000_000, 50, False),
        (1_000_000, 78, True),
    ],
)
def test_rows_lie_whole_where_that_wastes_little(monkeypatch, rows, width, whole):
    """Latents and actions of RAD, Dreamer and Rainbow: 29, 48, 72, 120 and 288 MB of padding.

    Rows of 78 take 512 bytes instead of 320, less than twice, whatever their number.
    """
    monkeypatch.setattr(layouts, "PLATFORMS", ("cpu",))
    for shape in ((1, rows, width), (4, rows, width)):
        leaf = jax.ShapeDtypeStruct(shape, jnp.float32)
        found = layouts.format_of(leaf, OverSeeds().sharding).layout.major_to_minor
        assert found == ((0, 1, 2) if whole else TURNED)


def test_training(turned, usual):
    state = begin(turned)
    assert order(latents_of(state)) == TURNED
    for _ in range(2):
        state = trained(turned, state)
        assert order(latents_of(state)) == TURNED
    assert order(state.replay.reward) == (0, 1)
    assert_same_numbers(state, usual)
    assert turned.evaluate(state).return_mean.shape == (2,)


def test_restored(turned, usual, tmp_path):
    state = trained(turned, begin(turned))
    store = CheckpointStore(tmp_path)
    store.save(1, state, {})
    found, _ = store.restore(turned.template(2), print)
    store.close()
    assert order(latents_of(found)) == TURNED
    assert_same_numbers(trained(turned, turned.resume(found)), usual)


def test_restored_from_the_journal_of_a_replay(monkeypatch, tmp_path):
    """Frames of vectors, which checkpoints do not hold themselves."""
    turn(monkeypatch)
    env = corridor(10)
    config = RainbowConfig(
        torso="mlp", hidden_dim=8, batch_size=8, replay_capacity=CAPACITY, initial_agent_steps=16
    )
    learner = rainbow.make_learner(config, env.spec, none())
    program = make_off_policy_program(
        env, learner, chunk_steps=40, eval_episodes=2, eval_greedy=True
    )
    state = trained(program, program.init(jnp.asarray([1], jnp.int32)))
    assert order(state.replay.frames.array) == TURNED
    store = CheckpointStore(tmp_path)
    store.save(1, state, {})
    found, _ = store.restore(program.template(1), print)
    store.close()
    assert order(found.replay.frames.array) == TURNED
    assert_same_numbers(trained(program, program.resume(found)), trained(program, state))


def test_inherited(turned, monkeypatch):
    """A run that starts from another trains, although it takes over arrays in the usual order."""
    monkeypatch.setattr(layouts, "MANY_ROWS", 2)
    program = make()
    fresh = begin(program)
    learned = {name: np.asarray(leaf) for name, leaf in transfer.inherited(fresh).items()}
    state = fine_tuning.begin(fresh, learned)
    assert TURNED in {order(leaf) for leaf in jax.tree.leaves(state.agent) if leaf.ndim == 3}
    assert np.isfinite(latents_of(trained(program, state))).all()


def of_seeds(over_seeds, seeds, tree):
    """The shapes of a tree, with so many seeds, where they lie."""
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((seeds, *x.shape), x.dtype), tree)
    return over_seeds.with_shardings(shapes)


@pytest.fixture
def over_seeds():
    """One TPU that is not here."""
    v5e = targets.TARGETS["v5e"]
    if (missing := targets.missing_compiler(v5e)) is not None:
        pytest.skip(f"no compiler for v5e: {missing} is not installed")
    return OverSeeds(targets.devices(v5e)[:1])


@pytest.mark.parametrize(
    ("seeds", "rows", "dim", "batch"),
    [
        *((1, 10**6, 50, 32), (4, 10**6, 50, 32), (1, 10**6, 150, 32)),
        *((1, 10**5, 50, 512), (4, 10**5, 50, 256)),
    ],
)
def test_latents_on_a_tpu(over_seeds, seeds, rows, dim, batch):
    """Storing some, looking them up and searching among all move rows, not the ring."""

    def search(ring, index):
        return nearest_distances(ring.latents[index], ring, k=3)

    def shapes(tree):
        return of_seeds(over_seeds, seeds, tree)

    ring = shapes(jax.eval_shape(lambda: latent_ring.init(rows, dim)))
    latents = shapes(jax.ShapeDtypeStruct((batch, dim), jnp.float32))
    index = shapes(jax.ShapeDtypeStruct((batch,), jnp.int32))
    for lowered in (
        over_seeds.compile(latent_ring.add, donate=0).lower(ring, latents),
        over_seeds.compile(search).lower(ring, index),
    ):
        found = report(lowered.compile())
        assert max(found.largest_copy, found.temporaries) < 4 * rows * dim / 2


@pytest.mark.parametrize(
    ("seeds", "rows", "in_turn"),
    [(3, 100_000, True), (1, 100_000, False), (3, 10_000, False), (3, 250_500, False)],
)
def test_which_rings_a_tpu_searches_in_turn(seeds, rows, in_turn):
    """Those of several seeds that are worth it and that its chip holds: 51 MB, not 5 or 128."""
    ring = jax.eval_shape(jax.vmap(lambda _: latent_ring.init(rows, 50)), jnp.zeros(seeds))
    queries = jax.ShapeDtypeStruct((seeds, 8, 50), jnp.float32)
    with branches.tracing_for("tpu"):
        traced = jax.make_jaxpr(jax.vmap(partial(nearest_distances, k=3)))(queries, ring)
    # Printed with what it calls: whether that is a call of its own differs between versions of JAX.
    assert bool(re.search(rf"\blength={seeds}\b", str(traced))) == in_turn


def test_lookup_of_latents_on_a_tpu(over_seeds):
    """Dreamer looks the latents of a batch up and, by default, searches among these alone."""
    rows, dim, batch = 250_500, 50, 2_500
    latents = of_seeds(over_seeds, 1, jax.ShapeDtypeStruct((rows, dim), jnp.float32))
    index = of_seeds(over_seeds, 1, jax.ShapeDtypeStruct((batch,), jnp.int32))
    lowered = over_seeds.compile(lambda latents, index: latents[index]).lower(latents, index)
    found = report(lowered.compile())
    assert max(found.largest_copy, found.temporaries) < 4 * rows * dim / 2


@pytest.mark.parametrize("seeds", [1, 4])
def test_actions_of_frames_on_a_tpu(over_seeds, seeds):
    """Storing a step moves its action and frames, not all actions of any seed."""
    rows, size = 100_000, (16, 16, 3)
    replay = jax.eval_shape(lambda: frame_ring.init(rows, 1, size, 6, 3, 100))
    action, number = jnp.zeros((1, 6)), jnp.zeros(1)
    frame, done, index = jnp.zeros((1, *size), jnp.uint8), jnp.zeros(1, bool), jnp.zeros(1, int)
    step = replay, action, number, number, frame, frame, done, index
    found = report(
        over_seeds.compile(frame_ring.add, donate=0)
        .lower(*of_seeds(over_seeds, seeds, step))
        .compile()
    )
    assert max(found.largest_copy, found.temporaries) < 4 * rows * 6 / 2


def test_actions_of_sequences_on_a_tpu(over_seeds):
    """Writing an episode's first frame and drawing sequences move some actions, not all."""
    rows, length, size = 250_000, 50, (16, 16, 3)
    shapes = partial(of_seeds, over_seeds, 1)
    replay = shapes(jax.eval_shape(lambda: sequence_ring.init(rows, 1, size, 6, length)))
    key = shapes(jax.eval_shape(lambda: jax.random.key(0)))
    frame = shapes(jax.ShapeDtypeStruct((1, *size), jnp.uint8))

    def drawn(key, replay):
        return sequence_ring.sample(key, replay, 8, length)

    for lowered in (
        over_seeds.compile(sequence_ring.begin, donate=0).lower(replay, frame),
        over_seeds.compile(drawn).lower(key, replay),
    ):
        found = report(lowered.compile())
        assert max(found.largest_copy, found.temporaries) < 4 * rows * 6 / 2
