"""The parts of `make look`: components, neighbours, heat maps, and pictures of observations."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from re3_jax.agents.base import Acting
from re3_jax.envs import registry
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.envs.device import minigrid
from re3_jax.replay import (
    distinct_ring,
    frame_ring,
    latent_ring,
    prioritized,
    sequence_ring,
    transition_ring,
)
from re3_jax.replay.sharded_ring import ShardedRing
from re3_jax.runs.looking import figures, frames, stored
from re3_jax.training.play import play
from tests.probe_host_env import spec as pixels_spec

RNG = np.random.default_rng(0)


def test_principal_components_are_scikit_learns():
    latents = RNG.normal(size=(60, 7)).astype(np.float32) @ np.diag(np.arange(1.0, 8.0))
    points, shares = figures.principal_components(latents)
    theirs = PCA(2)
    expected = theirs.fit_transform(latents)
    signs = np.sign((points * expected).sum(axis=0))
    np.testing.assert_allclose(points * signs, expected, atol=1e-4)
    np.testing.assert_allclose(shares, theirs.explained_variance_ratio_, atol=1e-6)


def test_latents_that_are_all_equal_have_a_picture():
    points, shares = figures.principal_components(np.ones((5, 1), np.float32))
    assert not points.any() and not shares.any()
    figure = figures.of_latents(np.ones((5, 1), np.float32), {"time": np.arange(5.0)})
    assert figure.axes[0].get_title() == "time"


def test_neighbours_are_scikit_learns_without_the_frame_itself():
    latents = RNG.normal(size=(40, 5)).astype(np.float32)
    images = np.broadcast_to(np.arange(40, dtype=np.uint8)[:, None, None, None], (40, 2, 2, 3))
    queries = np.array([3, 17])
    figure = figures.of_neighbours(images, latents, queries, k=4)
    shown = [int(np.asarray(axes.images[0].get_array())[0, 0, 0]) for axes in figure.axes]
    _, order = NearestNeighbors(n_neighbors=5).fit(latents).kneighbors(latents[queries])
    assert shown == [*queries, *order[:, 1:].ravel()]


def test_a_heat_map_has_the_sum_over_directions_of_each_cell():
    env = registry.make("minigrid:Empty-6x6")
    states, _ = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 1))
    number = int(env.states.number(jax.tree.map(lambda leaf: leaf[0], states)))
    counts = np.zeros(env.states.num_states)
    # Empty begins at column 1 and row 1 and faces right; two steps and a turn later it is there.
    counts[number] += 0.25
    state = jax.tree.map(lambda leaf: leaf[0], states)
    step = jax.jit(env.step)
    for action in (2, 2, 1):
        state, _ = step(state, jnp.int32(action), jax.random.key(0))
    counts[int(env.states.number(state))] += 0.75
    figure = figures.of_states({"share of time": counts.reshape(1, 4, 4, 4)}, [7])
    shown = np.asarray(figure.axes[0].images[0].get_array())
    expected = np.zeros((4, 4))
    expected[0, 0], expected[0, 2] = 0.25, 0.75
    np.testing.assert_allclose(shown, expected)
    assert figure.axes[0].get_title() == "seed 7"


@pytest.mark.parametrize("ring", [latent_ring, distinct_ring])
def test_latents_are_found_at_their_places_with_their_ages(ring):
    latents = RNG.normal(size=(10, 3)).astype(np.float32)
    state = ring.init(6, 3)
    add = jax.jit(ring.add)
    for latent in latents:
        state, _ = add(state, jnp.asarray(latent[None]))
    found = stored.ring_of({"bonus": (state, jnp.zeros(3))})
    place = stored.places(found, 100)
    assert stored.capacity(found) == len(place) == 6
    np.testing.assert_array_equal(stored.ages(found, place), [5, 4, 3, 2, 1, 0])
    np.testing.assert_array_equal(stored.latents(found, place), latents[4:])
    np.testing.assert_array_equal(stored.ages(found, stored.places(found, 3)), [5, 2, 0])
    assert stored.places(ring.init(6, 3), 100).size == 0


def test_a_ring_that_is_divided_among_devices_is_one():
    ring, _ = latent_ring.add(latent_ring.init(4, 2), jnp.asarray(RNG.normal(size=(3, 2)), "f4"))
    found = stored.in_one_piece({"bonus": (ShardedRing(*ring), jnp.ones(2))})
    assert stored.ring_of({"bonus": ShardedRing(*ring)}) is None
    np.testing.assert_array_equal(stored.ring_of(found).latents, ring.latents)


def test_the_first_member_of_an_ensemble_is_shown():
    ring, _ = latent_ring.add(latent_ring.init(4, 2), jnp.ones((3, 2)))
    both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf * 0]), ring)
    assert int(stored.ring_of(both).num_valid) == 3
    assert stored.ring_of({"weights": jnp.zeros(2)}) is None


def test_transitions_come_with_their_frames_rewards_and_places():
    spec = EnvSpec("x", (2,), np.dtype(np.float32), Box((1,), -1.0, 1.0), 9)
    ring = transition_ring.init(8, spec)
    add = jax.jit(transition_ring.add)
    for i in range(5):
        row = jnp.full((1, 2), float(i))
        one = jnp.ones(1)
        ring = add(ring, row, one[:, None], one * i, one, row, jnp.array([i]))
    drawn = stored.draw(ring, jax.random.key(0), 50)
    assert set(np.asarray(drawn.place).tolist()) == set(range(5))
    np.testing.assert_array_equal(drawn.reward, drawn.place)
    np.testing.assert_array_equal(drawn.frame[:, 0], drawn.place)
    assert stored.draw((), jax.random.key(0), 50) is None


def test_the_newest_frame_of_a_stack_is_shown():
    replay = frame_ring.init(8, 1, (4, 4, 3), 1, stack=2, shortest_episode=3)
    add = jax.jit(frame_ring.add)
    replay = frame_ring.begin(replay, jnp.zeros((1, 4, 4, 3), jnp.uint8))
    for i in range(1, 6):
        frame = jnp.full((1, 4, 4, 3), 10 * i, jnp.uint8)
        one = jnp.ones(1)
        replay = add(replay, one[:, None], one * i, one, frame, frame, one < 0, jnp.array([i - 1]))
    drawn = jax.device_get(stored.draw(replay, jax.random.key(0), 40))
    np.testing.assert_array_equal(drawn.frame[:, 0, 0, 0], 10 * drawn.place)
    shown = frames.pictures(drawn.frame, pixels_spec())
    np.testing.assert_array_equal(shown, drawn.frame)


def test_prioritized_transitions_come_with_their_own_reward():
    """Not with the sum of n, of which a priority is."""
    replay = prioritized.init(16, 1, (4, 4, 3), jnp.uint8, n=2, stack=2)
    add, never = jax.jit(partial(prioritized.add, n=2, stack=2)), jnp.zeros(1, bool)
    for i in range(8):
        frame = jnp.full((1, 4, 4, 3), 10 * i, jnp.uint8)
        reward = jnp.full(1, float(i))
        replay = add(replay, frame, jnp.zeros(1, jnp.int32), reward, never, never, jnp.array([i]))
    drawn = jax.device_get(stored.draw(replay, jax.random.key(0), 40))
    assert len(np.unique(drawn.place)) > 3
    np.testing.assert_array_equal(drawn.reward, drawn.place)
    np.testing.assert_array_equal(drawn.frame[:, 0, 0, 0], 10 * drawn.place)


def test_frames_of_episodes_come_with_the_reward_that_came_with_them():
    replay = sequence_ring.init(32, 1, (4, 4, 3), 1, length=3)
    replay = sequence_ring.begin(replay, jnp.zeros((1, 4, 4, 3), jnp.uint8))
    add, one = jax.jit(partial(sequence_ring.add, length=3)), jnp.ones(1)
    for i in range(1, 7):
        frame = jnp.full((1, 4, 4, 3), 10 * i, jnp.uint8)
        done = jnp.array([i == 6])
        replay = add(replay, one[:, None], one * i, one < 0, frame, frame, done, jnp.array([i - 1]))
    drawn = jax.device_get(stored.draw(replay, jax.random.key(0), 40))
    assert len(np.unique(drawn.place)) > 3
    np.testing.assert_array_equal(drawn.reward, drawn.place)
    np.testing.assert_array_equal(drawn.frame[:, 0, 0, 0], 10 * drawn.place)


def test_a_view_of_minigrid_is_drawn_cell_by_cell():
    env = registry.make("minigrid:Empty-5x5")
    _, view = env.reset(jax.random.key(0))
    (picture,) = frames.pictures(np.asarray(view)[None], env.spec)
    assert picture.shape == (7 * frames.CELL, 7 * frames.CELL, 3)
    half = frames.CELL // 2
    centres = picture[half :: frames.CELL, half :: frames.CELL]
    # The agent faces right in the upper left corner: walls to its left, three cells ahead is one.
    assert (centres[6, 3] == [255, 0, 0]).all()
    assert (centres[6, 2] == 100).all() and (centres[3, 3] == 100).all()
    assert (centres[5, 3] == 0).all()
    unseen = frames.pictures(np.zeros_like(view)[None], env.spec)
    assert (unseen[0, half, half] == 60).all()
    # The goal is two cells ahead and two to the right.
    assert (centres[4, 5] == [0, 255, 0]).all()


def test_planes_have_colours_and_vectors_no_picture():
    spec = EnvSpec("gymnax:x", (2, 2, 3), np.dtype(bool), Box((1,), -1.0, 1.0), 9)
    planes = np.zeros((1, 2, 2, 3), bool)
    planes[0, 0, 0, 0] = planes[0, 0, 1, 2] = True
    (picture,) = frames.pictures(planes, spec)
    np.testing.assert_array_equal(picture[0], frames.PALETTE[[1, 3]])
    np.testing.assert_array_equal(picture[1], frames.PALETTE[[0, 0]])
    assert frames.pictures(np.zeros((4, 2), np.float32), spec) is None


def test_play_shows_what_the_environment_shows():
    """With an agent that walks ahead and then turns, in a room whose first row it knows."""
    env = registry.make("minigrid:Empty-5x5")
    acting = Acting(
        begin=lambda agent, frame: jnp.zeros(len(frame), jnp.int32),
        act=lambda agent, memory, key, explore: (memory + 1, jnp.where(memory < 2, 2, 1)),
        see=lambda memory, frame, begins: memory,
    )
    place = minigrid.places("Empty-5x5").number
    played = play(env, acting, None, jax.random.key(0), lanes=2, steps=5, place=place)
    cells = np.asarray(played.place)
    # Cells of the first row facing right, then each direction of the third.
    np.testing.assert_array_equal(cells, np.repeat([[0], [4], [8], [9], [10]], 2, axis=1))
    _, first = env.reset(jax.random.key(0))
    np.testing.assert_array_equal(played.observation[0, 1], first)


@pytest.mark.parametrize("task", ["Empty-6x6", "DoorKey-5x5", "ObstructedMaze-1Dl"])
def test_places_are_cells_and_directions_within_the_outer_walls(task):
    env, places = minigrid.make(task), minigrid.places(task)
    states, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 64))
    word = np.asarray(places.word(states))
    x, y, direction = word & 255, word >> 8 & 255, word >> 16 & 3
    form = places.height, places.width, figures.DIRECTIONS
    expected = np.ravel_multi_index((y - 1, x - 1, direction), form)
    np.testing.assert_array_equal(places.number(states), expected)
    assert env.states.num_states == np.prod(form)
    np.testing.assert_array_equal(jax.vmap(env.states.number)(states), expected)
