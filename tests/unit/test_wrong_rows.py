"""What bonuses say to fields of other steps than the observations, and to options of other kind."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.envs.host.config import AtariConfig
from re3_jax.interop.numpy_bonus import NumpyBonus
from re3_jax.intrinsic import (
    IntrinsicBatch,
    RE3Config,
    Step,
    chain,
    from_config,
    icm,
    inverse_dynamics,
    none,
    rnd,
    scale_by_schedule,
    vcse,
)
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.rewarding import reward_batch, reward_rollout

TIME, LANES = 5, 3
SPEC = EnvSpec("plane", (4,), np.dtype(np.float32), Discrete(2), max_agent_steps=20)
BOX = dataclasses.replace(SPEC, action_space=Box((2,), -1.0, 1.0))
KEY = jax.random.key(0)
RE3 = RE3Config(ring_size=64, latent_dim=4)
BONUSES = {
    "vcse": vcse.from_config(vcse.VCSEConfig(k=2), RE3Config(2, 3, ring_size=64, latent_dim=4)),
    "icm": icm.from_config(icm.ICMConfig(hidden_dim=8, latent_dim=4)),
    "inverse_dynamics": inverse_dynamics.from_config(RE3, LearnedEncoderConfig()),
}


def rollout():
    seen, following, value = jax.random.normal(KEY, (3, TIME, LANES, 4))
    action = jnp.arange(TIME * LANES, dtype=jnp.int32).reshape(TIME, LANES) % 2
    ends = jnp.zeros((TIME, LANES), bool)
    return Step(seen, action, following, ends, ends, value=value[..., 0])


def pay(name, steps, agent_steps=0, spec=SPEC):
    bonus = BONUSES[name]
    pays = jax.jit(lambda *given: reward_rollout(bonus, *given, KEY)[0])
    return pays(bonus.init(KEY, spec, LANES), steps, agent_steps)


@pytest.mark.parametrize(
    ("name", "field", "needed"),
    [
        ("vcse", "value", r"\[time, lane\] of the same"),
        ("vcse", "terminated", r"\[time, lane\] of the same"),
        ("icm", "action", r"\[time, lane, \.\.\.\] of the same"),
        ("icm", "next_observation", r"\[time, lane, \.\.\.\] as observation"),
        ("inverse_dynamics", "action", r"\[time, lane, \.\.\.\] of the same"),
        ("inverse_dynamics", "next_observation", r"\[time, lane, \.\.\.\] as observation"),
    ],
)
def test_a_field_that_leads_with_the_lanes_is_refused_and_not_flattened(name, field, needed):
    steps = rollout()
    assert pay(name, steps).shape == (TIME, LANES)
    swapped = steps._replace(**{field: jnp.swapaxes(getattr(steps, field), 0, 1)})
    with pytest.raises(
        ValueError, match=rf"{field} is \[3, 5.*observation is \[5, 3, 4\].*{needed}"
    ):
        pay(name, swapped)


def test_one_observation_too_many_is_refused():
    steps = rollout()
    longer = jnp.concatenate([steps.observation, steps.observation[:1]])
    with pytest.raises(ValueError, match=r"next_observation is \[6, 3, 4\], but observation is"):
        pay("icm", steps._replace(next_observation=longer))


@pytest.mark.parametrize("shape", [(0, LANES, 4), (TIME, 0, 4), (TIME,)])
def test_a_rollout_of_nothing_is_refused(shape):
    with pytest.raises(ValueError, match=r"hold no step: give \[time, lane, ...\]"):
        pay("vcse", Step(jnp.zeros(shape)))


def test_a_rollout_is_a_step_and_a_batch_is_a_batch():
    bonus = BONUSES["icm"]
    state, steps = bonus.init(KEY, SPEC, LANES), rollout()
    with pytest.raises(TypeError, match=r"is a ArrayImpl: give Step\("):
        reward_rollout(bonus, state, steps.observation, 0, KEY)
    with pytest.raises(TypeError, match=r"is a Step: give IntrinsicBatch\("):
        reward_batch(bonus, state, jax.tree.map(lambda leaf: leaf[0], steps), KEY)


@pytest.mark.parametrize(
    ("field", "given", "kind"),
    [
        ("observation", {"place": jnp.zeros((TIME, LANES, 4))}, "dict"),
        ("next_observation", torch.zeros(TIME, LANES, 4), "Tensor"),
        ("action", [[0] * LANES] * TIME, "list"),
        ("observation", np.full((TIME, LANES, 4), "1.5"), "n array of <U3"),
        ("observation", np.full((TIME, LANES, 4), None), "n array of object"),
    ],
)
def test_fields_are_arrays_of_numbers(field, given, kind):
    bonus, steps = BONUSES["icm"], rollout()._replace(**{field: given})
    with pytest.raises(TypeError, match=f"{field} is a ?{kind}: give one"):
        reward_rollout(bonus, bonus.init(KEY, SPEC, LANES), steps, 0, KEY)


def test_a_step_and_an_index_are_arrays():
    bonus = from_config(RE3)
    state, steps = bonus.init(KEY, SPEC, LANES), jax.tree.map(lambda leaf: leaf[0], rollout())
    with pytest.raises(TypeError, match="observation is a dict: give one array of JAX or NumPy"):
        bonus.observe(state, Step({"place": steps.observation}))
    state, index = bonus.observe(state, steps)
    batch = IntrinsicBatch(*steps[:3], index, 0)
    for wrong in (index.tolist(), torch.arange(LANES)):
        with pytest.raises(TypeError, match="bonus_index is a .*: give one array of JAX or NumPy"):
            reward_batch(bonus, state, batch._replace(bonus_index=wrong), KEY)


def test_what_turns_into_an_array_is_one():
    steps = rollout()
    np.testing.assert_array_equal(
        pay("icm", steps._replace(observation=nnx.Variable(steps.observation))), pay("icm", steps)
    )


@pytest.mark.parametrize(
    ("minibatches", "found"),
    [
        (np.arange(TIME * LANES), r"int64\[15\]"),
        (np.zeros((0, 5), np.int32), r"int32\[0, 5\]"),
        (np.zeros((3, 0), np.int32), r"int32\[3, 0\]"),
        (jnp.zeros((3, 5)), r"float32\[3, 5\]"),
        ([[0, 1], [2, 3]], "list"),
        (np.arange(30).reshape(5, 6), "rows from 0 to 29, but the batch has 15"),
        (jnp.array([[-1, 3]]), "rows from -1 to 3, but the batch has 15"),
    ],
)
def test_minibatches_name_rows_of_the_batch(minibatches, found):
    bonus = BONUSES["icm"]
    with pytest.raises(ValueError, match=f"minibatches (are|name) {found}.*: give (whole|rows)"):
        reward_rollout(bonus, bonus.init(KEY, SPEC, LANES), rollout(), 0, KEY, minibatches)


def test_minibatches_known_inside_jit_are_taken():
    """They are known while the program is traced; anything that JAX computes from them is not."""
    bonus, rows = BONUSES["icm"], jnp.array([[0, 1]])
    state = bonus.init(KEY, SPEC, LANES)
    known = jax.jit(lambda given: reward_rollout(bonus, state, given, 0, KEY, rows)[0])
    unknown = jax.jit(lambda given, rows: reward_rollout(bonus, state, given, 0, KEY, rows)[0])
    np.testing.assert_array_equal(known(rollout()), unknown(rollout(), rows))


def test_a_batch_of_numpy_may_have_unknown_rows_and_minibatches_under_jit():
    bonus, steps = BONUSES["icm"], jax.tree.map(lambda leaf: leaf[0], rollout())
    batch = IntrinsicBatch(*steps[:3], jnp.zeros(LANES, jnp.int32), 0)
    fixed = jax.tree.map(np.asarray, batch)
    state, known, rows = bonus.init(KEY, SPEC, LANES), jnp.array([True, False, True]), [[0, 2]]

    def paid(batch):
        def of(known, rows):
            return reward_batch(bonus, state, batch._replace(next_is_known=known), KEY, rows)[0]

        return jax.jit(of)(known, jnp.array(rows))

    np.testing.assert_array_equal(paid(fixed), paid(batch))


@pytest.mark.parametrize("field", ["action", "next_observation", "value", "next_is_known"])
def test_a_field_of_another_batch_is_refused(field):
    bonus, flat = BONUSES["icm"], jax.tree.map(lambda leaf: leaf[0], rollout())
    index, known = jnp.zeros(LANES, jnp.int32), jnp.ones(LANES, bool)
    batch = IntrinsicBatch(*flat[:3], index, jnp.int32(0), flat.value, known)
    state = bonus.init(KEY, SPEC, LANES)
    assert reward_batch(bonus, state, batch, KEY)[0].shape == (LANES,)
    with pytest.raises(ValueError, match=rf"{field} is \[2.*, but observation is \[3, 4\]"):
        reward_batch(bonus, state, batch._replace(**{field: getattr(batch, field)[:2]}), KEY)


@pytest.mark.parametrize(
    "agent_steps",
    [None, 1.5, KEY, np.arange(TIME * LANES), jnp.float32(3), True, -5, 2**31, np.int64(2**31)],
)
def test_agent_steps_are_one_whole_number(agent_steps):
    bonus = BONUSES["icm"]
    with pytest.raises(ValueError, match="agent_steps is .*: give (one whole|a) number"):
        reward_rollout(bonus, bonus.init(KEY, SPEC, LANES), rollout(), agent_steps, KEY)


@pytest.mark.parametrize("agent_steps", [None, float("nan"), 1.7, -3])
def test_agent_steps_of_a_numpy_loop_are_whole_and_not_negative(agent_steps):
    bonus = NumpyBonus(from_config(RE3), SPEC, LANES)
    steps = jax.tree.map(np.asarray, rollout())
    index = bonus.observe(steps.observation[0])
    batch = IntrinsicBatch(*(leaf[0] for leaf in steps[:3]), index, bonus.agent_steps)
    assert bonus.reward(batch)[0].shape == (LANES,)
    with pytest.raises(ValueError, match=f"agent_steps is {agent_steps}: give"):
        bonus.reward(batch._replace(agent_steps=agent_steps))


@pytest.mark.parametrize("name", ["icm", "inverse_dynamics"])
@pytest.mark.parametrize(
    ("spec", "action"),
    [
        (BOX, jnp.zeros((TIME, LANES, 2), jnp.int32)),
        (BOX, jnp.zeros((TIME, LANES, 3))),
        (BOX, jnp.zeros((TIME, LANES))),
        (BOX, jnp.zeros((TIME, LANES), bool)),
        (BOX, jnp.zeros((TIME, LANES), jnp.int32)),
        (SPEC, jax.nn.one_hot(jnp.zeros((TIME, LANES), jnp.int32), 2)),
        (SPEC, jnp.zeros((TIME, LANES))),
        (SPEC, jnp.zeros((TIME, LANES, 1), jnp.int32)),
    ],
)
def test_actions_of_another_kind_are_named(name, spec, action):
    needed = {
        BOX: r"continuous: give real numbers \[batch, 2\]",
        SPEC: r"discrete: give whole numbers \[batch\] below 2",
    }
    with pytest.raises(ValueError, match=rf"actions are .*\[15.*{needed[spec]}"):
        pay(name, rollout()._replace(action=action), spec=spec)


@pytest.mark.parametrize("number", [-1, 2])
def test_an_action_that_the_task_does_not_have_teaches_nothing(number):
    """One-hot it would be all zeros, for which the loss is 0."""
    bonus, flat = BONUSES["icm"], jax.tree.map(lambda leaf: leaf[0], rollout())
    action = flat.action.at[1].set(number)
    batch = IntrinsicBatch(
        flat.observation, action, flat.next_observation, jnp.zeros(LANES), jnp.int32(0)
    )
    state = bonus.init(KEY, SPEC, LANES)
    paid, _, _ = bonus.reward(state, batch)
    np.testing.assert_array_equal(jnp.isnan(paid), [False, True, False])
    after, info = bonus.update(state, batch, KEY)
    assert jnp.isnan(info["icm_inverse_loss"])
    jax.tree.map(np.testing.assert_array_equal, after, state)
    encoder = inverse_dynamics.inverse_dynamics_encoder(RE3, LearnedEncoderConfig(hidden_dim=8))
    state = encoder.init(KEY, SPEC)
    after, info = encoder.update(state, batch, KEY)
    assert jnp.isnan(info["inverse_dynamics_loss"])
    jax.tree.map(np.testing.assert_array_equal, after, state)


@pytest.mark.parametrize(("dtype", "choices"), [(np.uint8, 256), (np.int8, 200)])
def test_narrow_numbers_of_actions_are_those_of_wide_ones(dtype, choices):
    """`choices` itself is none of their numbers."""
    spec = dataclasses.replace(SPEC, action_space=Discrete(choices))
    steps = rollout()
    narrow, wide = (steps._replace(action=steps.action.astype(x)) for x in (dtype, np.int32))
    paid = pay("icm", wide, spec=spec)
    assert jnp.isfinite(paid).all()
    np.testing.assert_array_equal(pay("icm", narrow, spec=spec), paid)


@pytest.mark.parametrize("name", ["rnd", "icm"])
def test_no_gradient_passes_through_what_a_chain_pays(name):
    """As through none of RE3's: an agent would otherwise learn to see what pays."""
    bonus = {"icm": icm.icm, "rnd": rnd.rnd}[name](
        {"icm": icm.ICMConfig, "rnd": rnd.RNDConfig}[name](hidden_dim=8, latent_dim=4)
    )
    steps = jax.tree.map(lambda leaf: leaf[0], rollout())

    def gradient(bonus):
        state = bonus.init(KEY, SPEC, LANES)

        def total(seen, following):
            batch = IntrinsicBatch(seen, steps.action, following, jnp.zeros(LANES), jnp.int32(0))
            return jnp.sum(bonus.reward(state, batch)[0])

        return jnp.stack(jax.grad(total, argnums=(0, 1))(steps.observation, steps.next_observation))

    assert jnp.abs(gradient(bonus)).max() > 0
    np.testing.assert_array_equal(gradient(chain(bonus)), 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count_self": "no"}, "count_self must be True or False, but it is 'no'"),
        ({"merge_copies": 1}, "merge_copies must be True or False, but it is 1"),
        ({"ensemble_size": True}, "ensemble_size must be a whole number, but it is True"),
        ({"ring_size": "10"}, "ring_size must be a whole number, but it is '10'"),
        ({"beta": "0.1"}, "beta must be a number, but it is '0.1'"),
        ({"beta": None}, "beta must be a number, but it is None"),
        ({"rho": "0"}, "rho must be a number, but it is '0'"),
    ],
)
def test_options_of_another_kind_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        RE3Config(**options)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (A2CConfig, "bootstrap_truncation"),
        (PPOConfig, "recurrent"),
        (RainbowConfig, "double"),
        (SACConfig, "frame_differences"),
        (DreamerConfig, "predict_discount"),
        (AtariConfig, "life_ends"),
        (rnd.RNDConfig, "normalize_observations"),
    ],
)
def test_a_switch_is_true_or_false(kind, name):
    assert getattr(kind(**{name: np.bool_(False)}), name) == np.bool_(False)
    with pytest.raises(ValueError, match=f"{name} must be True or False, but it is 'no'"):
        kind(**{name: "no"})


def test_options_may_be_numpys():
    config = RE3Config(
        ring_size=np.int64(64), beta=np.float32(0.5), count_self=np.bool_(True), log1p=False
    )
    assert config == RE3Config(ring_size=64, beta=0.5, log1p=False)


def test_a_chain_takes_transforms_and_a_weight_a_schedule():
    with pytest.raises(TypeError, match="0.5 is no RewardTransform: give"):
        chain(none(), 0.5)
    with pytest.raises(TypeError, match="schedule is 0.5: give a function of the agent steps"):
        scale_by_schedule(0.5)


def test_a_task_that_cannot_be_is_refused():
    for number in ("max_agent_steps", "action_repeat", "colours", "frame_stack", "num_states"):
        with pytest.raises(ValueError, match=f"{number} must be at least 1, but it is 0"):
            dataclasses.replace(SPEC, **{number: 0})
    with pytest.raises(ValueError, match="no whole number of such frames"):
        dataclasses.replace(SPEC, frame_stack=3)
    with pytest.raises(ValueError, match="num_actions must be at least 1"):
        Discrete(0)
    with pytest.raises(ValueError, match=r"low \(1.0\) must be below high \(-1.0\)"):
        Box((2,), 1.0, -1.0)
