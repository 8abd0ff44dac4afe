"""The encoders of bonuses in PyTorch, as functions of our parameters in our layouts."""

import jax
import numpy as np
import torch
from torch.nn import functional as F

from re3_jax.random_encoder import PixelEncoder, VectorEncoder


def leaves(params):
    """The same tree of tensors that can be trained."""
    return jax.tree.map(lambda leaf: torch.tensor(np.array(leaf), requires_grad=True), params)


def conv(x, layer, stride=1):
    return F.conv2d(x, layer.kernel.permute(3, 2, 0, 1), layer.bias, stride)


def linear(x, layer):
    return x @ layer.kernel + layer.bias


def encode(params, observation):
    """Latents of a tensor of observations, of the part of pixel images that is seen."""
    if isinstance(params, VectorEncoder):
        return linear(torch.relu(linear(observation.flatten(1), params.hidden)), params.output)
    x = observation.to(params[-1].bias.dtype).permute(0, 3, 1, 2)
    if isinstance(params, PixelEncoder):
        x = x / 255
        for layer, stride in zip(params.convs, (2, 1, 1, 1), strict=True):
            x = torch.relu(conv(x, layer, stride))
        x = linear(x.permute(0, 2, 3, 1).flatten(1), params.output)
        return torch.tanh(F.layer_norm(x, x.shape[1:]))
    x = F.max_pool2d(torch.relu(conv(x, params[0])), 2)
    return torch.relu(conv(torch.relu(conv(x, params[1])), params[2])).flatten(1)


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
