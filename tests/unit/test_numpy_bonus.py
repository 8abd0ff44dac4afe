"""The NumPy facade: the numbers of the functions behind it, exact saving, refused arrays."""

import dataclasses
from functools import cache

import jax
import numpy as np
import pytest
import torch

from re3_jax import compilation
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.interop.numpy_bonus import NumpyBonus
from re3_jax.intrinsic import (
    LearnedEncoderConfig,
    RE3Config,
    contrastive,
    counts,
    e3b,
    from_config,
    icm,
    inverse_dynamics,
    ngu,
    none,
    noveld,
    pretrained,
    rnd,
    sum_of,
    vcse,
)
from re3_jax.intrinsic.base import IntrinsicBatch, IntrinsicReward, Step
from re3_jax.intrinsic.rewarding import reward_rollout
from re3_jax.intrinsic.state_entropy import scaled
from tests.prediction_tasks import SIZES, TASKS, make_batch
from tests.torch_oracle import atc
from tests.unit.test_episodic_bonus import episodic_counts

LANES, TIME = 4, 3
ENTROPY = RE3Config(
    ring_size=32, latent_dim=6, num_filters=4, image_crop=16, beta=0.5, rho=0.01,
    normalize="running_std",
)  # fmt: skip
LEARNED = LearnedEncoderConfig(hidden_dim=16)
WHITENED = rnd.RNDConfig(**SIZES, normalize_observations=True)


@cache
def with_atc() -> IntrinsicReward:
    torch.manual_seed(0)
    weights = pretrained.atc_network.from_tensors(
        {name: leaf.numpy() for name, leaf in atc.Encoder(filters=4, code=12).state_dict().items()}
    )
    return scaled(ENTROPY, pretrained.atc(ENTROPY, weights))


BONUSES = {
    "none": none,
    "re3": lambda: from_config(ENTROPY),
    "re3 ensemble": lambda: from_config(RE3Config(ring_size=32, ensemble_size=2)),
    "rnd": lambda: rnd.from_config(WHITENED),
    "icm": lambda: icm.from_config(icm.ICMConfig(**SIZES)),
    "contrastive": lambda: scaled(ENTROPY, contrastive.contrastive(ENTROPY, LEARNED)),
    "inverse dynamics": lambda: scaled(
        ENTROPY, inverse_dynamics.inverse_dynamics(ENTROPY, LEARNED)
    ),
    "e3b": lambda: e3b.from_config(e3b.E3BConfig(**SIZES), TIME * LANES),
    "noveld": lambda: noveld.from_config(noveld.NovelDConfig(**SIZES), TIME * LANES),
    "ngu": lambda: ngu.from_config(ngu.NGUConfig(**SIZES, neighbours=1), TIME * LANES),
    "atc": with_atc,
    "sum": lambda: sum_of({"re3": from_config(ENTROPY), "rnd": rnd.from_config(WHITENED)}),
    "vcse": lambda: vcse.from_config(vcse.VCSEConfig(k=2, neighbours="ring"), ENTROPY),
    "vcse in the rollout": lambda: vcse.from_config(vcse.VCSEConfig(k=2), ENTROPY),
    "episodic": lambda: episodic_counts(lambda seen: (seen[:, 0] > 0).astype(int), 2),
}
FAST = {("re3", "vectors"), ("rnd", "vectors"), ("episodic", "vectors")}
CASES = [
    pytest.param(*case, marks=[] if case in FAST else pytest.mark.slow)
    for case in [
        *((name, "vectors") for name in BONUSES if name not in ("contrastive", "atc")),
        ("icm", "joints"),
        ("contrastive", "views"),
        ("re3", "pixels"),
        ("rnd", "pixels"),
        ("atc", "pixels"),
    ]
]


@cache
def program(name, function):
    bonus = BONUSES[name]()
    if function == "rollout":
        return compilation.jit(lambda *given: reward_rollout(bonus, *given))
    return compilation.jit(getattr(bonus, function))


def steps(task, seed):
    """One step of every lane, as a loop in NumPy has it."""
    batch = make_batch(task, seed, LANES)
    rng = np.random.default_rng(seed)
    ends = rng.random((2, LANES)) < 0.3
    arrays = batch.observation, batch.action, batch.next_observation
    value = rng.normal(size=LANES).astype(np.float32)
    return Step(*(np.asarray(leaf) for leaf in arrays), *ends, value=value)


def rollout(task, seed):
    """`TIME` such steps."""
    return jax.tree.map(lambda *rows: np.stack(rows), *(steps(task, seed + t) for t in range(TIME)))


def start(name, task, seed=5):
    """State and random stream of the same seed, from the function `init`."""
    init_key, stream = jax.random.split(jax.random.key(seed))
    bonus = BONUSES[name]()
    init = compilation.jit(lambda key: bonus.init(key, TASKS[task], LANES))
    return init(init_key), stream


def make(name, task, seed=5):
    return NumpyBonus(BONUSES[name](), TASKS[task], LANES, seed)


def batch_of(step, index, agent_steps):
    return IntrinsicBatch(*step[:3], index, np.int32(agent_steps), step.value)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_an_off_policy_loop_gets_the_numbers_of_the_functions(name, task):
    facade, (state, stream), paid = make(name, task), start(name, task), False
    for number in range(1, 4):
        step = steps(task, number)
        index = facade.observe(*step)
        state, expected = program(name, "observe")(state, step)
        np.testing.assert_array_equal(index, expected)
        assert facade.agent_steps == number * LANES
        batch = batch_of(step, index, facade.agent_steps)
        reward, info = facade.reward(batch)
        trained = facade.update(batch)
        expected, state, told = program(name, "reward")(state, batch)
        stream, key = jax.random.split(stream)
        state, told_by_update = program(name, "update")(state, batch, key)
        assert reward.dtype == np.float32 and reward.flags.writeable
        paid |= reward.any()
        np.testing.assert_array_equal(reward, expected)
        assert info == {key: float(value) for key, value in told.items()}
        assert trained == {key: float(value) for key, value in told_by_update.items()}
    assert paid == (name != "none")


@pytest.mark.parametrize(("name", "task"), CASES)
def test_an_on_policy_loop_gets_the_numbers_of_the_functions(name, task):
    facade, (state, stream) = make(name, task), start(name, task)
    for number in range(2):
        lanes = rollout(task, 10 * number)
        reward, info = facade.reward_rollout(lanes)
        stream, key = jax.random.split(stream)
        before = np.int32(number * TIME * LANES)
        expected, state, told = program(name, "rollout")(state, lanes, before, key)
        assert reward.shape == (TIME, LANES)
        np.testing.assert_array_equal(reward, expected)
        assert info == {key: float(value) for key, value in told.items()}
    assert name == "none" or reward.any()


@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_restored_bonus_goes_on_as_if_it_had_not_stopped(name, task, tmp_path):
    path = tmp_path / "bonus.npz"
    whole = make(name, task)
    whole.reward_rollout(rollout(task, 0))
    whole.save(path)
    # Another seed: nothing of it may remain.
    resumed = make(name, task, seed=6)
    resumed.restore(path)
    assert resumed.agent_steps == whole.agent_steps == TIME * LANES
    for number in (1, 2):
        ours, theirs = (bonus.reward_rollout(rollout(task, number)) for bonus in (resumed, whole))
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1] == theirs[1]
    both = tmp_path / "resumed.npz", tmp_path / "whole.npz"
    resumed.save(both[0]), whole.save(both[1])
    with np.load(both[0]) as ours, np.load(both[1]) as theirs:
        assert ours.files == theirs.files
        for leaf in ours.files:
            np.testing.assert_array_equal(ours[leaf], theirs[leaf])
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(
        ["bonus.npz", "resumed.npz", "whole.npz"]
    )


def test_a_bad_file_is_refused_and_the_state_stays(tmp_path):
    bonus, path = make("re3", "vectors"), tmp_path / "bonus.npz"
    bonus.reward_rollout(rollout("vectors", 0))
    bonus.save(path)
    whole = path.read_bytes()
    other = make("re3 ensemble", "vectors")
    with pytest.raises(ValueError, match="does not hold a state of this bonus: restore it with"):
        other.restore(path)
    with pytest.raises(ValueError, match="cannot read the state of a bonus from .*none.npz"):
        bonus.restore(tmp_path / "none.npz")
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for damaged in (whole[:-200], bytes(flipped), b"text"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="cannot read the state of a bonus from"):
            bonus.restore(path)
    np.save(path.with_suffix(".npy"), np.ones(3))
    with pytest.raises(ValueError, match="it is not an .npz file that save wrote"):
        bonus.restore(path.with_suffix(".npy"))
    path.write_bytes(whole)
    expected, _ = bonus.reward_rollout(rollout("vectors", 1))
    bonus.restore(path)
    np.testing.assert_array_equal(bonus.reward_rollout(rollout("vectors", 1))[0], expected)


def test_a_loop_may_reuse_its_buffers_at_once():
    """This bonus pays the newest observation, which it keeps as it was given."""
    keeps = IntrinsicReward(
        init=lambda key, spec, num_lanes: np.zeros((num_lanes, *spec.observation_shape)),
        observe=lambda state, step: (step.observation, step.action),
        reward=lambda state, batch: (state[batch.bonus_index, 0], state, {}),
        update=lambda state, batch, key: (state, {}),
    )
    bonus, buffer = NumpyBonus(keeps, TASKS["vectors"], LANES), np.ones((LANES, 5), np.float32)
    index = bonus.observe(buffer, np.arange(LANES, dtype=np.int32) % 3)
    buffer[:] = 7.0
    reward, _ = bonus.reward(batch_of(steps("vectors", 0), index, 0))
    np.testing.assert_array_equal(reward, np.ones(LANES))


def test_steps_beyond_int32_count_as_the_last():
    """beta_t is 0 long before."""
    bonus = make("re3", "vectors")
    first, _ = bonus.reward_rollout(rollout("vectors", 0))
    assert first.all()
    bonus._state = bonus._state._replace(agent_steps=np.int64(2**31 - 1))
    for _ in range(2):
        reward, _ = bonus.reward_rollout(rollout("vectors", 0))
        np.testing.assert_array_equal(reward, np.zeros((TIME, LANES)))
    assert bonus.agent_steps == 2**31 - 1 + 2 * TIME * LANES


def test_arrays_are_cast_within_their_kind_and_refused_otherwise():
    bonus, twin = make("rnd", "vectors"), make("rnd", "vectors")
    step = steps("vectors", 0)
    wide = Step(step.observation.astype(np.float64), step.action.astype(np.int64), *step[2:])
    np.testing.assert_array_equal(bonus.observe(*wide), twin.observe(*step))
    batches = (batch_of(one, np.zeros(LANES, np.int64), 4) for one in (wide, step))
    np.testing.assert_array_equal(bonus.reward(next(batches))[0], twin.reward(next(batches))[0])
    holed = step.observation.copy()
    holed[2:, 1] = np.nan
    refused = [
        (dict(observation=step.observation[:, :3]), r"observation must be float32\[4, 5\], but it"),
        (dict(action=np.ones(LANES, np.float32)), r"action must be int32\[4\], but it is float32"),
        (dict(next_observation=step.observation[:2]), r"next_observation must be .* float32\[2, 5"),
        (dict(terminated=np.zeros(LANES, np.float32)), r"terminated must be bool\[4\], but it is"),
        (dict(truncated=np.zeros((LANES, 1), bool)), r"truncated must be bool\[4\], but it is boo"),
        (dict(observation=holed), r"observation holds NaN or infinity, first at \[2, 1\]"),
        (dict(value=np.full(LANES, np.inf)), r"value holds NaN or infinity, first at \[0\]"),
        (dict(action=np.array([0, 1, -1, 0])), "action holds -1: give numbers from 0 to "),
        (dict(action=np.array([0, 99, 1, 0])), "action holds 99: give numbers from 0 to "),
    ]
    for changed, words in refused:
        with pytest.raises(ValueError, match=words):
            bonus.observe(**{**step._asdict(), **changed})
    with pytest.raises(ValueError, match=r"\(a rollout leads with time and lane\), but"):
        bonus.reward_rollout(rollout("vectors", 0)._replace(observation=np.zeros((TIME, LANES, 3))))
    with pytest.raises(ValueError, match=r"bonus_index must be int32\[4\]"):
        bonus.reward(batch_of(step, np.zeros(3, np.int32), 4))
    assert bonus.agent_steps == LANES


def test_a_bonus_that_stores_nothing_needs_no_index():
    bonus, twin, step = make("rnd", "vectors"), make("rnd", "vectors"), steps("vectors", 0)
    without = batch_of(step, np.zeros(LANES, np.int32), 4)._replace(bonus_index=None)
    expected = twin.reward(batch_of(step, np.zeros(LANES, np.int32), 4))[0]
    np.testing.assert_array_equal(bonus.reward(without)[0], expected)


@pytest.mark.parametrize("name", ["re3", "vcse", "e3b", "noveld", "ngu", "sum"])
def test_a_bonus_that_stores_something_needs_the_index(name):
    bonus, step = make(name, "vectors"), steps("vectors", 0)
    bonus.observe(*step)
    batch = batch_of(step, np.zeros(LANES, np.int32), 4)._replace(bonus_index=None)
    with pytest.raises(ValueError, match="this bonus needs bonus_index of every step"):
        bonus.reward(batch)


@pytest.mark.parametrize("wrong", [-1, LANES, 10**6])
def test_an_index_that_was_never_returned_is_refused(wrong, tmp_path):
    bonus, step = make("re3", "vectors"), steps("vectors", 0)
    index = bonus.observe(*step)
    bonus.reward(batch_of(step, index, 4))
    index[2] = wrong
    with pytest.raises(ValueError, match=f"bonus_index holds {wrong}: give numbers from 0 to 3"):
        bonus.reward(batch_of(step, index, 4))
    bonus.save(tmp_path / "bonus")
    again = make("re3", "vectors")
    again.restore(tmp_path / "bonus")
    again.reward(batch_of(step, np.arange(LANES, dtype=np.int32), 4))
    with pytest.raises(ValueError, match=f"bonus_index holds {wrong}: give numbers from 0 to 3"):
        again.reward(batch_of(step, index, 4))


def test_whole_numbers_that_jax_does_not_have_are_refused():
    """They would wrap: 2^32 is 0 in 32 bits."""
    spec = EnvSpec("tape", (1,), np.dtype(np.int64), Discrete(2), max_agent_steps=9)
    bonus = NumpyBonus(BONUSES["re3"](), spec, 2)
    bonus.observe(np.array([[1], [2**31 - 1]]))
    with pytest.raises(ValueError, match="holds whole numbers that int32 does not: make them real"):
        bonus.observe(np.array([[1], [2**32]]))
    narrow = NumpyBonus(
        BONUSES["re3"](), dataclasses.replace(spec, observation_dtype=np.dtype(np.int16)), 2
    )
    with pytest.raises(ValueError, match="observation holds whole numbers that int16 does not"):
        narrow.observe(np.array([[1], [2**16 + 1]]))
    with pytest.raises(ValueError, match="action holds whole numbers that int32 does not"):
        bonus.observe(np.array([[1], [2]]), np.array([0, 2**32]))


def test_only_a_bonus_that_remembers_episodes_needs_every_lane():
    step = jax.tree.map(lambda leaf: leaf[:3], steps("vectors", 0))
    np.testing.assert_array_equal(make("re3", "vectors").observe(*step), [0, 1, 2])
    with pytest.raises(ValueError, match=r"observation must be float32\[4, 5\], but .*\[3, 5\]"):
        make("episodic", "vectors").observe(*step)


def test_a_loop_without_lanes_or_steps_is_refused():
    with pytest.raises(ValueError, match="num_lanes is 0: give at least 1"):
        NumpyBonus(BONUSES["re3"](), TASKS["vectors"], num_lanes=0)
    bonus = make("re3", "vectors")
    with pytest.raises(ValueError, match="a rollout of 0 steps of 4 lanes has nothing to reward"):
        bonus.reward_rollout(Step(np.zeros((0, LANES, 5))))
    with pytest.raises(ValueError, match=r"of shape \(8,\) have no axes for time and lane"):
        bonus.reward_rollout(Step(np.zeros(8)))
    assert bonus.agent_steps == 0


def test_options_and_whole_steps_are_told_what_to_give():
    with pytest.raises(TypeError, match="bonus is a RE3Config: give an IntrinsicReward"):
        NumpyBonus(ENTROPY, TASKS["vectors"], LANES)
    with pytest.raises(TypeError, match=r"give its fields, observe\(\*step\)"):
        make("rnd", "vectors").observe(steps("vectors", 0))
    with pytest.raises(TypeError, match=r"not a ndarray: give Step\(observation, \.\.\.\)"):
        make("rnd", "vectors").reward_rollout(np.zeros((TIME, LANES, 5)))


def test_lanes_to_restart_are_bool():
    bonus = make("re3", "vectors")
    for lanes in ([0] * LANES, [True]):
        with pytest.raises(ValueError, match=rf"give bool \[{LANES}\]"):
            bonus.restart(lanes)


def test_a_mask_of_lanes_may_be_reused_at_once():
    """JAX may read an array of the caller's when the call is long over."""
    lanes, spec = 4096, TASKS["vectors"]
    config = e3b.E3BConfig(latent_dim=32, hidden_dim=8)
    bonus = NumpyBonus(e3b.from_config(config, lanes), spec, lanes)
    # JAX copies what is not aligned to 64 bytes.
    buffer, still = np.zeros(lanes + 64, bool), np.zeros((1, lanes), bool)
    mask = buffer[-buffer.ctypes.data % 64 :][:lanes]
    observation = np.zeros((1, lanes, *spec.observation_shape), np.float32)
    for _ in range(5):
        bonus.reward_rollout(Step(observation, still, observation, still, still))
        mask[:] = True
        bonus.restart(mask)
        mask[:] = False
        assert np.all(bonus._state.intrinsic.bonus.begins)


def test_the_next_frame_of_another_episode_is_not_paid_for():
    bonus, step = make("icm", "vectors"), steps("vectors", 0)
    index = bonus.observe(*step)
    known = np.array([True, False, True, False])
    batch = batch_of(step, index, LANES)._replace(next_is_known=known)
    reward, _ = bonus.reward(batch)
    state, _ = program("icm", "observe")(start("icm", "vectors")[0], step)
    expected, *_ = program("icm", "reward")(state, batch)
    np.testing.assert_array_equal(reward, expected)
    assert (reward > 0).tolist() == known.tolist()
    with pytest.raises(ValueError, match=r"next_is_known must be bool\[4\]"):
        bonus.reward(batch._replace(next_is_known=known.astype(np.float32)))


def test_a_state_that_the_task_does_not_number_is_refused():
    spec = dataclasses.replace(TASKS["vectors"], num_states=4)
    bonus = NumpyBonus(counts.from_config(counts.CountsConfig(), 64), spec, LANES)
    step = steps("vectors", 0)._replace(state_number=np.array([0, 3, 3, 1]))
    bonus.observe(*step)
    for number in (-1, 4):
        with pytest.raises(ValueError, match=f"state_number holds {number}: give numbers from 0"):
            bonus.observe(*step._replace(state_number=np.array([0, number, 1, 1])))


def test_a_missing_field_is_named():
    bonus, step = make("icm", "vectors"), steps("vectors", 0)
    index = bonus.observe(*step[:3])
    for name in ("action", "next_observation"):
        batch = batch_of(step, index, 0)._replace(**{name: None})
        with pytest.raises(ValueError, match=f"this bonus needs {name} of every step"):
            bonus.reward(batch)


@pytest.mark.parametrize("name", ["re3", "rnd"])
def test_a_batch_of_nothing_is_refused(name):
    bonus, step = make(name, "vectors"), steps("vectors", 0)
    bonus.observe(*step)
    empty = jax.tree.map(lambda leaf: leaf[:0], batch_of(step, np.zeros(LANES, np.int32), 4)[:4])
    for use in (bonus.reward, bonus.update):
        with pytest.raises(ValueError, match="the batch has no transition"):
            use(IntrinsicBatch(*empty, np.int32(4)))
