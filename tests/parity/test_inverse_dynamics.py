"""The inverse dynamics encoder's training against the same training in PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch
from re3_jax.intrinsic.inverse_dynamics import inverse_dynamics_encoder
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.re3_config import RE3Config
from tests.torch_oracle import layers, weights

BATCH, RATE = 12, 2e-3
BOX = Box((2,), -1.0, 1.0)
BYTES = np.dtype(np.uint8)
CASES = {
    "views": EnvSpec("minigrid:any", (7, 7, 3), BYTES, Discrete(7), 360),
    "pixels": EnvSpec("dmc:any", (20, 20, 6), BYTES, BOX, 500),
    "vectors": EnvSpec("gymnax:any", (5,), np.dtype(np.float32), Discrete(3), 200),
    "vectors and vectors": EnvSpec("brax:any", (5,), np.dtype(np.float32), BOX, 200),
}


def draw(spec, seed):
    rng = np.random.default_rng(seed)

    def observation():
        if spec.observation_dtype == BYTES:
            high = 6 if spec.observation_shape == (7, 7, 3) else 256
            return rng.integers(0, high, (BATCH, *spec.observation_shape)).astype(np.uint8)
        return rng.normal(size=(BATCH, *spec.observation_shape)).astype(np.float32)

    if isinstance(spec.action_space, Discrete):
        action = rng.integers(0, spec.action_space.num_actions, BATCH).astype(np.int32)
    else:
        action = rng.uniform(-1, 1, (BATCH, 2)).astype(np.float32)
    return IntrinsicBatch(
        *(jnp.asarray(x) for x in (observation(), action, observation())), None, None
    )


def torch_loss(params, batch):
    before, action, after = batch[:3]
    x = torch.cat([layers.encode(params.encoder, o) for o in (before, after)], dim=1)
    x = layers.mlp(params.head.layers, x)
    if action.dtype == jnp.int32:
        return F.cross_entropy(x, torch.tensor(np.array(action, np.int64)))
    return F.mse_loss(x, torch.tensor(np.array(action, np.float64)))


@pytest.mark.parametrize("name", CASES)
def test_updates_equal_pytorch(name):
    spec = CASES[name]
    config = RE3Config(latent_dim=10, num_filters=4, image_input="stacked_crop", image_crop=20)
    encoder = inverse_dynamics_encoder(
        config, LearnedEncoderConfig(learning_rate=RATE, hidden_dim=32)
    )
    state = jax.jit(encoder.init, static_argnums=1)(jax.random.key(0), spec)
    theirs, update = weights.as_tensors(state.params), jax.jit(encoder.update)
    optimizer = torch.optim.Adam(jax.tree.leaves(theirs), lr=RATE)
    for number in range(3):
        batch, before = draw(spec, number), state
        state, info = update(state, batch, jax.random.key(number))
        loss = torch_loss(theirs, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(info["inverse_dynamics_loss"], loss.detach(), rtol=1e-3)
        if number == 0:
            weights.assert_same_step((state.opt_state, state.params), before.params, theirs, RATE)
