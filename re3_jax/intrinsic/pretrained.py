"""State entropy over pre-trained encoders: ResNet-50 trained on ImageNet, and ATC.

The paper compares both with other representations (Section 4.1; Appendix "Details on DeepMind
Control Suite Experiments", "Pre-trained ImageNet encoder", "Pre-trained ATC encoder"). Both encode
pixels only, resized to the image size of their training:

- ImageNet: the newest frame, resized to 224x224 and normalised by ImageNet's mean and standard
  deviation; the latent is the 2048 features after global average pooling.
- ATC: the whole stack, resized to 84x84 and scaled to [0, 1]; the latent is the code of its head,
  or the features of its last convolution.

Weights are constants of the compiled program and not part of the state. Checkpoints therefore do
not repeat the user's file, and `vmap` over seeds keeps a single convolution with one set of
weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped, UInt8

from re3_jax import checks, random_encoder
from re3_jax.envs.base import EnvSpec
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import (
    Encoder,
    never_trained,
    refuse_ensemble,
    state_entropy,
)
from re3_jax.networks import atc as atc_network
from re3_jax.networks import resnet, weights_file
from re3_jax.networks.atc import ATCEncoder
from re3_jax.networks.resnet import ResNet50

IMAGENET_SIZE = 224
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
IMAGENET_URL = "https://download.pytorch.org/models/resnet50-0676ba61.pth"
COLOURS = 3
IMAGES_AT_ONCE = 8
"""Images per batch of ResNet-50: one image has 26 MB of activations at its widest."""


@dataclass(frozen=True)
class PretrainedConfig:
    """Source and output of a pre-trained encoder.

    Attributes:
      weights: file of weights: torchvision's ResNet-50 for the bonus imagenet, a snapshot of rlpyt
        for the bonus atc.
      atc_output: latent of ATC, the head's code (128 numbers) or the features of the last
        convolution (1,568).

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    weights: str | None = None
    atc_output: atc_network.Output = "code"

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.one_of(self, atc_output=atc_network.Output)


def load_imagenet(path: str | Path) -> ResNet50:
    """Reads torchvision's ResNet-50, `.pth` or `.safetensors` (io).

    Raises:
      ValueError: if the file is missing, damaged or of another network.
    """
    remedy = f"the bonus imagenet needs the weights of torchvision's ResNet-50, {IMAGENET_URL}"
    return _load(path, resnet.from_tensors, remedy)


def load_atc(path: str | Path, output: atc_network.Output = "code") -> ATCEncoder:
    """Reads the encoder in a snapshot of rlpyt (`params.pkl`), or in `.safetensors` (io).

    Raises:
      ValueError: if the file is missing, damaged or of another network.
    """
    remedy = "the bonus atc needs a snapshot of rlpyt's ATC for DeepMind Control (params.pkl)"
    return _load(path, lambda tensors: atc_network.from_tensors(tensors, output), remedy)


def imagenet(config: RE3Config, weights: ResNet50) -> IntrinsicReward:
    """The bare distance in the space of ResNet-50's features; `state_entropy.scaled` completes it.

    Raises:
      ValueError: if `ensemble_size` is above 1; from `init`, if observations are not pixels.
    """
    refuse_ensemble(config, "imagenet")
    return state_entropy(config, imagenet_encoder(weights), "ring")


def atc(config: RE3Config, weights: ATCEncoder) -> IntrinsicReward:
    """The bare distance in the space of ATC's encoder; `state_entropy.scaled` completes it.

    Raises:
      ValueError: if `ensemble_size` is above 1; from `init`, if observations are not stacks of as
        many frames as the weights expect.
    """
    refuse_ensemble(config, "atc")
    return state_entropy(config, atc_encoder(weights), "ring")


def imagenet_encoder(weights: ResNet50) -> Encoder:
    """An encoder from pixels to the 2048 features of ResNet-50."""

    def features(
        image: UInt8[Array, "height width channels"],
    ) -> Float[Array, " 2048"]:
        newest = image[None, ..., -COLOURS:].astype(jnp.float32) / 255
        scaled = resize(newest, IMAGENET_SIZE)
        return resnet.features(
            weights, (scaled - jnp.array(IMAGENET_MEAN)) / jnp.array(IMAGENET_STD)
        )[0]

    def encode(
        state: tuple[()], observation: Shaped[Array, "batch height width channels"]
    ) -> Float[Array, "batch 2048"]:
        random_encoder.check_bytes(observation)
        with jax.default_matmul_precision("highest"):
            return jax.lax.map(features, observation, batch_size=IMAGES_AT_ONCE)

    def check(spec: EnvSpec) -> None:
        if spec.colours != COLOURS or spec.observation_shape[-1] % COLOURS:
            raise ValueError(
                f"the bonus imagenet sees frames of three colours, not images of shape "
                f"{spec.observation_shape} with frames of {spec.colours}"
            )

    encoder = _encoder("imagenet", encode, resnet.FEATURE_DIM, check)
    return encoder._replace(visible=lambda state, observation: observation[..., -COLOURS:])


def atc_encoder(weights: ATCEncoder) -> Encoder:
    """An encoder from frame stacks to ATC's code, or to its features without a head."""

    def encode(
        state: tuple[()], observation: Shaped[Array, "batch height width channels"]
    ) -> Float[Array, "batch latent"]:
        random_encoder.check_bytes(observation)
        with jax.default_matmul_precision("highest"):
            images = resize(observation.astype(jnp.float32), atc_network.IMAGE_SIZE)
            return atc_network.encode(weights, images)

    def check(spec: EnvSpec) -> None:
        channels = weights.convs.layers[0].kernel.shape[2]
        if spec.observation_shape[-1] != channels:
            raise ValueError(
                f"these weights of atc are for images of {channels} channels, but those of "
                f"{spec.task} have {spec.observation_shape[-1]}: stack {channels // COLOURS} "
                "frames in colour, or choose another bonus"
            )

    return _encoder("atc", encode, atc_network.latent_dim(weights), check)


def resize(
    images: Float[Array, "batch height width channels"], size: int
) -> Float[Array, "batch size size channels"]:
    """Resizes bilinearly, with antialiasing where images shrink, as torchvision's `Resize` does.

    Equals PyTorch's `interpolate(mode="bilinear", antialias=True, align_corners=False)`. Values are
    not rounded to bytes.
    """
    batch, _, _, channels = images.shape
    return jax.image.resize(images, (batch, size, size, channels), "linear", antialias=True)


def _encoder(
    name: str, encode: Callable, latent_dim: int, check: Callable[[EnvSpec], None]
) -> Encoder:
    def init(key, spec: EnvSpec) -> tuple[()]:
        if not spec.is_image or random_encoder.is_minigrid_view(spec):
            raise ValueError(
                f"the bonus {name} sees pixels, but observations of {spec.task} are "
                f"{spec.observation_dtype} of shape {spec.observation_shape}: choose another bonus"
            )
        check(spec)
        return ()

    return Encoder(init, encode, lambda spec: latent_dim, never_trained)


def _load(path: str | Path, from_tensors: Callable, remedy: str):
    try:
        tensors = weights_file.read(path)
    except ValueError as error:
        raise ValueError(f"{error}: {remedy}") from None
    try:
        return from_tensors(tensors)
    except ValueError as error:
        raise ValueError(f"{path} does not fit, {error}: {remedy}") from None
