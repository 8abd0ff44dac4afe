"""PPO's parts against formulas and other libraries."""

import math

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import whitening
from re3_jax.agents.ppo import advantages, networks, reward_scale
from re3_jax.agents.ppo.agent import learning_rate, make_ppo
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.learner import make_learner
from re3_jax.agents.ppo.minibatches import explained_variance
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import none
from re3_jax.networks.conv_stack import ConvStack
from re3_jax.training.on_policy import init_state, train_update
from tests.probe_envs import aim

scale = jax.jit(reward_scale.scale)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"num_epochs": 0}, "num_epochs must be at least 1, but it is 0"),
        ({"clip_epsilon": 0.0}, "clip_epsilon must be a finite number above 0"),
        ({"learning_rate": math.nan}, "learning_rate must be a finite number above 0"),
        ({"anneal_agent_steps": 0}, "anneal_agent_steps must be at least 1, but it is 0"),
        ({"target_kl": -0.1}, "target_kl must be a finite number above 0"),
        ({"reward_clip": 0.0}, "reward_clip must be a finite number above 0"),
        ({"intrinsic_discount": 1.1}, "intrinsic_discount must be from 0 to 1"),
        ({"scaled_rewards": "task"}, "unknown scaled_rewards 'task': choose one of none, all"),
        ({"scaled_rewards": "intrinsic"}, "set intrinsic_value_head, or scaled_rewards to none"),
        ({"num_minibatches": 5}, r"num_minibatches 5 must divide the 512 steps .*4 lanes x 128"),
        ({"num_minibatches": 512}, "into parts of 2 or more"),
    ],
)
def test_bad_settings_are_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        PPOConfig(**values)


def test_the_learning_rate_is_cleanrls():
    """frac = 1 - (iteration - 1) / iterations."""
    config = PPOConfig(anneal_agent_steps=5_120)
    for iteration in range(1, 11):
        rate = learning_rate(config, jnp.int32((iteration - 1) * 512))
        assert rate == pytest.approx(2.5e-4 * (1 - (iteration - 1) / 10))
    assert learning_rate(config, jnp.int32(6_000)) == 0.0
    assert learning_rate(PPOConfig(), jnp.int32(10**9)) == pytest.approx(2.5e-4)


def test_explained_variance():
    target = np.random.default_rng(0).normal(size=100).astype(np.float32)
    assert explained_variance(target, target) == 1.0
    assert explained_variance(np.full_like(target, 3.0), target) == pytest.approx(0.0, abs=1e-6)
    assert explained_variance(target, -target) == pytest.approx(-3.0, rel=1e-5)
    assert np.isnan(explained_variance(target, np.ones_like(target)))


def test_rewards_of_the_task_are_clipped_and_those_of_the_bonus_are_not():
    zeros, reward = jnp.zeros((3, 1)), jnp.array([[-4.0], [0.5], [9.0]])
    ended, image = jnp.ones((3, 1), bool), jnp.zeros((3, 1, 2))
    rollout = Rollout(image, zeros, reward, zeros + 2, ended, ~ended, image, image[0])
    config = PPOConfig(num_envs=1, rollout_length=4, num_minibatches=1, reward_clip=1.0)
    scales = advantages.init_scales(config)
    advantage, *_ = advantages.estimate(config, rollout, jnp.zeros((4, 1, 1)), None, scales)
    np.testing.assert_array_equal(advantage[:, 0], [1.0, 2.5, 3.0])


@pytest.mark.parametrize("continues", [False, True])
def test_rewards_are_divided_by_the_deviation_of_all_sums_so_far(continues):
    rng = np.random.default_rng(1)
    state, sums, present = reward_scale.init(3), [], np.zeros(3)
    for steps in (7, 5, 6):
        reward = rng.normal(1.0, 2.0, (steps, 3)).astype(np.float32)
        ends = rng.random((steps, 3)) < (0.0 if continues else 0.3)
        scaled, state = scale(state, reward, ends, 0.9)
        for t in range(steps):
            present = 0.9 * present + reward[t]
            sums.append(present)
            present = np.where(ends[t], 0.0, present)
        expected = np.clip(reward / np.std(np.float64(sums)), -10, 10)
        np.testing.assert_allclose(scaled, expected, rtol=1e-5)
        np.testing.assert_allclose(state.discounted_sum, present, rtol=1e-5, atol=1e-6)


def test_a_reward_that_is_not_finite_leaves_the_later_ones():
    rng, ends = np.random.default_rng(0), np.zeros((8, 2), bool)
    state = reward_scale.init(2)
    for number in range(4):
        reward = rng.normal(size=(8, 2)).astype(np.float32)
        reward[3, 1] = np.nan if number == 1 else reward[3, 1]
        scaled, state = scale(state, reward, ends, 0.9)
    # The batch of that reward alone is left out.
    assert state.stats.num_values == 3 * 16
    assert np.isfinite(scaled).all() and np.isfinite(state.discounted_sum).all()


def test_rewards_that_are_all_0_stay_so_and_large_ones_are_clipped():
    ends, zeros = np.zeros((4, 1), bool), np.zeros((4, 1), np.float32)
    scaled, state = scale(reward_scale.init(1), zeros, ends, 0.9)
    np.testing.assert_array_equal(scaled, zeros)
    for _ in range(100):
        _, state = scale(state, zeros, ends, 0.9)
    scaled, _ = scale(state, zeros + np.float32([[0], [0], [0], [1]]), ends, 0.9)
    assert scaled[3] == 10.0


class Replayed(gymnasium.Env):
    """Shows given observations and pays given rewards."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, observations, rewards):
        self.rest = iter(zip(observations, [0.0, *rewards], strict=True))

    def reset(self, *, seed=None, options=None):
        return next(self.rest)[0], {}

    def step(self, action):
        observation, reward = next(self.rest)
        return observation, reward, False, False, {}


def test_both_normalisations_end_where_gymnasiums_do():
    """Gymnasium's begin with 1e-4 values of variance 1, so they agree in the long run."""
    rng, steps = np.random.default_rng(2), 5_000
    observations = rng.normal([1.0, -3.0, 0.0], [2.0, 0.1, 9.0], (steps + 1, 3))
    rewards = rng.normal(0.5, 1.0, steps)
    env = gymnasium.wrappers.NormalizeReward(
        gymnasium.wrappers.NormalizeObservation(Replayed(observations, rewards)), gamma=0.99
    )
    env.reset()
    for _ in range(steps):
        observation, reward, *_ = env.step(0)
    spec = EnvSpec("probe:vectors", (3,), np.dtype(np.float32), Discrete(2), 10)
    seen = whitening.update(whitening.init(spec), jnp.float32(observations))
    whitened = whitening.whiten(seen, jnp.float32(observations[-1:]), 10.0)[0]
    np.testing.assert_allclose(whitened, observation, rtol=1e-3, atol=1e-4)
    column = jnp.float32(rewards)[:, None]
    scaled, _ = scale(reward_scale.init(1), column, jnp.zeros((steps, 1), bool), 0.99)
    np.testing.assert_allclose(scaled[-1, 0], reward, rtol=1e-3)


def test_the_returns_of_the_bonus_go_on_where_an_episode_ends():
    """With values of 0, lambda 1 and no truncation they are discounted sums of rewards."""
    config = PPOConfig(
        num_envs=1, rollout_length=4, num_minibatches=1, gae_lambda=1.0, discount=0.5,
        intrinsic_discount=0.1, intrinsic_value_head=True, extrinsic_coef=2.0, intrinsic_coef=3.0,
    )  # fmt: skip
    column = np.float32([[1.0], [1.0], [1.0], [1.0]])
    view = np.zeros((4, 1, 3), np.float32)
    ends = np.array([[False], [True], [False], [False]])
    rollout = Rollout(view, ends, column, column, ends, ~ends & ends, view, view[0])
    values = jnp.zeros((5, 1, 2)).at[4].set(8.0)
    advantage, target, _ = advantages.estimate(
        config, rollout, values, None, advantages.init_scales(config)
    )
    task = np.array([1 + 0.5, 1, 1 + 0.5 + 0.25 * 8, 1 + 0.5 * 8])
    bonus = np.array([1.1118, 1.118, 1.18, 1.8])
    np.testing.assert_allclose(target[:, 0, 0], task, rtol=1e-6)
    np.testing.assert_allclose(target[:, 0, 1], bonus, rtol=1e-6)
    np.testing.assert_allclose(advantage[:, 0], 2 * task + 3 * bonus, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "dtype", "convs"),
    [
        ((7, 7, 3), np.uint8, 3),
        ((10, 10, 4), bool, 1),
        ((36, 36, 1), np.uint8, 3),
        ((2, 2, 3), np.float32, 0),
        ((5,), np.float32, 0),
    ],
)
def test_weights_are_orthogonal_with_cleanrls_gains(shape, dtype, convs):
    spec = EnvSpec("probe:shape", shape, np.dtype(dtype), Box((2,), -1.0, 1.0), 10)
    config = PPOConfig(hidden_dim=16, intrinsic_value_head=True)
    params = jax.jit(lambda key: networks.init(key, config, spec))(jax.random.key(0))
    trunk = params.trunk.layers if isinstance(params.trunk, ConvStack) else params.trunk
    assert len(trunk) == convs
    assert len(params.body) == (shape == (36, 36, 1))
    hidden = [*trunk, *params.body, *params.actor[:-1], *params.critic[:-1]]
    for layers, gain in ((hidden, 2**0.5), (params.actor[-1:], 0.01), (params.critic[-1:], 1.0)):
        for layer in layers:
            matrix = np.asarray(layer.kernel).reshape(-1, layer.kernel.shape[-1])
            singular = np.linalg.svd(matrix, compute_uv=False)
            np.testing.assert_allclose(singular, gain, rtol=1e-4)
            assert not np.any(layer.bias)
    policy, values = networks.policy_and_values(params, jnp.zeros((6, *shape), dtype))
    assert policy.mean.shape == (6, 2) and values.shape == (6, 2)
    np.testing.assert_array_equal(params.log_std, 0.0)


def test_environment_and_bonus_get_clipped_actions_and_the_agent_its_own(monkeypatch):
    """The deviation is 1 at first, so a third of the actions are outside of [-1, 1]."""
    env, given, learned = aim(5), [], []

    def reward(state, batch):
        given.append(batch.action)
        return jnp.zeros(len(batch.action)), state, {}

    bonus = none()._replace(reward=reward)
    config = PPOConfig(num_envs=4, rollout_length=8, num_minibatches=2, hidden_dim=8)
    agent = make_ppo(config, env.spec)

    def update(state, rollout, order, agent_steps):
        learned.append(rollout.action)
        return state, {"reward": rollout.reward}

    monkeypatch.setattr(
        "re3_jax.agents.ppo.learner.make_ppo", lambda *_: agent._replace(update=update)
    )
    learner = make_learner(config, env.spec, bonus)
    state = jax.jit(lambda key: init_state(env, learner, key))(jax.random.key(0))
    _, (info, _) = train_update(env, learner, state)
    (own,), (executed,) = learned, given
    assert np.abs(own).max() > 1.5
    np.testing.assert_array_equal(executed, np.clip(own, -1, 1).reshape(executed.shape))
    # A miss of 2 is the largest; chosen actions would miss by more.
    assert np.min(info["reward"]) >= -4.0
