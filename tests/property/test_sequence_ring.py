"""The replay of sequences against Python lists of episodes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh
from scipy import stats

from re3_jax.replay import sequence_ring
from re3_jax.training.seeds import SEED_AXIS, map_over_seeds

SHAPES = [(8, 1, 7), (11, 3, 2), (37, 2, 1), (60, 3, 5)]
"""Rows, lanes and length of the replays; each program is compiled once."""

add = jax.jit(sequence_ring.add, static_argnames="length")


@functools.partial(jax.jit, static_argnums=(0, 1))
def begin(rows, length, frames):
    return sequence_ring.begin(sequence_ring.init(rows, len(frames), (1, 1, 1), 1, length), frames)


@functools.partial(jax.jit, static_argnums=(2, 3))
def ask(key, replay, batch_size, length):
    return (
        sequence_ring.num_whole(replay),
        sequence_ring.can_sample(replay),
        sequence_ring.sample(key, replay, batch_size, length),
    )


def test_a_replay_made_outside_jit_can_be_donated():
    """It holds no array twice, and a beginning leaves none of the old replay's in the new one."""
    old = sequence_ring.init(8, 2, (1, 1, 1), 1, 7)
    replay = sequence_ring.begin(old, images([1, 2]))
    step = jnp.zeros((2, 1)), jnp.ones(2), jnp.zeros(2, bool), images([3, 4]), images([3, 4])
    written = functools.partial(sequence_ring.add, length=7)
    after = jax.jit(written, donate_argnums=0)(replay, *step, jnp.zeros(2, bool), jnp.zeros(2, int))
    assert after.num_frames.tolist() == [2, 2]
    assert old.num_frames.tolist() == [0, 0]


class Lists:
    """Every lane's episodes as lists of (frame, action, reward, discount)."""

    def __init__(self, first):
        self.finished = [[] for _ in first]
        self.now = [[(x, 0.0, 0.0, 1.0)] for x in first]
        self.answered = [[] for _ in first]

    def add(self, action, reward, terminated, final, frame, done, index):
        for lane, episode in enumerate(self.now):
            discount = 0.0 if terminated[lane] else 1.0
            episode.append((final[lane], action[lane], reward[lane], discount))
            self.answered[lane].append(index[lane])
            if done[lane]:
                # The last frame of an episode has no action.
                indices = [*self.answered[lane], None]
                self.answered[lane] = []
                self.finished[lane].append(
                    [(*step, i) for step, i in zip(episode, indices, strict=True)]
                )
                self.now[lane] = [(frame[lane], 0.0, 0.0, 1.0)]

    def whole(self, lane, rows, length):
        """Finished episodes that are long enough and still complete."""
        left, kept = rows - len(self.now[lane]), []
        for episode in reversed(self.finished[lane]):
            left -= len(episode)
            if left < 0:
                break
            kept.append(episode)
        return [episode for episode in kept if len(episode) > length]


def images(values):
    """Frames that encode these values."""
    return (np.asarray(values)[:, None, None, None] % 256).astype(np.uint8)


def build(steps, rows, lanes, length, rng, end=0.15):
    counter = iter(range(10**6))

    def fresh():
        return np.array([next(counter) for _ in range(lanes)])

    first = fresh()
    replay, lists = begin(rows, length, images(first)), Lists(first)
    for _ in range(steps):
        action, reward = rng.normal(size=(2, lanes)).astype(np.float32)
        done = rng.random(lanes) < end
        terminated = done & (rng.random(lanes) < 0.5)
        final, index = fresh(), rng.integers(0, 10**6, lanes)
        frame = np.where(done, fresh(), final)
        lists.add(action, reward, terminated, final, frame, done, index)
        step = action[:, None], reward, terminated, images(frame), images(final), done, index
        replay = add(replay, *step, length=length)
    return replay, lists


@settings(max_examples=20, deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    steps=st.integers(0, 200),
    seed=st.integers(0, 2**16),
)
def test_draws_are_sequences_of_whole_episodes(shape, steps, seed):
    rows, lanes, length = shape
    rng = np.random.default_rng(seed)
    replay, lists = build(steps, rows, lanes, length, rng)
    whole = [lists.whole(lane, rows, length) for lane in range(lanes)]
    num_whole, can_sample, drawn = jax.device_get(ask(jax.random.key(seed), replay, 64, length))
    np.testing.assert_array_equal(num_whole, [len(episodes) for episodes in whole])
    assert bool(can_sample) == any(whole)
    if not any(whole):
        return
    known = {
        (
            tuple((x % 256, np.float32(a)) for x, a, *_ in episode[start : start + length + 1]),
            tuple((np.float32(r), d, i) for *_, r, d, i in episode[start : start + length]),
        )
        for episodes in whole
        for episode in episodes
        for start in range(len(episode) - length)
    }
    for frames, action, reward, discount, index in zip(*drawn, strict=True):
        seen = zip(frames[:, 0, 0, 0].tolist(), action[:, 0], strict=True)
        assert (tuple(seen), tuple(zip(reward, discount, index, strict=True))) in known


def test_episodes_are_drawn_uniformly_and_then_their_beginnings():
    """A short episode is drawn as often as a long one."""
    length = 4
    replay, lists = build(150, 200, 2, length, np.random.default_rng(3), end=0.12)
    whole = [episode for lane in range(2) for episode in lists.whole(lane, 200, length)]
    *_, drawn = jax.device_get(ask(jax.random.key(0), replay, 40_000, length))
    # The action that led to the second frame is random, so it identifies the sequence.
    first = {
        np.asarray(episode[start + 1][1:3], np.float32).tobytes(): (number, start)
        for number, episode in enumerate(whole)
        for start in range(len(episode) - length)
    }
    seconds = np.stack([drawn.action[:, 1, 0], drawn.reward[:, 1]], axis=1).astype(np.float32)
    found = np.array([first[row.tobytes()] for row in seconds])
    counts = np.bincount(found[:, 0], minlength=len(whole))
    assert stats.chisquare(counts).pvalue > 1e-4
    longest = int(np.argmax([len(episode) for episode in whole]))
    starts = found[found[:, 0] == longest, 1]
    counts = np.bincount(starts, minlength=len(whole[longest]) - length)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_where_a_sequence_begins_does_not_depend_on_its_episode():
    """As many episodes as beginnings, so that the same bits would give both the same number."""
    length, count = 4, 6
    steps = length + count - 1
    replay, nothing = begin(100, length, images([0])), np.zeros(1, int)
    for number in range(count * steps):
        reward, done = np.full(1, number, np.float32), np.array([(number + 1) % steps == 0])
        step = reward[:, None], reward, done, images([0]), images([0]), done, nothing
        replay = add(replay, *step, length=length)
    *_, drawn = jax.device_get(ask(jax.random.key(0), replay, 20_000, length))
    # The reward that led to the second frame.
    episode, start = np.divmod(drawn.reward[:, 1].astype(int), steps)
    counts = np.bincount(count * episode + start, minlength=count**2)
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize(("rows", "always"), [(12, False), (13, True)])
def test_a_lane_keeps_an_episode_until_the_next_is_whole(rows, always):
    """Episodes of T = 6 steps: 2 T + 1 rows are the fewest that always have one to draw from."""
    steps, length = 6, 3
    zeros = np.zeros(2, np.float32)
    frame = jnp.zeros((2, 1, 1, 1), jnp.uint8)
    replay, can = begin(rows, length, frame), []
    for number in range(1, 5 * steps):
        done = jnp.full(2, number % steps == 0)
        step = zeros[:, None], zeros, done, frame, frame, done, np.zeros(2, np.int32)
        replay = add(replay, *step, length=length)
        can.append(bool(sequence_ring.can_sample(replay)))
    assert not any(can[: steps - 1]) and can[steps - 1]
    assert all(can[steps - 1 :]) is always


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ((0, 1, 3), "all must be at least 1"),
        ((10, 1, 10), "holds no episode of more than 10"),
    ],
)
def test_sizes_that_cannot_work_are_refused(sizes, sentence):
    rows, lanes, length = sizes
    with pytest.raises(ValueError, match=sentence):
        sequence_ring.init(rows, lanes, (1, 1, 1), 1, length)


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("seeds", [1, 2])
def test_insertion_into_a_donated_replay_copies_no_frames(lanes, seeds):
    """A copy would be temporary memory of the replay's size, at every step."""
    frame, number = jnp.zeros((lanes, 16, 16, 3), jnp.uint8), jnp.zeros(lanes)
    end, index = jnp.zeros(lanes, bool), jnp.zeros(lanes, jnp.int32)
    words = (
        sequence_ring.init(400, lanes, (16, 16, 3), 1, 5),
        *(number[:, None], number, end, frame, frame, end, index),
    )
    words = jax.tree.map(lambda leaf: jnp.stack([leaf] * seeds), words)
    mesh = Mesh(jax.devices()[:1], (SEED_AXIS,))
    ring = words[0].frames.array.nbytes
    add = functools.partial(sequence_ring.add, length=5)
    for one, arguments in ((add, words), (sequence_ring.begin, (words[0], words[4]))):
        write = map_over_seeds(one, mesh)
        compiled = jax.jit(write, donate_argnums=0).lower(*arguments).compile()
        assert compiled.memory_analysis().alias_size_in_bytes >= ring
        assert compiled.memory_analysis().temp_size_in_bytes < ring / 4
