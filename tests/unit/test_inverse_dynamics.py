"""The inverse dynamics encoder learns what actions do, and only that."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch
from re3_jax.intrinsic.inverse_dynamics import inverse_dynamics_encoder
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.re3_config import RE3Config

MOVES = jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
DISCRETE = EnvSpec("gymnax:any", (4,), np.dtype(np.float32), Discrete(4), 200)
CONTINUOUS = EnvSpec("brax:any", (4,), np.dtype(np.float32), Box((2,), -1.0, 1.0), 200)


def walk(key, spec, number):
    """Two coordinates that the action moves, and two coordinates of noise."""
    keys = jax.random.split(key, 4)
    place = jax.random.normal(keys[0], (number, 2))
    if spec is DISCRETE:
        action = jax.random.randint(keys[1], (number,), 0, 4)
        move = MOVES[action]
    else:
        action = jax.random.uniform(keys[1], (number, 2), minval=-1.0)
        move = action
    noise, other_noise = (jax.random.normal(k, (number, 2)) for k in keys[2:])
    before, after = (
        jnp.concatenate(parts, axis=1) for parts in ((place, noise), (place + move, other_noise))
    )
    return IntrinsicBatch(before, action, after, None, None)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(DISCRETE, id="discrete", marks=pytest.mark.slow),
        pytest.param(CONTINUOUS, id="continuous"),
    ],
)
def test_it_learns_actions_and_drops_what_no_action_moves(spec):
    encoder = inverse_dynamics_encoder(RE3Config(latent_dim=8), LearnedEncoderConfig(hidden_dim=64))
    start = jax.jit(encoder.init, static_argnums=1)(jax.random.key(0), spec)

    @jax.jit
    def train(state):
        def step(state, key):
            state, info = encoder.update(state, walk(key, spec, 128), key)
            return state, info["inverse_dynamics_loss"]

        return jax.lax.scan(step, state, jax.random.split(jax.random.key(1), 1500))

    state, losses = train(start)
    # log 4 nats, and the variance of a uniform number on [-1, 1].
    guessing = np.log(4) if spec is DISCRETE else 1 / 3
    assert np.mean(losses[:5]) > 0.9 * guessing
    assert np.mean(losses[-50:]) < 0.1 * guessing

    def share_of_noise(state):
        jacobian = jax.vmap(jax.jacobian(lambda o: encoder.encode(state, o[None])[0]))
        squared = jnp.square(jacobian(walk(jax.random.key(2), spec, 64).observation))
        return float(squared[..., 2:].sum() / squared.sum())

    assert 0.3 < share_of_noise(start) < 0.7
    assert share_of_noise(state) < 0.1
