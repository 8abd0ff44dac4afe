"""Gymnasium's VectorEnv with a bonus: both auto-resets against a loop over single environments."""

from functools import partial

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from re3_jax.envs.base import Box, Discrete
from re3_jax.interop.numpy_bonus import NumpyBonus
from re3_jax.interop.vector_env import BonusVectorEnv, spec_of
from re3_jax.intrinsic import RE3Config, e3b, from_config, icm, vcse
from re3_jax.intrinsic.base import IntrinsicReward, Step
from tests.prediction_tasks import SIZES
from tests.unit.test_episodic_bonus import episodic_counts

LANES, STEPS = 3, 30
RE3 = from_config(RE3Config(3, 3, ring_size=64, latent_dim=4, beta=0.5, rho=0.02, log1p=False))
ICM = icm.from_config(icm.ICMConfig(**SIZES, beta=1.0))


class Line(gymnasium.Env):
    """Position on a line, from a place that its own generator draws; the ends terminate."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, limit):
        self.limit = limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.uniform(-1, 1)), 0
        return self.seen(), {}

    def step(self, action):
        self.place, self.steps = self.place + (0.7 if action else -0.5), self.steps + 1
        terminated, truncated = abs(self.place) > 2, self.steps >= self.limit
        return self.seen(), float(self.steps), terminated, truncated, {}

    def seen(self):
        return np.array([self.place, self.steps])


def vector_env(mode, **options):
    makers = [lambda limit=5 + lane: Line(limit) for lane in range(LANES)]
    return SyncVectorEnv(makers, autoreset_mode=mode, **options)


def action_of(steps_of_lane, lane):
    """The same for a transition in every mode, whatever else the other lanes do."""
    return (3 * steps_of_lane * steps_of_lane + lane) % 5 % 2


def recording(bonus):
    """The bonus, and the steps that it observed, as one list of transitions a lane in order."""
    seen = []

    def observe(state, step):
        jax.debug.callback(lambda *leaves: seen.append(Step(*leaves)), *step, ordered=True)
        return bonus.observe(state, step)

    return bonus._replace(observe=observe), seen


def play(bonus, mode, **options):
    """(lane, transition of the lane, task reward, bonus) of every transition, step by step."""
    env = BonusVectorEnv(vector_env(mode, **options), bonus, seed=2)
    env.reset(seed=7)
    taken, resets, found = np.zeros(LANES, int), np.zeros(LANES, bool), []
    for _ in range(STEPS):
        actions = np.array([action_of(taken[lane], lane) for lane in range(LANES)])
        _, reward, terminated, truncated, info = env.step(actions)
        np.testing.assert_array_equal(reward, info["task_reward"] + info["intrinsic_reward"])
        np.testing.assert_array_equal(info["intrinsic_reward"][resets], 0.0)
        rows = zip(info["task_reward"], info["intrinsic_reward"], strict=True)
        found.append({lane: row for lane, row in enumerate(rows) if not resets[lane]})
        taken += ~resets
        done = terminated | truncated
        resets = done & (mode is AutoresetMode.NEXT_STEP)
        if mode is AutoresetMode.DISABLED and done.any():
            env.reset(options={"reset_mask": done})
    assert env.bonus.agent_steps == sum(len(rows) for rows in found)
    return env, found


def by_hand(bonus, lanes_of_step):
    """The same from single environments; `lanes_of_step` are the lanes that move in each step."""
    numpy_bonus = NumpyBonus(bonus, spec_of(vector_env(AutoresetMode.SAME_STEP)), LANES, seed=2)
    envs = [Line(5 + lane) for lane in range(LANES)]
    seen, taken = [env.reset(seed=7 + lane)[0] for lane, env in enumerate(envs)], [0] * LANES
    found = []
    for lanes in lanes_of_step:
        rows = []
        for lane in lanes:
            action = action_of(taken[lane], lane)
            after, reward, terminated, truncated, _ = envs[lane].step(action)
            rows.append((seen[lane], action, after, terminated, truncated, reward))
            seen[lane] = envs[lane].reset()[0] if terminated or truncated else after
            taken[lane] += 1
        *step, task = (np.array(leaf) for leaf in zip(*rows, strict=True))
        paid, _ = numpy_bonus.reward_rollout(Step(*(leaf[None] for leaf in step)))
        found.append(dict(zip(lanes, zip(task, paid[0], strict=True), strict=True)))
    return found


@pytest.mark.parametrize(
    ("mode", "bonus"),
    [
        (AutoresetMode.SAME_STEP, ICM),
        (AutoresetMode.NEXT_STEP, RE3),
        pytest.param(AutoresetMode.SAME_STEP, RE3, marks=pytest.mark.slow),
        pytest.param(AutoresetMode.NEXT_STEP, ICM, marks=pytest.mark.slow),
        pytest.param(AutoresetMode.DISABLED, ICM, marks=pytest.mark.slow),
    ],
)
def test_every_reset_mode_equals_a_loop_over_single_environments(mode, bonus):
    """Task rewards and bonuses of every transition, with terminations and truncations."""
    _, found = play(bonus, mode, copy=False)
    moves = [sorted(rows) for rows in found]
    assert (min(map(len, moves)) < LANES) == (mode is AutoresetMode.NEXT_STEP)
    assert by_hand(bonus, moves) == found
    assert any(paid for rows in found for _, paid in rows.values())


def test_steps_that_only_reset_are_not_observed():
    """Both modes show the bonus the same transitions of every lane, ends included."""
    plain = IntrinsicReward(
        init=lambda key, spec, num_lanes: (),
        observe=lambda state, step: (state, jax.numpy.zeros(len(step.observation), int)),
        reward=lambda state, batch: (jax.numpy.zeros(len(batch.observation)), state, {}),
        update=lambda state, batch, key: (state, {}),
    )
    transitions = {}
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        bonus, seen = recording(plain)
        play(bonus, mode)
        jax.effects_barrier()
        rows = [row for step in seen for row in zip(*map(np.asarray, step[:5]), strict=True)]
        transitions[mode] = rows
    same, following = transitions.values()
    as_tuples = [{tuple(np.hstack(row)) for row in rows} for rows in (same, following)]
    assert len(as_tuples[0]) == len(same) == LANES * STEPS
    assert as_tuples[1] < as_tuples[0] and len(as_tuples[1]) == len(following) < len(same)
    for observation, _, after, terminated, truncated in following:
        assert after[1] == observation[1] + 1
        assert terminated == (abs(after[0]) > 2)
        assert not truncated or after[1] >= 5


def test_an_episodic_bonus_needs_same_step_resets():
    bonus = episodic_counts(lambda seen: seen[:, 0].astype(int) % 4, 4)
    _, found = play(bonus, AutoresetMode.SAME_STEP)
    assert all(rows[lane][1] == 1.0 for rows in found[:1] for lane in rows)
    with pytest.raises(ValueError, match="remembers episodes.* autoreset_mode=AutoresetMode.SAME"):
        BonusVectorEnv(vector_env(AutoresetMode.NEXT_STEP), bonus)


def test_a_bonus_that_cannot_be_paid_for_the_lanes_of_a_step_is_refused_at_once():
    """In the middle of training all lanes but one may only reset."""
    released = from_config(RE3Config(ring_size=64, normalize="released_running_std"))
    BonusVectorEnv(vector_env(AutoresetMode.SAME_STEP), released)
    with pytest.raises(ValueError, match="one lane only.* at least 2 rewards.*SAME_STEP"):
        BonusVectorEnv(vector_env(AutoresetMode.NEXT_STEP), released)
    of_minibatch = vcse.from_config(vcse.VCSEConfig(), RE3Config(ring_size=64))
    with pytest.raises(ValueError, match="a minibatch of 3 has no neighbour"):
        BonusVectorEnv(vector_env(AutoresetMode.SAME_STEP), of_minibatch)


def test_a_reset_begins_the_episode_of_the_bonus_anew():
    """And those of the other lanes go on, where a mask asks for that."""
    bonus = e3b.from_config(e3b.E3BConfig(latent_dim=8, hidden_dim=8, learning_rate=1e-12), 64)
    env = BonusVectorEnv(vector_env(AutoresetMode.SAME_STEP), bonus)

    def paid():
        return np.stack([env.step(np.ones(LANES, int))[4]["intrinsic_reward"] for _ in range(2)])

    env.reset(seed=0)
    first = paid()
    env.reset(seed=0)
    np.testing.assert_allclose(paid(), first, rtol=1e-4)
    assert (first[0] == 0).all() and (first[1] > 0).all()
    env.reset(options={"reset_mask": np.array([True, False, False])})
    np.testing.assert_array_equal(paid()[0] == 0, [True, False, False])


def test_after_a_reset_no_step_only_resets():
    """With `NEXT_STEP` the step after an episode's end would, had the loop not reset the lanes."""
    env = BonusVectorEnv(vector_env(AutoresetMode.NEXT_STEP), RE3)
    env.reset(seed=0)
    ended = np.zeros(LANES, bool)
    while not ended.any():
        _, _, terminated, truncated, _ = env.step(np.ones(LANES, int))
        ended = terminated | truncated
    env.reset(seed=1)
    before = env.bonus.agent_steps
    *_, info = env.step(np.ones(LANES, int))
    assert env.bonus.agent_steps == before + LANES
    assert (info["intrinsic_reward"] > 0).all()


def test_environments_that_do_not_tell_how_they_reset_are_refused():
    env = vector_env(AutoresetMode.SAME_STEP)
    env.metadata = {}
    with pytest.raises(ValueError, match=r"set its metadata\['autoreset_mode'\] to a gymnasium"):
        BonusVectorEnv(env, RE3)


class Shown(gymnasium.vector.VectorEnv):
    """Spaces only."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, seen, acted):
        self.single_observation_space, self.single_action_space, self.num_envs = seen, acted, 2


BYTES = {"low": 0, "high": 255, "dtype": np.uint8}


@pytest.mark.parametrize(
    ("shape", "colours", "frame_stack"),
    [((20, 20, 9), 3, 3), ((20, 20, 3), 3, 1), ((36, 36, 4), 1, 4), ((36, 36, 1), 1, 1)],
)
def test_images_are_stacks_of_colour_or_grey_frames(shape, colours, frame_stack):
    spec = spec_of(Shown(spaces.Box(shape=shape, **BYTES), spaces.Box(-2.0, 2.0, (3,))))
    assert (spec.colours, spec.frame_stack) == (colours, frame_stack)
    assert spec.observation_dtype == np.uint8 and spec.action_space == Box((3,), -2.0, 2.0)


def test_a_vec_env_of_stable_baselines3_is_described():
    env_util = pytest.importorskip(
        "stable_baselines3.common.env_util", reason="needs the package stable-baselines3"
    )
    spec = spec_of(env_util.make_vec_env("MountainCar-v0", 2))
    assert spec.observation_shape == (2,) and spec.action_space == Discrete(3)
    assert spec.max_agent_steps == 200


def made_one_by_one(kind, task):
    return kind([partial(gymnasium.make, task)] * 2)


@pytest.mark.parametrize(
    "make",
    [
        gymnasium.make,
        partial(gymnasium.make_vec, num_envs=2),
        partial(made_one_by_one, SyncVectorEnv),
        partial(made_one_by_one, partial(AsyncVectorEnv, context="spawn")),
    ],
)
def test_a_registered_task_is_described_with_its_limit(make):
    env = make("MountainCar-v0")
    spec = spec_of(env)
    env.close()
    assert spec.task == "gymnasium:MountainCar-v0" and spec.max_agent_steps == 200
    assert spec.action_space == Discrete(3) and spec.observation_shape == (2,)
    assert spec.observation_dtype == np.float32


def test_whole_numbers_of_64_bits_become_real():
    seen = spaces.Box(0, 2**40, (2,), np.int64)
    assert spec_of(Shown(seen, spaces.Discrete(2))).observation_dtype == np.float32


@pytest.mark.parametrize(
    ("seen", "acted", "words"),
    [
        (spaces.Dict(a=spaces.Discrete(2)), spaces.Discrete(2), "one array.*FlattenObservation"),
        (spaces.Box(shape=(4, 84, 84), **BYTES), spaces.Discrete(2), "channels to the end"),
        (spaces.Box(shape=(84, 84), **BYTES), spaces.Discrete(2), "without an axis of channels"),
        (spaces.Box(0, 1, (64, 64, 3)), spaces.Discrete(2), r"float32\[64, 64, 3\].* uint8"),
        (spaces.Box(0, 1, (3, 64, 64)), spaces.Discrete(2), r"float32\[3, 64, 64\].* uint8"),
        (Line.observation_space, spaces.Discrete(2, start=1), "actions that are numbers from 0"),
        (Line.observation_space, spaces.MultiDiscrete([2, 2]), "actions that are numbers from 0"),
    ],
)
def test_spaces_without_a_description_are_refused(seen, acted, words):
    with pytest.raises(ValueError, match=words):
        spec_of(Shown(seen, acted))


@pytest.mark.parametrize("shape", [(9, 9), (2, 3, 4), (1000,)])
def test_small_tables_of_numbers_are_vectors(shape):
    spec = spec_of(Shown(spaces.Box(0, 1, shape), spaces.Discrete(2)))
    assert spec.observation_shape == shape and not spec.is_image


class Frames(gymnasium.Env):
    """Stacks of frames of noise, with their channels where they are wanted."""

    action_space = spaces.Discrete(2)

    def __init__(self, first):
        shape = (4, 36, 36) if first else (36, 36, 4)
        self.first, self.observation_space = first, spaces.Box(shape=shape, **BYTES)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.seen(), {}

    def step(self, action):
        self.steps += 1
        return self.seen(), 0.0, self.steps == 3, False, {}

    def seen(self):
        frame = self.np_random.integers(0, 256, (36, 36, 4), np.uint8)
        return np.moveaxis(frame, -1, 0) if self.first else frame


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_images_that_lead_with_their_channels_are_paid_as_those_that_end_with_them(mode):
    paid = []
    for first in (False, True):
        makers = [lambda first=first: Frames(first)] * 2
        env = BonusVectorEnv(SyncVectorEnv(makers, autoreset_mode=mode), RE3)
        seen, _ = env.reset(seed=3)
        assert seen.shape == ((2, 4, 36, 36) if first else (2, 36, 36, 4))
        paid.append([env.step(np.zeros(2, int))[1] for _ in range(8)])
    np.testing.assert_array_equal(*paid)
    assert np.std(paid[0]) > 0
