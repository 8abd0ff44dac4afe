"""What holds of many bonuses: nothing is compiled twice, and NaN does not stay."""

import contextlib
from functools import cache, partial
from operator import itemgetter

import jax
import numpy as np
import pytest

from re3_jax.intrinsic import reward_rollout
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.runs import build
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.options import parse

LENGTH, LANES = 5, 4
TASKS = ("doorkey_6x6", "gymnax:CartPole-v1", "pixels:bar")
SPECS = {task: build.make_environment(task).spec for task in TASKS}
VIEWS, REALS, PIXELS = SPECS
# Of these two a file of weights is needed.
NAMES = sorted(BONUSES.keys() - {"none", "imagenet", "atc"})
# These need images or numbers of states.
OF_REALS = sorted(set(NAMES) - {"contrastive", "apt", "counts"})
# Of each kind one: a search, and learning with and without augmented images.
OF_PIXELS = ("re3", "rnd", "contrastive")
MINIBATCHES = np.random.default_rng(0).permutation(LENGTH * LANES).reshape(2, -1)


@cache
def bonus_of(name, task, *options):
    words = ["--env", task, "--agent", "ppo", "--bonus", name, "--preset", "debug", *options]
    config, _ = build.prepared(parse([*words, "--ppo.num-envs", str(LANES)]))
    return build.make_bonus(config)


def rollout(task, seed, nan_at=None):
    rng, spec = np.random.default_rng(seed), SPECS[task]
    seen = rng.uniform(0, 3, (LENGTH + 1, LANES, *spec.observation_shape))
    seen = seen.astype(spec.observation_dtype)
    if nan_at is not None:
        seen[nan_at] = np.nan
    ended, actions = np.zeros((LENGTH, LANES), bool), rng.integers(0, 2, (LENGTH, LANES))
    value = rng.normal(size=(LENGTH, LANES)).astype(np.float32)
    return Step(seen[:-1], actions, seen[1:], ended, ended, actions, value)


@contextlib.contextmanager
def compilations():
    names = []

    def count(name, seconds, **kwargs):
        names.extend([name] if "backend_compile" in name else [])

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(count)


@pytest.mark.parametrize("minibatches", [None, MINIBATCHES], ids=["batch", "minibatches"])
@pytest.mark.parametrize(
    ("task", "name"), [(VIEWS, name) for name in NAMES] + [(PIXELS, name) for name in OF_PIXELS]
)
def test_outside_jit_a_second_call_compiles_nothing(task, name, minibatches):
    bonus = bonus_of(name, task)
    state = bonus.init(jax.random.key(0), SPECS[task], LANES)

    def play(state, seed):
        steps = rollout(task, seed)
        _, state, _ = reward_rollout(bonus, state, steps, 0, jax.random.key(seed), minibatches)
        one = jax.tree.map(lambda leaf: leaf[0], steps)
        return bonus.observe(state, one)[0]

    state = play(state, 0)
    with compilations() as counted:
        play(state, 1)
        assert counted == []
        jax.jit(lambda x: x + 1)(0.0)
    assert len(counted) == 1


@pytest.mark.parametrize("name", OF_REALS)
def test_after_an_observation_with_nan_rewards_are_finite_again(name):
    bonus = bonus_of(name, REALS)
    state = bonus.init(jax.random.key(0), SPECS[REALS], LANES)
    program = jax.jit(partial(reward_rollout, bonus))
    finite = []
    for seed, nan_at in enumerate([None, (2, 1, 0), None, None]):
        steps = rollout(REALS, seed, nan_at)
        reward, state, _ = program(state, steps, 0, jax.random.key(seed))
        finite.append(np.isfinite(reward))
    assert not finite[1].all()
    assert finite[0].all() and finite[2].all() and finite[3].all()


@pytest.mark.parametrize("minibatches", [None, MINIBATCHES], ids=["batch", "minibatches"])
@pytest.mark.parametrize("name", OF_REALS)
def test_a_state_may_be_made_inside_shard_map(name, minibatches):
    bonus = bonus_of(name, REALS)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("seed",))
    of_seed, of_lanes = (jax.sharding.PartitionSpec(*axes) for axes in (["seed"], [None, "seed"]))

    def rewarded(keys, steps):
        state = bonus.init(keys[0], SPECS[REALS], LANES)
        return reward_rollout(bonus, state, steps, 0, keys[0], minibatches)[0]

    program = jax.shard_map(rewarded, mesh=mesh, in_specs=(of_seed, of_lanes), out_specs=of_lanes)
    reward = jax.eval_shape(program, jax.random.split(jax.random.key(0), 1), rollout(REALS, 0))
    assert (reward.shape, reward.dtype) == ((LENGTH, LANES), np.float32)


@pytest.mark.parametrize("name", OF_REALS)
def test_one_compiled_program_serves_every_weight(name):
    """beta_0 and rho are data: only the program that makes the state knows them."""
    option, task = BONUSES[name].groups[0], "gymnax:CartPole-v1"
    programs, rewards = [], []
    for beta, rho in (("0.25", "0"), ("0.125", "0.5")):
        weights = [f"--{option}.beta", beta, f"--{option}.rho", rho]
        bonus = bonus_of(name, task, *weights)
        state = jax.jit(bonus.init, static_argnums=(1, 2))(jax.random.key(0), SPECS[task], LANES)
        # NGU pays from the eleventh step of an episode on.
        for at in 3 * [*range(LENGTH)]:
            step = jax.tree.map(itemgetter(at), rollout(task, seed=1))
            state, index = bonus.observe(state, step)
        batch = IntrinsicBatch(
            step.observation, step.action, step.next_observation, index, np.int32(1), step.value
        )
        programs.append(jax.jit(bonus.reward).lower(state, batch).as_text())
        rewards.append(np.asarray(bonus.reward(state, batch)[0]))
    assert programs[0] == programs[1]
    np.testing.assert_allclose(rewards[0], 4 * rewards[1], rtol=1e-5)
    assert rewards[0].any()


@pytest.mark.parametrize("name", ["re3", "rnd", "icm", "e3b", "ngu", "noveld"])
def test_images_that_were_divided_already_are_refused(name):
    bonus, steps = bonus_of(name, PIXELS), rollout(PIXELS, 0)
    state = bonus.init(jax.random.key(0), SPECS[PIXELS], LANES)
    divided = [np.float32(x) / 255 for x in (steps.observation, steps.next_observation)]
    steps = steps._replace(observation=divided[0], next_observation=divided[1])
    with pytest.raises(ValueError, match="images are float32, which the encoder would divide by"):
        reward_rollout(bonus, state, steps, 0, jax.random.key(0))
