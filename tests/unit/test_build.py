"""Options of RE3 that no preset sets, from the command line into the program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.build import device_program
from experiments.options import parse
from tests.probe_envs import countdown

OPTIONS = (
    *("--env", "gymnax:CartPole-v1", "--preset", "debug", "--chunk-updates", "1"),
    *("--a2c.num-envs", "2", "--a2c.rollout-length", "4"),
    *("--re3.ring-size", "64", "--re3.normalize", "none"),
    *("--re3.no-log1p", "--re3.ensemble-size", "2"),
)
BATCH = 8


@pytest.fixture(scope="module")
def two_updates():
    """The configuration; after each of two updates its metrics, weights and RE3 state."""
    config = parse(list(OPTIONS))
    program = device_program(config, countdown())
    state = program.init(jnp.arange(1, 1 + config.seeds, dtype=jnp.int32))
    seen = []
    for _ in range(2):
        state, metrics = program.train(state)
        seen.append(jax.device_get((metrics, state.agent, state.intrinsic[0])))
    return config, seen


def test_ensemble_has_a_ring_for_each_member(two_updates):
    config, seen = two_updates
    for i, (metrics, agent, bonus) in enumerate(seen):
        ring, written = bonus.ring, (i + 1) * BATCH
        assert ring.latents.shape == (config.seeds, 2, 64, config.re3.latent_dim)
        assert (ring.num_valid == written).all()
        first, second = ring.latents[:, 0, :written], ring.latents[:, 1, :written]
        assert (np.abs(first - second).max(axis=(1, 2)) > 1e-3).all()
        assert (metrics["intrinsic_reward_mean"] > 0).all()
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((metrics["loss"], agent)))


def test_without_log1p_the_bonus_is_the_distance_itself(two_updates):
    """beta times the mean over members, and over ranks in each one's latents, by NumPy."""
    config, ((metrics, _, bonus), _) = two_updates
    assert config.re3.log1p is False
    latents = bonus.ring.latents[:, :, :BATCH].astype(np.float64)
    distances = np.sort(np.linalg.norm(latents[..., None, :] - latents[:, :, None], axis=-1))
    ranks = slice(config.re3.first_neighbour - 1, config.re3.last_neighbour)
    expected = config.re3.beta * distances[..., ranks].mean(axis=(1, 2, 3))
    np.testing.assert_allclose(metrics["intrinsic_reward_mean"], expected, rtol=1e-4)
