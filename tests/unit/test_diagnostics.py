"""Diagnostics of a bonus against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import knn
from re3_jax.intrinsic import diagnostics
from re3_jax.replay import latent_ring


@pytest.mark.parametrize("batch", [1, 2, 20, 80, 333])
def test_reward_statistics_equal_numpy(batch):
    reward = np.random.default_rng(batch).gamma(0.5, 2.0, batch).astype(np.float32)
    info = jax.jit(diagnostics.of_rewards)(reward)
    expected = {
        "intrinsic_reward_mean": reward.mean(),
        "intrinsic_reward_std": reward.std(),
        "intrinsic_reward_p05": np.quantile(reward, 0.05),
        "intrinsic_reward_p50": np.quantile(reward, 0.5),
        "intrinsic_reward_p95": np.quantile(reward, 0.95),
    }
    assert info.keys() == expected.keys()
    for name, value in expected.items():
        assert info[name].dtype == jnp.float32 and info[name].shape == ()
        np.testing.assert_allclose(info[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count_self", [True, False])
def test_distances_are_to_the_nearest_other_latent(count_self):
    """A fifth of the latents are copies; the expected distances are brute force in float64."""
    rng = np.random.default_rng(3)
    latents = rng.normal(size=(40, 6)).astype(np.float32)
    latents[5:9] = latents[0:4]
    everything = np.linalg.norm(latents[:, None].astype(float) - latents[None], axis=-1)
    np.fill_diagonal(everything, np.inf)
    nearest = everything.min(axis=1)

    @jax.jit
    def run(latents):
        ring, index = latent_ring.add(latent_ring.init(64, 6), latents)
        exclude = None if count_self else index
        found = knn.nearest_distances(ring.latents[index], ring, k=3, exclude=exclude)
        return diagnostics.of_neighbours(found, count_self=count_self)

    info = run(latents)
    assert info["duplicate_share"] == np.float32(8 / 40)
    for name, quantile in (("p05", 0.05), ("p50", 0.5), ("p95", 0.95)):
        np.testing.assert_allclose(
            info[f"nearest_distance_{name}"], np.quantile(nearest, quantile), rtol=1e-4, atol=1e-6
        )


def test_distances_of_an_ensemble_are_averaged_over_members():
    distances = np.array([[[0.0, 2.0], [0.0, 0.0]], [[0.0, 4.0], [0.0, 0.0]]], np.float32)
    info = diagnostics.of_neighbours(jnp.asarray(distances), count_self=True)
    assert info["duplicate_share"] == 0.5
    np.testing.assert_allclose(info["nearest_distance_p95"], np.quantile([3.0, 0.0], 0.95))


def test_seeds_do_not_mix():
    rewards = np.random.default_rng(0).random((3, 16)).astype(np.float32)
    info = jax.jit(jax.vmap(diagnostics.of_rewards))(rewards)
    np.testing.assert_allclose(
        info["intrinsic_reward_p50"], np.quantile(rewards, 0.5, axis=1), rtol=1e-6
    )


def test_searching_only_oneself_is_refused():
    with pytest.raises(ValueError, match="hold no other latent: search for 2 neighbours"):
        diagnostics.of_neighbours(jnp.zeros((4, 1)), count_self=True)
