"""RE3 over several rollouts against a plain double-precision version in NumPy and PyTorch."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.re3 import RE3Config, from_config, re3
from tests.torch_oracle.layers import latents as torch_latents

MINIGRID = EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360)
RING, BATCH, ROLLOUTS = 50, 16, 6
RELEASED = RE3Config(
    first_neighbour=1,
    last_neighbour=5,
    ring_size=RING,
    beta=0.01,
    normalize="released_running_std",
)


def rollouts(seed=0):
    """Views, many of them equal, as in MiniGrid."""
    rng = np.random.default_rng(seed)
    distinct = rng.integers(0, 6, (30, 7, 7, 3)).astype(np.uint8)
    chances = rng.dirichlet(np.full(30, 0.3))
    return distinct[rng.choice(30, (ROLLOUTS, BATCH), p=chances)]


def play(bonus, key=0):
    """Rewards of every rollout, and the initial encoder."""
    state = bonus.init(jax.random.key(key), MINIGRID)
    encoder = jax.tree.leaves(state, is_leaf=lambda leaf: hasattr(leaf, "encoder"))[0].encoder

    @jax.jit
    def step(state, observation, agent_steps):
        state, index = bonus.observe(state, Step(observation))
        reward, state, _ = bonus.reward(
            state, IntrinsicBatch(observation, None, observation, index, agent_steps)
        )
        return reward, state

    rewards = []
    for number, observation in enumerate(rollouts()):
        reward, state = step(state, jnp.asarray(observation), jnp.int32(number * BATCH))
        rewards.append(reward)
    return np.stack(rewards), encoder


def sorted_distances(store, latents, count):
    neighbours = NearestNeighbors(algorithm="brute").fit(store)
    return neighbours.kneighbors(latents, min(count, len(store)))[0]


def stores(encoder):
    """Latents of each rollout, and the newest RING latents, that rollout included."""
    seen = np.zeros((0, 64))
    for observation in rollouts():
        latents = torch_latents(encoder, observation)
        seen = np.concatenate([seen, latents])[-RING:]
        yield latents, seen


def test_released_bonus_equals_the_authors_procedure():
    rewards, encoder = play(from_config(RELEASED))
    mean, var, count = 0.0, 1.0, 1e-4
    for ours, (latents, store) in zip(rewards, stores(encoder), strict=True):
        distance = sorted_distances(store, latents, 5).mean(axis=1)
        delta, tot = distance.mean() - mean, count + BATCH
        mean = mean + delta + BATCH / tot
        spread = distance.var(ddof=1) * BATCH + delta**2 * count * BATCH / tot
        var, count = (var * count + spread) / tot, tot
        np.testing.assert_allclose(
            ours, 0.01 * np.log(distance / np.sqrt(var) + 1), rtol=2e-4, atol=2e-8
        )
    assert (rewards > 1e-4).any() and (rewards < 1e-7).any()


def test_papers_bonus_equals_its_text():
    """Equation 3 with the mean distance to the 2nd and the 3rd neighbour, self being the 1st."""
    rewards, encoder = play(from_config(RE3Config(ring_size=RING, beta=0.1, rho=0.01)))
    for number, (ours, (latents, store)) in enumerate(zip(rewards, stores(encoder), strict=True)):
        distance = sorted_distances(store, latents, 3)[:, 1:].mean(axis=1)
        beta = 0.1 * 0.99 ** (number * BATCH)
        np.testing.assert_allclose(ours, beta * np.log(distance + 1), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("count_self", [True, False])
def test_a_single_kth_neighbour_with_and_without_self(count_self):
    config = RE3Config(first_neighbour=3, last_neighbour=3, count_self=count_self, ring_size=RING)
    rewards, encoder = play(re3(config))
    rank = 3 if count_self else 4
    for ours, (latents, store) in zip(rewards, stores(encoder), strict=True):
        expected = sorted_distances(store, latents, rank)[:, -1]
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_ensemble_averages_the_distances_of_its_members():
    config = RE3Config(ring_size=RING, ensemble_size=3)
    rewards, encoders = play(re3(config))
    members = []
    for member in range(3):
        encoder = jax.tree.map(partial(lambda m, leaf: leaf[m], member), encoders)
        members.append([sorted_distances(s, y, 3)[:, 1:].mean(axis=1) for y, s in stores(encoder)])
    np.testing.assert_allclose(rewards, np.mean(members, axis=0), rtol=1e-4, atol=1e-5)
