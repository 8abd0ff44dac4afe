"""PyTorch's layers on our weights, and the encoders that several oracles share."""

import numpy as np
import torch
from torch.nn import functional as F

from re3_jax.random_encoder import PixelEncoder, VectorEncoder
from tests.torch_oracle.weights import as_tensors, native


def images(array, dtype=torch.float64):
    """A view of [batch, height, width, channels] in the layout of PyTorch's convolutions."""
    return torch.tensor(np.asarray(array), dtype=dtype).permute(0, 3, 1, 2)


def convolve(layer, x, stride=1):
    return F.conv2d(x, native(layer.kernel), layer.bias, stride)


def linear(layer, x):
    return F.linear(x, native(layer.kernel), layer.bias)


def mlp(layers, x, activation=F.relu):
    for layer in layers[:-1]:
        x = activation(linear(layer, x))
    return linear(layers[-1], x)


def flat(x):
    """Flattened in our order: the filter index varies fastest."""
    return x.permute(0, 2, 3, 1).flatten(1)


def convolve_all(stack, x):
    for layer, stride in zip(stack.layers, stack.strides, strict=True):
        x = F.relu(convolve(layer, x, stride))
    return x


def encode(params, observation):
    """The latents of `random_encoder.encode`, for images already cropped."""
    if isinstance(params, VectorEncoder):
        x = torch.tensor(np.asarray(observation, np.float64)).flatten(1)
        return mlp((params.hidden, params.output), x)
    x = images(observation)
    if isinstance(params, PixelEncoder):
        x = linear(params.output, flat(convolve_all(params.convs, x / 255)))
        return torch.tanh(F.layer_norm(x, x.shape[1:]))
    first, second, third = params
    x = F.max_pool2d(F.relu(convolve(first, x)), 2)
    return F.relu(convolve(third, F.relu(convolve(second, x)))).flatten(1)


def latents(params, observation):
    """`encode` with our arrays as weights, as an array."""
    with torch.no_grad():
        return encode(as_tensors(params), observation).numpy()
