"""The contrastive encoder's training against CURL's, written in PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from re3_jax import augment
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch
from re3_jax.intrinsic.contrastive import contrastive_encoder, contrastive_loss
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.re3_config import RE3Config
from tests.torch_oracle import layers, weights

BATCH, MOMENTUM, RATE = 12, 0.05, 1e-3
PIXELS = EnvSpec("dmc:any", (24, 22, 9), np.dtype(np.uint8), Box((2,), -1.0, 1.0), 500)
MINIGRID = EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360)
# He's weights, because with PyTorch's the latents of small noisy images are nearly equal.
SMALL = {"latent_dim": 10, "num_filters": 4, "image_crop": 19, "encoder_init": "he"}


def crop(key, images):
    return augment.random_crop(key, images, 19)


# task, configuration, augmentation, and the two things that an image goes through
CASES = {
    "crops of stacks": (PIXELS, "stacked_crop", "crop", lambda x: x, crop),
    "crops of newest frames": (PIXELS, "newest_frame", "crop", lambda x: x[..., 6:], crop),
    "shifts of newest frames": (
        PIXELS, "newest_frame", "shift",
        lambda x: x, lambda key, x: augment.random_shift(key, x, 2)[..., 6:],
    ),
    "shifts of views": (
        MINIGRID, "newest_frame", "crop",
        lambda x: x, lambda key, x: augment.random_shift(key, x, 2),
    ),
}  # fmt: skip


class CURL:
    """Query and key encoder, bilinear product and one Adam over query encoder and product."""

    def __init__(self, state):
        self.query = weights.as_tensors(state.params.encoder)
        self.bilinear = weights.as_tensors(state.params.bilinear)
        self.key = weights.as_tensors(state.key_encoder)
        trained = [*jax.tree.leaves(self.query), self.bilinear]
        self.optimizer = torch.optim.Adam(trained, lr=RATE)

    def update(self, query_images, key_images):
        queries = layers.encode(self.query, query_images)
        with torch.no_grad():
            keys = layers.encode(self.key, key_images)
        logits = queries @ (self.bilinear @ keys.T)
        logits = logits - logits.max(dim=1, keepdim=True)[0]
        loss = F.cross_entropy(logits, torch.arange(len(logits)))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            pairs = zip(jax.tree.leaves(self.query), jax.tree.leaves(self.key), strict=True)
            for fast, slow in pairs:
                slow.copy_(MOMENTUM * fast + (1 - MOMENTUM) * slow)
        return loss.item()


@pytest.mark.parametrize("name", CASES)
def test_updates_equal_pytorch(name):
    spec, image_input, augmentation, visible, augmented = CASES[name]
    encoder = contrastive_encoder(
        RE3Config(image_input=image_input, **SMALL),
        LearnedEncoderConfig(momentum=MOMENTUM, augmentation=augmentation, shift_pad=2),
    )
    state = jax.jit(encoder.init, static_argnums=1)(jax.random.key(0), spec)
    oracle, update = CURL(state), jax.jit(encoder.update)
    rng = np.random.default_rng(0)
    high = 256 if spec is PIXELS else 6
    for number in range(3):
        images = rng.integers(0, high, (BATCH, *spec.observation_shape)).astype(np.uint8)
        batch = IntrinsicBatch(jnp.asarray(images), None, None, None, None)
        key = jax.random.key(number)
        before = state
        state, info = update(state, batch, key)
        seen = jnp.asarray(visible(images))
        query_images, key_images = (augmented(k, seen) for k in jax.random.split(key))
        assert (query_images != key_images).any()
        loss = oracle.update(query_images, key_images)
        np.testing.assert_allclose(info["contrastive_loss"], loss, rtol=1e-3)
        if number == 0:
            weights.assert_same_step(
                (state.opt_state, state.params),
                before.params,
                (oracle.query, oracle.bilinear),
                RATE,
            )
        # The slow encoder moves a twentieth as far as Adam moves the other.
        for ours, theirs in zip(
            jax.tree.leaves(state.key_encoder), jax.tree.leaves(oracle.key), strict=True
        ):
            np.testing.assert_allclose(ours, theirs.detach(), atol=0.1 * MOMENTUM * RATE + 1e-6)


def test_loss_is_finite_and_right_for_huge_logits():
    rng = np.random.default_rng(1)
    queries, keys = (rng.normal(size=(6, 5)).astype(np.float32) * 1e3 for _ in range(2))
    bilinear = rng.normal(size=(5, 5)).astype(np.float32)
    q, w, k = (torch.tensor(x).double() for x in (queries, bilinear, keys))
    expected = F.cross_entropy(q @ w @ k.T, torch.arange(6)).item()
    assert expected > 1e4
    np.testing.assert_allclose(contrastive_loss(queries, bilinear, keys), expected, rtol=1e-5)
