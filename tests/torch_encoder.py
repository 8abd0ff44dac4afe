"""Our parameters as PyTorch tensors, and the networks of the bonuses on top of them."""

import jax
import numpy as np
import torch
from torch.nn import functional as F

from re3_jax.random_encoder import PixelEncoder, VectorEncoder


def as_tensors(tree):
    """The same tree with float64 leaves that collect gradients."""
    return jax.tree.map(
        lambda leaf: torch.tensor(np.asarray(leaf, np.float64), requires_grad=True), tree
    )


def images(array):
    return torch.tensor(np.asarray(array, np.float64)).permute(0, 3, 1, 2)


def convolve(layer, x, stride=1):
    return F.conv2d(x, layer.kernel.permute(3, 2, 0, 1), layer.bias, stride)


def linear(layer, x):
    return F.linear(x, layer.kernel.T, layer.bias)


def mlp(layers, x):
    for layer in layers[:-1]:
        x = F.relu(linear(layer, x))
    return linear(layers[-1], x)


def encode(params, observation):
    """What `random_encoder.encode` computes, of images already cropped."""
    if isinstance(params, VectorEncoder):
        x = torch.tensor(np.asarray(observation, np.float64)).flatten(1)
        return mlp((params.hidden, params.output), x)
    x = images(observation)
    if isinstance(params, PixelEncoder):
        x = x / 255
        for layer, stride in zip(params.convs.layers, params.convs.strides, strict=True):
            x = F.relu(convolve(layer, x, stride))
        # Ours has the filter fastest.
        x = linear(params.output, x.permute(0, 2, 3, 1).flatten(1))
        return torch.tanh(F.layer_norm(x, x.shape[1:]))
    first, second, third = params
    x = F.max_pool2d(F.relu(convolve(first, x)), 2)
    return F.relu(convolve(third, F.relu(convolve(second, x)))).flatten(1)


def adam(tree, learning_rate):
    return torch.optim.Adam(jax.tree.leaves(tree), learning_rate)


def gradients(tree):
    return jax.tree.map(lambda leaf: leaf.grad.numpy(), tree)


def values(tree):
    return jax.tree.map(lambda leaf: leaf.detach().numpy(), tree)


def assert_same_step(ours, before, theirs, learning_rate):
    """Compares one step of Adam from equal parameters, where its gradient is not mere rounding.

    Args:
      ours: the state of optax's Adam after one step from zero, and the parameters after it.
      before: the parameters before.
      theirs: tensors after the step, with their gradients.
      learning_rate: of Adam.
    """
    opt_state, after = ours
    trained = jax.tree.leaves(theirs)
    scale = max(float(abs(tensor.grad).max()) for tensor in trained)
    assert scale > 1e-4
    for mean, new, old, tensor in zip(
        *(jax.tree.leaves(tree) for tree in (opt_state[0].mu, after, before)), trained, strict=True
    ):
        expected = tensor.grad.numpy()
        # Adam's first moment after one step from zero.
        np.testing.assert_allclose(mean / 0.1, expected, rtol=1e-3, atol=1e-4 * scale)
        clear = abs(expected) > 1e-2 * scale
        assert (abs(np.asarray(new - old))[clear] > 0.9 * learning_rate).all()
        np.testing.assert_allclose(
            np.asarray(new)[clear], tensor.detach().numpy()[clear], atol=0.02 * learning_rate
        )
