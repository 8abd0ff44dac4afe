"""A sum of bonuses equals what its parts pay alone, in every loop, and hands on what they do."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.sac import learner as sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.intrinsic import icm, re3, rnd
from re3_jax.intrinsic.base import IntrinsicReward, Step, chain, observe_rollout, one_by_one
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.sums import sum_of
from re3_jax.intrinsic.transforms import scale_by_schedule
from re3_jax.training import off_policy, transfer
from tests.equal import equal_arrays
from tests.prediction_tasks import BATCH, SIZES, TASKS, make_batch
from tests.probe_envs import aim
from tests.unit.test_transfer import abstract, split

ENTROPY = RE3Config(ring_size=64, latent_dim=6, beta=0.3, rho=0.01, normalize="running_std")
PARTS = {
    "re3": re3.from_config(ENTROPY),
    "rnd": rnd.from_config(rnd.RNDConfig(**SIZES, beta=0.2, learning_rate=1e-2)),
    "icm": icm.from_config(icm.ICMConfig(**SIZES, beta=0.7, learning_rate=1e-2)),
}
SPEC = TASKS["vectors"]


def stream(steps=3):
    """Batches that arrive one after the other, as of an off-policy agent."""
    for number in range(steps):
        yield make_batch("vectors", number)._replace(agent_steps=jnp.int32(number * BATCH))


def run(bonus, key=3):
    """(rewards of every batch, infos, final state), one compiled program for each function."""
    observe, reward, update = map(jax.jit, (bonus.observe, bonus.reward, bonus.update))
    state = jax.jit(bonus.init, static_argnums=1)(jax.random.key(key), SPEC)
    rewards, infos = [], []
    for number, batch in enumerate(stream()):
        state, index = observe(state, Step(batch.observation))
        batch = batch._replace(bonus_index=index)
        value, state, of_reward = reward(state, batch)
        state, of_update = update(state, batch, jax.random.key(number))
        rewards.append(value)
        infos.append({**of_reward, **of_update})
    return np.stack(rewards), infos, state


@cache
def alone_run(name):
    return run(PARTS[name])


@pytest.mark.parametrize(
    "names", [("rnd", "re3"), pytest.param(("re3", "rnd", "icm"), marks=pytest.mark.slow)]
)
def test_it_is_what_its_parts_pay_alone(names):
    """To the bit: numbers for the log, and all that the parts know. A sum rounds where it may."""
    alone = {name: alone_run(name) for name in names}
    rewards, infos, state = run(sum_of({name: PARTS[name] for name in names}))
    expected = sum(alone[name][0] for name in names)
    # XLA may multiply a part by its weight and add it with one rounding.
    np.testing.assert_allclose(rewards, expected, rtol=3e-7)
    assert all(alone[name][0].min() > 0 for name in names)
    for name in names:
        jax.tree.map(equal_arrays, state.parts[name], alone[name][2])
        for found, own in zip(infos, alone[name][1], strict=True):
            for key, value in own.items():
                row = key if key.startswith(f"{name}_") else f"{name}_{key}"
                np.testing.assert_array_equal(found[row], value)
    for found, paid in zip(infos, alone[names[0]][0], strict=True):
        mean = found[f"{names[0]}_intrinsic_reward_mean"]
        np.testing.assert_allclose(mean, paid.mean(), rtol=1e-6)
        assert found["re3_beta"].dtype == jnp.float32


def test_a_part_with_weight_0_changes_nothing():
    silent = rnd.from_config(rnd.RNDConfig(**SIZES, beta=0.0))
    with_it = run(sum_of({"re3": PARTS["re3"], "rnd": silent}))[0]
    np.testing.assert_array_equal(with_it, alone_run("re3")[0])


def numbered(offset, in_order):
    """Pays the index that it returned: the number of the step, and `offset`."""

    def observe(state, step):
        lanes = step.observation.shape[0]
        return state + lanes, offset + state + jnp.arange(lanes, dtype=jnp.int32)

    return IntrinsicReward(
        init=lambda key, spec, num_lanes=1: jnp.int32(0),
        observe=observe,
        reward=lambda state, batch: (batch.bonus_index.astype(jnp.float32), state, {}),
        update=lambda state, batch, key: (state, {}),
        observe_rollout=one_by_one(observe) if in_order else None,
    )


def test_a_rollout_is_observed_in_order_if_a_part_needs_it():
    parts = {"a": numbered(0, False), "b": numbered(100, True)}
    nested = sum_of({"ab": sum_of(parts), "c": numbered(1000, False)})
    for bonus in (sum_of(parts), nested, chain(sum_of(parts))):
        assert bonus.in_order
    assert not sum_of({"a": parts["a"]}).in_order
    steps = Step(jnp.zeros((4, 3, *SPEC.observation_shape)))
    state, index = observe_rollout(nested, nested.init(jax.random.key(0), SPEC), steps)
    expected = np.arange(12).reshape(4, 3, 1) + [0, 100, 1000]
    np.testing.assert_array_equal(index, expected)
    assert nested.index_shape == (3,)


def test_a_replay_keeps_the_index_of_every_part():
    """The weights tell which index a part got back for each transition."""
    env, lanes, capacity = aim(4), 3, 30
    half = scale_by_schedule(lambda agent_steps: jnp.float32(1 / 1024))
    bonus = sum_of({"a": numbered(0, False), "b": chain(numbered(1024, False), half)})
    config = SACConfig(
        hidden_dim=8, batch_size=16, replay_capacity=capacity, num_envs=lanes,
        initial_agent_steps=6, actor_every=1, target_every=1,
    )  # fmt: skip
    learner = sac.make_learner(config, env.spec, bonus)
    state = jax.jit(lambda key: off_policy.init_state(env, learner, key))(jax.random.key(0))
    step = jax.jit(lambda state: off_policy.train_step(env, learner, state))
    for _ in range(capacity // lanes):
        state, (info, *_) = step(state)
    np.testing.assert_array_equal(
        state.replay.bonus_index, np.arange(capacity)[:, None] + [0, 1024]
    )
    of_a, of_b = info["a_intrinsic_reward_mean"], info["b_intrinsic_reward_mean"]
    np.testing.assert_allclose(of_b, 1 + of_a / 1024, rtol=1e-6)
    np.testing.assert_allclose(info["intrinsic_reward_mean"], of_a + of_b, rtol=1e-6)


def test_each_part_learns_from_its_own_index_and_targets():
    told = {}

    def part(name, offset):
        def update(state, batch, key):
            told[name] = batch.bonus_index.tolist(), batch.targets
            return state, {}

        return numbered(offset, False)._replace(update=update, targets=lambda state, batch: offset)

    bonus = sum_of({"a": part("a", 0), "b": part("b", 100)})
    seen = jnp.zeros((2, *SPEC.observation_shape))
    state, index = bonus.observe(bonus.init(jax.random.key(0), SPEC), Step(seen))
    batch = make_batch("vectors")._replace(observation=seen, bonus_index=index)
    batch = batch._replace(targets=bonus.targets(state, batch))
    bonus.update(state, batch, jax.random.key(0))
    assert told == {"a": ([0, 1], 0), "b": ([100, 101], 100)}


def test_a_fine_tuned_run_inherits_what_each_part_hands_on():
    inherited, afresh = split(abstract("doorkey_6x6", "re3+rnd"))
    below = "intrinsic/parts"
    assert {name.split("/")[2] for name in inherited if name.startswith(below)} == {"re3", "rnd"}
    of_re3, of_rnd = (set(split(abstract("doorkey_6x6", name))[0]) for name in ("re3", "rnd"))
    expected = {
        name.replace("intrinsic", f"{below}/{part}", 1)
        for part, names in (("re3", of_re3), ("rnd", of_rnd))
        for name in names
        if name.startswith("intrinsic/")
    }
    assert {name for name in inherited if name.startswith("intrinsic/")} == expected
    assert any(name.startswith(f"{below}/re3/bonus/ring/") for name in afresh)
    assert any(name.startswith(f"{below}/rnd/bonus/opt_state/") for name in afresh)


def test_a_part_of_which_nothing_is_said_is_an_error():
    state = abstract("doorkey_6x6", "re3+rnd")
    parts = {**state.intrinsic.parts, "rnd": state.counters}
    with pytest.raises(TypeError, match="Counters does not say what .* inherits"):
        transfer.inherited(state._replace(intrinsic=state.intrinsic._replace(parts=parts)))
