"""The random encoder f_theta: drawn once, never trained (paper, Section 3.2).

The architecture depends on the observations:

- MiniGrid views: the agent's convolution stack with separate weights, on unscaled integer codes;
  the latent is the 64 numbers after the last ReLU (paper, Appendix "Details on MiniGrid
  Experiments").
- Stacks of grey frames: DQN's convolutions and a linear layer (paper, Appendix "Details on Atari
  experiments").
- Stacks of colour frames: the convolutions of `conv_stack.colour`, a linear layer, LayerNorm, tanh.
- Anything else: flattened, then linear, ReLU, linear. The paper has no such task, so width and
  depth are ours. Observations are not scaled: coordinates of larger range weigh more in the
  distance.

An ensemble (paper, Section 4.1, "Robustness to noise and perturbations via ensembles") has the
same parameters with a leading member axis.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from re3_jax import initializers
from re3_jax.envs.base import EnvSpec
from re3_jax.initializers import Layer
from re3_jax.networks import conv_stack, minigrid
from re3_jax.networks.conv_stack import ConvStack, Torso
from re3_jax.networks.mlp import kernel_shapes, layer_norm, linear, mlp
from re3_jax.plural import number_of

HIDDEN_DIM = 256
LAYER_NORM_EPSILON = 1e-5

ImageInput = Literal["newest_frame", "stacked_crop"]
"""The part of a frame stack that is encoded.

`newest_frame`: the whole newest frame, as in the authors' code for RAD.
`stacked_crop`: the centre crop of all frames, the input of RAD's own encoder (the paper: "the
same architecture as the underlying RL algorithm").
"""


class VectorEncoder(NamedTuple):
    """Parameters of the encoder of flat observations."""

    hidden: Layer
    output: Layer


class PixelEncoder(NamedTuple):
    """Parameters of the encoder of stacks of colour frames."""

    convs: ConvStack
    output: Layer


class GreyEncoder(NamedTuple):
    """Parameters of the encoder of stacks of grey frames."""

    convs: ConvStack
    output: Layer


EncoderParams = minigrid.TrunkParams | PixelEncoder | GreyEncoder | VectorEncoder


def init(
    key: PRNGKeyArray,
    spec: EnvSpec,
    *,
    init: initializers.Scheme = "torch",
    latent_dim: int = 64,
    ensemble_size: int = 1,
    image_input: ImageInput = "newest_frame",
    image_crop: int = 84,
    torso: Torso = "rad",
    num_filters: int = 32,
) -> EncoderParams:
    """Draws the parameters theta.

    Args:
      key: typed PRNG key.
      spec: the task; only the shape, dtype and colours of its observations matter.
      init: initialisation of weights and biases (see `initializers`).
      latent_dim: length of the latent; a MiniGrid view always gives 64.
      ensemble_size: number of independent encoders; above 1 every leaf has that leading axis.
      image_input: the part of a frame stack that is encoded.
      image_crop: height and width of `stacked_crop` in pixels.
      torso: the convolutions over colour frames, see `conv_stack.colour`.
      num_filters: filters of each of them.

    Raises:
      ValueError: if images are too small or their channels are not whole frames, or if the
        initialisation is unknown.
    """
    convs = conv_stack.NATURE if spec.colours == 1 else conv_stack.colour(torso, num_filters)
    shapes: Sequence[tuple[int, ...]]
    if is_minigrid_view(spec):
        shapes = minigrid.KERNEL_SHAPES
    elif spec.is_image:
        height, width, channels = _encoded_shape(spec, image_input, image_crop)
        flat = conv_stack.flat_dim(convs, height, width)
        shapes = [*conv_stack.kernel_shapes(convs, channels), (flat, latent_dim)]
    else:
        shapes = kernel_shapes(math.prod(spec.observation_shape), HIDDEN_DIM, latent_dim)

    def draw(member_key: PRNGKeyArray) -> EncoderParams:
        layers = initializers.layers(init, member_key, shapes)
        if is_minigrid_view(spec):
            return tuple(layers)
        if spec.is_image:
            *of_convs, output = layers
            make = GreyEncoder if spec.colours == 1 else PixelEncoder
            return make(conv_stack.of_layers(convs, of_convs), output)
        return VectorEncoder(*layers)

    if ensemble_size == 1:
        return draw(key)
    return jax.vmap(draw)(jax.random.split(key, ensemble_size))


def encode(
    params: EncoderParams,
    observation: Num[Array, " batch *observation"],
    *,
    image_input: ImageInput = "newest_frame",
    image_crop: int = 84,
) -> Float[Array, "batch latent"] | Float[Array, "member batch latent"]:
    """Computes y = f_theta(o), float32 at full matmul precision.

    An ensemble adds a leading member axis. Latents of equal observations are equal up to rounding,
    which depends on batch position and processor (see `fingerprint`). `image_input` and
    `image_crop` must be those of `init`; they matter for frame stacks only.

    Example:
      >>> import jax
      >>> import numpy as np
      >>> from re3_jax import random_encoder
      >>> from re3_jax.envs.base import Discrete, EnvSpec
      >>> spec = EnvSpec("pendulum", (3,), np.dtype(np.float32), Discrete(2), max_agent_steps=200)
      >>> params = random_encoder.init(jax.random.key(0), spec, latent_dim=16)
      >>> random_encoder.encode(params, np.zeros((4, 3), np.float32)).shape
      (4, 16)

    Raises:
      ValueError: if flat observations have another length than those of `spec` in `init`.
    """
    is_ensemble = jax.tree.leaves(params)[-1].ndim == 2
    seen = visible(params, observation, image_input=image_input, image_crop=image_crop)

    def encode_one(params):
        if isinstance(params, VectorEncoder):
            return _encode_vector(params, seen)
        if isinstance(params, PixelEncoder):
            return jnp.tanh(layer_norm(_encode_images(params, seen), LAYER_NORM_EPSILON))
        if isinstance(params, GreyEncoder):
            return _encode_images(params, seen)
        return minigrid.trunk(params, seen)

    with jax.default_matmul_precision("highest"):
        return jax.vmap(encode_one)(params) if is_ensemble else encode_one(params)


def visible(
    params: EncoderParams,
    observation: Num[Array, " batch *observation"],
    *,
    image_input: ImageInput = "newest_frame",
    image_crop: int = 84,
) -> Num[Array, " batch *visible"]:
    """The part of the observations that the encoder sees; arguments are those of `encode`."""
    if isinstance(params, PixelEncoder):
        return _encoded_part(observation, image_input, image_crop, 3)
    if isinstance(params, GreyEncoder):
        return _encoded_part(observation, image_input, image_crop, 1)
    return observation


def refuse_scaled_images(params: EncoderParams, observation: Num[Array, "..."]) -> None:
    """Refuses images of floating point with parameters of an encoder of pixels.

    Only RND means them: its whitened images are as large as bytes.
    """
    if isinstance(params, PixelEncoder | GreyEncoder):
        check_bytes(observation)


def check_bytes(images: Num[Array, "..."]) -> None:
    """Raises a ValueError for images of floating point, which an encoder would divide by 255."""
    if jnp.issubdtype(images.dtype, jnp.floating):
        raise ValueError(
            f"images are {images.dtype}, which the encoder would divide by 255: give them as they "
            "were drawn, uint8"
        )


def latent_dim_of(spec: EnvSpec, latent_dim: int) -> int:
    """Length of the latent that `encode` returns for the task, given the configured length."""
    return minigrid.FEATURE_DIM if is_minigrid_view(spec) else latent_dim


def is_minigrid_view(spec: EnvSpec) -> bool:
    """Whether observations are MiniGrid's 7x7x3 integer codes."""
    return spec.observation_shape == minigrid.OBSERVATION_SHAPE and spec.is_image


def _encoded_shape(spec: EnvSpec, image_input: ImageInput, crop: int) -> tuple[int, int, int]:
    height, width, channels = spec.observation_shape
    if channels % spec.colours:
        raise ValueError(
            f"there is no random encoder for images of shape {spec.observation_shape}: the "
            f"channels must be whole frames of {number_of(spec.colours, 'channel')}: for grey "
            "frames set colours of the EnvSpec to 1"
        )
    if image_input == "newest_frame":
        return height, width, spec.colours
    if crop > min(height, width):
        raise ValueError(
            f"a crop of {crop}x{crop} does not fit images of {height}x{width} pixels: lower "
            'image_crop or encode the "newest_frame"'
        )
    return crop, crop, channels


def _encoded_part(
    observation: Num[Array, "batch height width channels"],
    image_input: ImageInput,
    crop: int,
    colours: int,
) -> Num[Array, "batch rows columns encoded"]:
    if image_input == "newest_frame":
        return observation[..., -colours:]
    top, left = ((size - crop) // 2 for size in observation.shape[1:3])
    return observation[:, top : top + crop, left : left + crop]


def _encode_images(
    params: PixelEncoder | GreyEncoder, images: Num[Array, "batch height width channels"]
) -> Float[Array, "batch latent"]:
    scaled = images.astype(jnp.float32) / 255
    return linear(params.output, conv_stack.features(params.convs, scaled))


def _encode_vector(
    params: VectorEncoder, observation: Num[Array, " batch *observation"]
) -> Float[Array, "batch latent"]:
    flat = observation.reshape(observation.shape[0], -1).astype(jnp.float32)
    if flat.shape[1] != (length := params[0].kernel.shape[0]):
        raise ValueError(
            f"this encoder takes observations of {length} numbers, but these are "
            f"{list(observation.shape)}, of which the first is the lane"
        )
    return mlp(params, flat)
