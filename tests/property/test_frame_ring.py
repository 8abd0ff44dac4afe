"""The frame replay against a plain list of whole transitions, over random episodes."""

from collections import deque
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from re3_jax.replay import frame_ring
from tests.equal import equal_arrays

SHAPE, BATCH, ACTIONS = (2, 1, 3), 64, 2
# Capacity, stack and shortest episode; in the last two the ring wraps within an episode.
RINGS = [(7, 3, 1), (20, 3, 4), (1, 2, 1), (33, 1, 50), (16, 4, 100)]

add = jax.jit(frame_ring.add, donate_argnums=0)
begin = jax.jit(frame_ring.begin, donate_argnums=0)
sample = jax.jit(frame_ring.sample, static_argnums=(2, 3, 4, 5))
num_valid = jax.jit(frame_ring.num_valid, static_argnums=1)


def image(number: int) -> np.ndarray:
    """A frame that no other equals, different in every pixel and channel."""
    digits = [number % 251 + 1, number // 251 % 251 + 1, 7]
    return np.array([[digits], [digits[::-1]]], np.uint8)


class Whole(NamedTuple):
    """A transition stored in full, with both stacks of frames."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.float32
    discount: np.float32
    next_observation: np.ndarray
    first_frame: int
    """Number, in the order of writing, of the oldest frame in its stacks."""
    episode: int


class Model:
    """A list of transitions with Gymnasium's frame stacking, and a replay of the same steps."""

    def __init__(self, capacity: int, stack: int, shortest: int):
        self.replay = frame_ring.init(capacity, 1, SHAPE, ACTIONS, stack, shortest)
        self.capacity, self.stack_size = capacity, stack
        self.whole: list[Whole] = []
        self.frames = self.episode = 0
        self.start()

    def start(self) -> None:
        """Begins an episode although the previous one has not ended."""
        self.replay = begin(self.replay, self._begin()[None])

    def _begin(self) -> np.ndarray:
        frame = image(self.frames)
        self.episode += 1
        self.stack = deque([frame] * self.stack_size, maxlen=self.stack_size)
        self.places = deque([self.frames] * self.stack_size, maxlen=self.stack_size)
        self.frames += 1
        return frame

    def step(self, rng: np.random.Generator, done: bool) -> None:
        """The bonus's index is the number of the transition."""
        before, first = np.concatenate(self.stack, axis=-1), self.places[0]
        action = rng.normal(size=ACTIONS).astype(np.float32)
        reward, discount = np.float32(rng.normal()), np.float32(rng.integers(2))
        frame = final = image(self.frames)
        self.stack.append(final)
        self.places.append(self.frames)
        self.frames += 1
        after = np.concatenate(self.stack, axis=-1)
        self.whole.append(Whole(before, action, reward, discount, after, first, self.episode))
        if done:
            frame = self._begin()
        number = np.int32(len(self.whole) - 1)
        step = action, reward, discount, frame, final, np.bool_(done), number
        self.replay = add(self.replay, *(np.asarray(x)[None] for x in step))

    def run(self, rng: np.random.Generator, lengths: list[int]) -> None:
        for length in lengths:
            for left in reversed(range(length)):
                self.step(rng, left == 0)

    def check(self, seed: int) -> int:
        """Checks that all samples are in the list; returns the number of valid transitions."""
        (valid,) = num_valid(self.replay, self.stack_size)
        valid = int(valid)
        found, index = sample(jax.random.key(seed), self.replay, BATCH, self.stack_size)
        found = jax.tree.map(np.asarray, found)
        newest = len(self.whole) - 1
        back = newest - np.asarray(index)
        assert np.all((back >= 0) & (back < valid))
        theirs = [self.whole[newest - steps] for steps in back]
        for name in ("observation", "action", "reward", "discount", "next_observation"):
            expected = np.stack([getattr(transition, name) for transition in theirs])
            np.testing.assert_array_equal(getattr(found, name), expected)
        assert not found.bonus.any()
        return valid

    def check_steps(self, seed: int, n: int, gamma: float) -> set[int]:
        """Checks samples of n steps against sums over the list; returns how many steps they had."""
        batch, index = sample(jax.random.key(seed), self.replay, BATCH, self.stack_size, n, gamma)
        seen = set()
        for place, number in enumerate(np.asarray(index)):
            later = self.whole[number : number + n]
            steps = [step for step in later if step.episode == later[0].episode]
            factors = gamma ** np.arange(len(steps))
            goes_on = np.prod([step.discount for step in steps])
            expected = {
                "observation": steps[0].observation,
                "action": steps[0].action,
                "reward": np.dot(factors, [step.reward for step in steps]),
                "discount": factors[-1] * goes_on,
                "next_observation": steps[0].next_observation,
                "last_observation": steps[-1].next_observation,
            }
            for name, value in expected.items():
                np.testing.assert_allclose(getattr(batch, name)[place], value, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(batch.later.weight[place], factors.sum(), rtol=1e-6)
            seen.add(len(steps))
        return seen

    def held(self) -> int:
        """Number of transitions whose frames fit into a ring of this size."""
        oldest = self.frames - (self.replay.rows - 1)
        newest = self.whole[-self.capacity :]
        return sum(transition.first_frame >= oldest for transition in newest)


seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("ring", RINGS)
@settings(max_examples=12, deadline=None)
@given(seeds, st.integers(0, 8), st.integers(1, 40))
def test_equals_a_list_of_transitions(ring, seed, longer, episodes):
    """If no episode is shorter than `shortest`, the newest `capacity` transitions are kept."""
    capacity, _, shortest = ring
    rng, model = np.random.default_rng(seed), Model(*ring)
    for lengths in np.array_split(rng.integers(shortest, shortest + longer + 1, episodes), 3):
        model.run(rng, lengths[: 250 // shortest])
        if model.whole:
            assert model.check(seed) == min(len(model.whole), capacity)
    unfinished = int(rng.integers(1, shortest + longer + 1))
    for _ in range(unfinished):
        model.step(rng, False)
    assert model.check(seed) == min(len(model.whole), capacity)


@pytest.mark.parametrize("ring", RINGS)
@settings(max_examples=12, deadline=None)
@given(seeds, st.lists(st.integers(1, 6), min_size=1, max_size=40))
def test_shorter_episodes_keep_fewer_correct_transitions(ring, seed, lengths):
    """The replay keeps exactly the transitions whose frames are left; some episodes break off."""
    rng, model = np.random.default_rng(seed), Model(*ring)
    for length in lengths:
        model.run(rng, [length])
        if rng.random() < 0.2:
            model.step(rng, False)
            model.start()
        assert model.check(seed) == model.held()


@pytest.mark.parametrize("ring", RINGS)
@settings(max_examples=12, deadline=None)
@given(seeds, st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(2, 5))
def test_several_steps_equal_sums_over_the_list(ring, seed, lengths, n):
    """Where episodes end, break off or are not over yet, transitions have fewer steps."""
    rng, model = np.random.default_rng(seed), Model(*ring)
    model.run(rng, lengths)
    model.step(rng, False)
    model.start()
    model.step(rng, False)
    assert model.check_steps(seed, n, 0.9) <= set(range(1, n + 1))


def test_transitions_have_all_steps_that_there_are():
    model = Model(20, 3, 4)
    model.run(np.random.default_rng(0), [5, 5])
    assert model.check_steps(0, 3, 0.9) == {1, 2, 3}


def test_draws_are_uniform_over_what_is_valid():
    """A correct sampler fails for one key in a million; the key is fixed."""
    model = Model(20, 3, 4)
    rng = np.random.default_rng(0)
    for lengths, expected in ([[9], 9], [[4] * 10, 20], [[1] * 13, 13]):
        model.run(rng, lengths)
        assert model.check(0) == expected
        _, index = sample(jax.random.key(1), model.replay, 100_000, 3)
        counts = np.bincount(index % 20, minlength=20)
        back = (len(model.whole) - 1 - np.arange(20)) % 20
        assert not counts[back >= expected].any()
        assert stats.chisquare(counts[back < expected]).pvalue > 1e-6


def lanes_of(models):
    """One replay of several lanes with equal numbers of writes."""
    replays = [model.replay for model in models]
    together = jax.tree.map(lambda *leaves: jnp.concatenate(jnp.atleast_1d(*leaves)), *replays)
    return together._replace(num_transitions=replays[0].num_transitions)


def test_lanes_equal_replays_of_one_lane():
    rng = np.random.default_rng(0)
    models = [Model(20, 3, 4) for _ in range(3)]
    for model, lengths in zip(models, ([4] * 9, [5, 25, 6], [6] * 6), strict=True):
        model.run(rng, lengths)
    together = lanes_of(models)
    insert = jax.jit(frame_ring.add)
    for done in ([False, True, True], [False] * 3, [True, False, True]):
        frames = rng.integers(0, 256, (2, 3, *SHAPE), dtype=np.uint8)
        action, reward = rng.normal(size=(3, ACTIONS)), rng.normal(size=3)
        index = rng.integers(0, 99, 3, dtype=np.int32)
        step = action.astype(np.float32), reward.astype(np.float32), np.ones(3, np.float32)
        step = *step, *frames, np.array(done), index
        together = insert(together, *step)
        for lane, model in enumerate(models):
            model.replay = add(model.replay, *(x[lane : lane + 1] for x in step))
        jax.tree.map(equal_arrays, together, lanes_of(models))


def test_draws_are_uniform_over_the_lanes_transitions():
    """Lanes with short episodes keep fewer; a correct sampler fails for one key in 10^6."""
    models = [Model(20, 3, 4) for _ in range(3)]
    rng = np.random.default_rng(0)
    for model, lengths in zip(models, ([1] * 24, [4] * 6, [2] * 12), strict=True):
        model.run(rng, lengths)
    valid = [model.check(0) for model in models]
    assert valid[0] < valid[2] < valid[1] == 20
    replay = lanes_of(models)
    # The index is unique among the transitions of all lanes.
    replay = replay._replace(bonus_index=replay.bonus_index + 100 * jnp.arange(3)[:, None])
    drawn, index = jax.device_get(sample(jax.random.key(1), replay, 60_000, 3))
    found, counts = np.unique(index, return_counts=True)
    newest = [100 * lane + 24 - 1 - np.arange(n) for lane, n in enumerate(valid)]
    assert found.tolist() == sorted(np.concatenate(newest).tolist())
    assert stats.chisquare(counts).pvalue > 1e-6
    for place in range(200):
        whole = models[index[place] // 100].whole[index[place] % 100]
        np.testing.assert_array_equal(drawn.observation[place], whole.observation)
        np.testing.assert_array_equal(drawn.next_observation[place], whole.next_observation)
        np.testing.assert_array_equal(drawn.action[place], whole.action)


def test_a_state_restored_from_numpy_continues_exactly():
    rng, ours, theirs = np.random.default_rng(0), Model(20, 3, 4), Model(20, 3, 4)
    ours.run(rng, [5, 7, 30, 4])
    theirs.run(np.random.default_rng(0), [5, 7, 30, 4])
    ours.replay = jax.tree.map(lambda leaf: jnp.asarray(np.array(leaf)), ours.replay)
    ours.run(np.random.default_rng(1), [6] * 9)
    theirs.run(np.random.default_rng(1), [6] * 9)
    jax.tree.map(equal_arrays, ours.replay, theirs.replay)
    assert ours.check(3) == 20


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("seeds", [None, 3])
def test_insertion_does_not_copy_the_frames(seeds, lanes):
    """XLA writes over the donated ring; a copy would be temporary memory of its size."""
    replay = frame_ring.init(400, lanes, (40, 40, 3), ACTIONS, 3, 100)
    frame, number = jnp.zeros((lanes, 40, 40, 3), jnp.uint8), jnp.zeros(lanes)
    done, index = jnp.zeros(lanes, bool), jnp.zeros(lanes, jnp.int32)
    words = (replay, jnp.zeros((lanes, ACTIONS)), number, number, frame, frame, done, index)
    insert, begins = frame_ring.add, frame_ring.begin
    if seeds:
        words = jax.tree.map(lambda leaf: jnp.stack([leaf] * seeds), words)
        insert, begins = jax.vmap(insert), jax.vmap(begins)
    ring = words[0].frames.array.nbytes
    for function, arguments in ((insert, words), (begins, (words[0], words[4]))):
        compiled = jax.jit(function, donate_argnums=0).lower(*arguments).compile()
        memory = compiled.memory_analysis()
        assert memory.alias_size_in_bytes >= ring
        assert memory.temp_size_in_bytes < ring / 4
    copying = jax.jit(insert).lower(*words).compile().memory_analysis()
    assert copying.alias_size_in_bytes == 0


@pytest.mark.parametrize("numbers", [(0, 1, 3, 5), (5, 0, 3, 5), (5, 1, 0, 5), (5, 1, 3, 0)])
def test_impossible_sizes_are_refused(numbers):
    capacity, lanes, stack, shortest = numbers
    with pytest.raises(ValueError, match="must be at least 1"):
        frame_ring.init(capacity, lanes, SHAPE, ACTIONS, stack, shortest)
