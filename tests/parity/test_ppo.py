"""Two whole PPO updates against PyTorch: all epochs, in the same order of steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.ppo.agent import make_ppo
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.memory import Belief
from re3_jax.agents.ppo.minibatches import shuffled
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import Box, Discrete, EnvSpec
from tests.torch_oracle import ppo as oracle
from tests.torch_oracle.weights import assert_close, random_state, random_weights, values

STEPS, LANES = 12, 4
VIEWS = EnvSpec("probe:views", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 100)
FRAMES = EnvSpec("probe:frames", (36, 36, 4), np.dtype(np.uint8), Discrete(7), 100)
MINATAR = EnvSpec("probe:minatar", (10, 10, 4), np.dtype(np.float32), Discrete(7), 100)
VECTORS = EnvSpec("probe:vectors", (5,), np.dtype(np.float32), Box((2,), -1.0, 1.0), 100)
WORDS = EnvSpec("probe:words", (5,), np.dtype(np.float32), Discrete(7), 100)
SIZES = {
    "num_envs": LANES, "rollout_length": STEPS, "num_epochs": 3, "num_minibatches": 4,
    "hidden_dim": 16, "learning_rate": 2e-3, "anneal_agent_steps": 480, "clip_epsilon": 0.05,
}  # fmt: skip
CASES = {
    "discrete": (VIEWS, {}),
    "discrete, two values": (
        VIEWS,
        {"intrinsic_value_head": True, "scaled_rewards": "intrinsic", "discount": 0.97},
    ),
    "DQN's convolutions": (FRAMES, {}),
    "MinAtar's convolutions": (MINATAR, {}),
    "continuous": (
        VECTORS,
        {
            "normalize_observations": True,
            "scaled_rewards": "all",
            "bootstrap_truncation": True,
            "entropy_coef": 0.02,
        },
    ),
    "continuous, two values": (
        VECTORS,
        {
            "intrinsic_value_head": True,
            "scaled_rewards": "all",
            "bootstrap_truncation": True,
            "clip_value_loss": False,
        },
    ),
    "stopped early": (VECTORS, {"target_kl": 1e-4}),
}


def make_rollout(spec, seed):
    rng = np.random.default_rng(seed)
    shape = STEPS, LANES

    def observations(*axes):
        shape = *axes, *spec.observation_shape
        if spec.observation_dtype == np.uint8:
            return rng.integers(0, 11 if spec is VIEWS else 256, shape, dtype=np.uint8)
        if spec is MINATAR:
            return rng.integers(0, 2, shape).astype(np.float32)
        return rng.normal(2.0, 3.0, shape).astype(np.float32)

    if isinstance(spec.action_space, Discrete):
        action = rng.integers(0, 7, shape).astype(np.int32)
    else:
        action = rng.normal(size=(*shape, 2)).astype(np.float32)
    return Rollout(
        observation=observations(*shape),
        action=action,
        reward=rng.normal(size=shape).astype(np.float32),
        bonus=(0.3 * rng.random(shape)).astype(np.float32),
        terminated=rng.random(shape) < 0.1,
        truncated=rng.random(shape) < 0.1,
        next_observation=observations(*shape),
        last_observation=observations(LANES),
        first_memory=Belief(None, rng.uniform(-1, 1, (LANES, 16)).astype(np.float32)),
    )


@pytest.mark.parametrize("case", CASES)
def test_two_updates_equal_pytorch(case):
    spec, changes = CASES[case]
    # As small as PyTorch draws them, because codes of up to 10 saturate larger weights.
    info = assert_two_updates_equal(spec, PPOConfig(**SIZES | changes), oracle.PPO, 0.5)
    assert (info["epochs"] < 3) == (case == "stopped early")
    assert case == "stopped early" or 0 < info["clip_fraction"] < 1


@pytest.mark.parametrize("spec", [VECTORS, WORDS], ids=["continuous", "discrete, two values"])
def test_two_recurrent_updates_equal_pytorch(spec):
    """Sequences with ends in them, from hidden states that the rollouts before left."""
    two = {"intrinsic_value_head": True, "scaled_rewards": "intrinsic"}
    changes = {"recurrent": True, "bootstrap_truncation": True} | (two if spec is WORDS else {})
    info = assert_two_updates_equal(spec, PPOConfig(**SIZES | changes), oracle.RecurrentPPO, 1.0)
    assert 0 < info["clip_fraction"] < 1


def assert_two_updates_equal(spec, config, reference, size):
    agent = make_ppo(config, spec)
    params = jax.tree.map(lambda leaf: size * leaf, random_weights(agent.init, seed=34).params)
    state = random_state(agent.init, params=params)
    theirs, update, before = reference(params, config), jax.jit(agent.update), params
    for number in range(2):
        rollout = make_rollout(spec, number)
        order = shuffled(jax.random.key(number), config)
        agent_steps = number * STEPS * LANES
        state, info = update(state, rollout, order, jnp.int32(agent_steps))
        expected = theirs.update(rollout, order, agent_steps)
        for name, value in expected.items():
            np.testing.assert_allclose(info[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
        assert_close(state.params, values(theirs.params), rtol=1e-4, atol=2e-5)
        assert info["learning_rate"] == pytest.approx((2e-3, 1.8e-3)[number])
    moved = jax.tree.map(lambda new, old: np.abs(new - old).max(), state.params, before)
    assert np.median(jax.tree.leaves(moved)) > 1e-3
    return info


def test_every_epoch_has_every_step_once():
    config = PPOConfig(num_envs=4, rollout_length=6, num_epochs=3, num_minibatches=4)
    epochs = shuffled(jax.random.key(1), config).reshape(3, -1)
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(24))
    assert len({tuple(epoch.tolist()) for epoch in epochs}) == 3
    config = PPOConfig(**vars(config) | {"num_minibatches": 2, "recurrent": True})
    lanes = shuffled(jax.random.key(1), config)
    assert lanes.shape == (6, 2)
    np.testing.assert_array_equal(np.sort(lanes.reshape(3, -1)), [[0, 1, 2, 3]] * 3)
