"""Bonuses over pre-trained encoders: their latents, and the inputs they refuse."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.torch
import torch

from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic import pretrained
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.pretrained import PretrainedConfig
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.networks import resnet
from tests.torch_oracle import atc
from tests.torch_oracle.resnet import ResNet50 as TorchResNet50

PIXELS = EnvSpec("dmc:any", (90, 90, 9), np.dtype(np.uint8), Box((2,), -1.0, 1.0), 500)
MINIGRID = EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360)
VECTOR = EnvSpec("gymnax:any", (5,), np.dtype(np.float32), Discrete(2), 200)
CONFIG = RE3Config(first_neighbour=3, last_neighbour=3, count_self=False, ring_size=8)


def frames(number, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.integers(0, 256, (number, *PIXELS.observation_shape), np.uint8))


def batch_of(observation, index):
    actions = jnp.zeros((len(observation), 2))
    return IntrinsicBatch(observation, actions, observation, index, jnp.zeros((), jnp.int32))


@pytest.fixture(scope="module")
def atc_file(tmp_path_factory):
    torch.manual_seed(0)
    network = atc.Encoder(filters=4, code=12)
    path = tmp_path_factory.mktemp("atc") / "params.pkl"
    torch.save(atc.snapshot(network), path)
    return path


@pytest.fixture(scope="module")
def weights(atc_file):
    return pretrained.load_atc(atc_file)


@pytest.fixture(scope="module")
def store_and_reward(weights):
    """Stores six observations and returns their latents and rewards."""
    bonus = pretrained.atc(CONFIG, weights)

    def run(observation):
        state, index = bonus.observe(bonus.init(jax.random.key(0), PIXELS), Step(observation))
        reward, state, _ = bonus.reward(state, batch_of(observation, index))
        return state, reward

    return run


def test_the_reward_is_the_distance_to_the_third_other_latent(store_and_reward):
    observation = frames(6).at[3:].set(frames(1)[0])
    state, reward = jax.jit(store_and_reward)(observation)
    assert state.ring.latents.shape == (8, 12)
    latents = np.asarray(state.ring.latents[:6], np.float64)
    distances = np.linalg.norm(latents[:, None] - latents[None], axis=-1)
    expected = np.sort(distances)[:, 3]
    assert expected[1:3].min() > 1e-3
    np.testing.assert_allclose(reward, expected, rtol=1e-3)
    np.testing.assert_array_equal(np.asarray(reward)[[0, 3, 4, 5]], 0)


def test_the_state_holds_latents_and_no_weights(store_and_reward):
    """Otherwise seeds and checkpoints would repeat the weights; seeds share one convolution."""
    observation = jnp.stack([frames(6), frames(6, seed=1)])
    states, rewards = jax.jit(jax.vmap(store_and_reward))(observation)
    assert jax.tree.leaves(states.encoder) == []
    for seed in range(2):
        state, reward = jax.jit(store_and_reward)(observation[seed])
        np.testing.assert_allclose(states.ring.latents[seed], state.ring.latents, atol=1e-5)
        np.testing.assert_allclose(rewards[seed], reward, rtol=1e-3)


def test_latents_of_imagenet_are_2048_numbers():
    encoder = pretrained.imagenet_encoder(resnet.ResNet50(None, ()))
    assert encoder.init(jax.random.key(0), PIXELS) == ()
    assert encoder.latent_dim(PIXELS) == 2048


def test_latents_of_atc_are_the_code_or_the_features(atc_file):
    for output, length in (("code", 12), ("features", 4 * 49)):
        encoder = pretrained.atc_encoder(pretrained.load_atc(atc_file, output))
        assert encoder.latent_dim(PIXELS) == length
        latents = jax.eval_shape(lambda o, e=encoder: e.encode((), o), frames(1))
        assert (latents.shape, latents.dtype) == ((1, length), np.float32)


@pytest.mark.parametrize("spec", [MINIGRID, VECTOR])
def test_observations_without_pixels_are_refused(spec, weights):
    for encoder, name in (
        (pretrained.atc_encoder(weights), "atc"),
        (pretrained.imagenet_encoder(resnet.ResNet50(None, ())), "imagenet"),
    ):
        with pytest.raises(ValueError, match=f"^the bonus {name} sees pixels, but .*{spec.task}"):
            encoder.init(jax.random.key(0), spec)


def test_other_numbers_of_channels_are_refused(weights):
    grey = EnvSpec("dmc:any", (84, 84, 4), np.dtype(np.uint8), Box((2,), -1.0, 1.0), 500)
    with pytest.raises(ValueError, match="frames of three colours"):
        pretrained.imagenet_encoder(resnet.ResNet50(None, ())).init(jax.random.key(0), grey)
    stacked = dataclasses.replace(grey, observation_shape=(84, 84, 3), colours=1, frame_stack=3)
    with pytest.raises(ValueError, match="three colours, not .* with frames of 1"):
        pretrained.imagenet_encoder(resnet.ResNet50(None, ())).init(jax.random.key(0), stacked)
    with pytest.raises(ValueError, match="images of 9 channels, but .* have 4: stack 3 frames"):
        pretrained.atc_encoder(weights).init(jax.random.key(0), grey)


def test_images_that_were_scaled_already_are_refused(weights):
    """Both encoders divide by 255 themselves."""
    images = jnp.ones((2, 84, 84, 9), jnp.float32)
    for encoder in (
        pretrained.atc_encoder(weights),
        pretrained.imagenet_encoder(resnet.ResNet50(None, ())),
    ):
        with pytest.raises(ValueError, match="images are float32, which the encoder would divide"):
            encoder.encode((), images)


def test_an_ensemble_is_refused(weights):
    config = RE3Config(ensemble_size=2)
    for factory in (pretrained.atc, pretrained.imagenet):
        with pytest.raises(ValueError, match="set ensemble_size to 1"):
            factory(config, weights)


def test_an_unknown_output_is_refused():
    with pytest.raises(ValueError, match="unknown atc_output 'pixels': choose one of code, fea"):
        PretrainedConfig(atc_output="pixels")


@pytest.fixture(scope="module")
def resnet_state():
    with torch.device("meta"):
        shapes = TorchResNet50().state_dict()
    return {name: torch.ones(tensor.shape) for name, tensor in shapes.items()}


def without(name):
    return lambda state: {key: value for key, value in state.items() if key != name}


def replaced(name, tensor):
    return lambda state: state | {name: tensor}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without("layer2.0.downsample.1.running_var"), "no tensor layer2.0.downsample.1.running_v"),
        (replaced("layer4.2.conv3.weight", torch.ones(2048, 512)), r"\(2048, 512\), not \(2048, "),
        (replaced("conv1.weight", torch.ones(64, 9, 7, 7)), r"\(64, 9, 7, 7\), not \(64, 3, 7, 7"),
        (replaced("bn1.bias", torch.full((64,), torch.nan)), "conv1 or bn1 has values that are no"),
    ],
)
def test_another_network_than_resnet50_is_refused(change, reason, resnet_state, tmp_path):
    path = tmp_path / "other.safetensors"
    safetensors.torch.save_file(change(resnet_state), path)
    with pytest.raises(ValueError, match=rf"^{path} does not fit, .*{reason}.*: the bonus imagen"):
        pretrained.load_imagenet(path)


def atc_state(**options):
    return atc.Encoder(**options).state_dict()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"weight": torch.ones(1)}, "no tensor conv.conv.0.weight"),
        (without("conv.conv.4.bias")(atc_state()), "no tensor conv.conv.4.bias"),
        (replaced("conv.conv.2.weight", torch.ones(8, 5, 3, 3))(atc_state()), r"\(any, 32, 3, 3\)"),
        (replaced("conv.conv.0.weight", torch.ones(8, 9, 4, 4))(atc_state()), r"\(any, any, 3, 3"),
        (replaced("conv.conv.0.weight", torch.ones(8))(atc_state()), r"of shape \(8,\), not"),
        (replaced("conv.conv.0.bias", torch.full((32,), torch.inf))(atc_state()), "not finite"),
        (replaced("head.model.0.weight", torch.ones(50, 39_200))(atc_state()), r"\(any, 1568\)"),
        (without("head.model.0.weight")(atc_state()), 'set the output to "features"'),
        (replaced("head.model.2.weight", torch.ones(1))(atc_state()), "hidden layers"),
    ],
)
def test_another_network_than_atcs_is_refused(content, reason, tmp_path):
    path = tmp_path / "params.pkl"
    torch.save(content, path)
    with pytest.raises(ValueError, match=rf"^{path} does not fit, .*{reason}.*: the bonus atc nee"):
        pretrained.load_atc(path)


def test_a_missing_file_is_one_sentence_with_the_remedy(tmp_path):
    path = tmp_path / "absent"
    with pytest.raises(
        ValueError, match=rf"^there is no file {path}: the bonus imagenet needs .*h"
    ):
        pretrained.load_imagenet(path)
    with pytest.raises(ValueError, match=rf"^there is no file {path}: the bonus atc needs .*rlpyt"):
        pretrained.load_atc(path)
