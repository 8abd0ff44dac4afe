"""APT and RISE, made by their names, against their authors' formulas in PyTorch."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import re3, rise
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.contrastive import ContrastiveState
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.rise import RISEConfig
from re3_jax.runs.build import make_bonus
from re3_jax.runs.options import parse
from tests.parity.test_state_entropy_bonus import MINIGRID, batch_of, draw
from tests.torch_oracle import entropies
from tests.torch_oracle.layers import latents as torch_latents

DEBUG = ["--env", "doorkey_6x6", "--preset", "debug"]
VECTOR = EnvSpec("gymnax:any", (4,), np.dtype(np.float32), Discrete(2), 500)


def rewards(*words, batches=4):
    """(reward, latents of the batch before it) of batches in a row, by a run's own bonus."""
    bonus = make_bonus(parse([*DEBUG, *words]))
    state = jax.jit(bonus.init, static_argnums=1)(jax.random.key(1), MINIGRID)

    @jax.jit
    def step(state, observation, key):
        state, index = bonus.observe(state, Step(observation))
        batch = batch_of(MINIGRID, observation, index)
        reward, state, info = bonus.reward(state, batch)
        return bonus.update(state, batch, key)[0], reward, info

    for number in range(batches):
        observation = draw(MINIGRID, number)
        encoder = state.bonus.encoder
        if isinstance(encoder, ContrastiveState):
            encoder = encoder.params.encoder
        latents = torch_latents(encoder, observation)
        state, reward, info = step(state, observation, jax.random.key(number))
        yield reward, torch.tensor(np.asarray(latents, np.float64)), info


def test_apt_is_pbe_of_the_unsupervised_rl_benchmark():
    """Its defaults, k = 12 with the row itself and the running mean, while the encoder learns."""
    running, seen = entropies.RunningMean(), []
    for reward, latents, info in rewards("--bonus", "apt", "--re3.beta", "1"):
        expected = entropies.apt(latents, 12, running)
        np.testing.assert_allclose(reward, expected, rtol=2e-4)
        np.testing.assert_allclose(info["running_mean"], running.mean[0], rtol=2e-4)
        seen.append(latents)
    assert abs(seen[0] - seen[1]).max() > 0.01


def test_apt_without_its_running_mean():
    words = ("--bonus", "apt", "--re3.beta", "1", "--re3.normalize", "none")
    for reward, latents, _ in rewards(*words, "--re3.last-neighbour", "5", batches=1):
        np.testing.assert_allclose(reward, entropies.apt(latents, 5), rtol=2e-4)


def test_apt_still_pays_for_a_rare_view_that_was_seen_twice():
    """What the mean over ranks is for: the nearest neighbour of such a view is its copy."""
    rare = jnp.arange(16) >= 14
    observation = jnp.where(rare[:, None, None, None], 5, 1) * jnp.ones((16, 7, 7, 3), jnp.uint8)

    @partial(jax.jit, static_argnums=0)
    def paid(bonus):
        state, index = bonus.observe(bonus.init(jax.random.key(0), MINIGRID), Step(observation))
        return bonus.reward(state, batch_of(MINIGRID, observation, index))[0]

    nearest = RE3Config(ring_size=16, first_neighbour=1, last_neighbour=1, count_self=False)
    np.testing.assert_array_equal(paid(re3.from_config(nearest)), 0.0)
    apt = paid(make_bonus(parse([*DEBUG, "--bonus", "apt", "--re3.beta", "1"])))
    assert (apt[rare] > 0.5).all() and (apt[~rare] == 0).all()


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_rise_is_the_papers_power_of_the_distance(alpha):
    """The third other latent among all stored; the authors' code, with k = 2, has the same."""
    words = ("--bonus", "rise", "--rise.alpha", f"{alpha}", "--rise.beta", "0.5")
    ranks = ("--re3.first-neighbour", "3", "--re3.last-neighbour", "3", "--re3.no-count-self")
    store = torch.zeros((0, 64), dtype=torch.float64)
    for reward, latents, _ in rewards(*words, *ranks):
        store = torch.cat([store, latents])
        expected = 0.5 * entropies.rise(latents, store, 4, alpha)
        np.testing.assert_allclose(reward, expected, rtol=1e-3, atol=1e-4)
        assert (expected > 0.1).any()


def test_rise_pays_the_far_more_than_re3_does():
    """Of two states, 10 and 1000 away from all others, a power prefers the far one more."""
    line = jnp.zeros((16, 4)).at[14, 0].set(10.0).at[15, 0].set(1000.0)
    entropy = RE3Config(ring_size=16, first_neighbour=1, last_neighbour=1, count_self=False)

    @partial(jax.jit, static_argnums=0)
    def paid(bonus):
        state = bonus.init(jax.random.key(0), VECTOR)
        state, index = bonus.observe(state, Step(line))
        batch = IntrinsicBatch(line, None, None, index, jnp.int32(0))
        return bonus.reward(state, batch)[0]

    of_log, of_power = paid(re3.from_config(entropy)), paid(rise.from_config(RISEConfig(), entropy))
    for reward in (of_log, of_power):
        assert reward[:14].max() == 0 < reward[14] < reward[15]
    assert of_power[15] / of_power[14] > 10 * of_log[15] / of_log[14]


def test_an_order_of_1_is_refused():
    """There the power is constant: the limit is Shannon's entropy, which is RE3's."""
    with pytest.raises(ValueError, match=r"alpha must be from 0 to below 1, but it is 1\.0"):
        RISEConfig(alpha=1.0)
