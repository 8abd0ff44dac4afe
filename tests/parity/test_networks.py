"""The patch-matmul convolution and the MiniGrid stack against PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from re3_jax.initializers import Layer
from re3_jax.networks.conv import conv2x2, max_pool2x2
from re3_jax.networks.minigrid import KERNEL_SHAPES, trunk
from tests.torch_oracle.layers import encode
from tests.torch_oracle.weights import as_tensors, gradients


def random(shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_conv2x2_and_its_gradients_equal_pytorch():
    x, kernel, weight = random((3, 7, 6, 5), 0), random((2, 2, 3, 4), 1), random((4, 6, 5, 5), 2)
    out, pullback = jax.vjp(conv2x2, x, kernel)
    tx = torch.tensor(x, requires_grad=True)
    tk = torch.tensor(kernel, requires_grad=True)
    expected = torch.nn.functional.conv2d(tx.permute(3, 0, 1, 2), tk.permute(3, 2, 0, 1))
    expected = expected.permute(1, 2, 3, 0)
    expected.backward(torch.tensor(weight))
    np.testing.assert_allclose(out, expected.detach(), rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(pullback(jnp.asarray(weight)), (tx, tk), strict=True):
        np.testing.assert_allclose(ours, theirs.grad, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("digits", [6, 0])
def test_max_pool_and_its_gradient_equal_pytorch(digits):
    """Rounded to whole numbers, most windows have several maxima."""
    x, weight = random((3, 6, 8, 4), 0).round(digits), random((3, 3, 4, 4), 1)
    out, pullback = jax.vjp(max_pool2x2, x)
    tx = torch.tensor(x, requires_grad=True)
    expected = torch.nn.functional.max_pool2d(tx.permute(3, 0, 1, 2), 2).permute(1, 2, 3, 0)
    expected.backward(torch.tensor(weight))
    np.testing.assert_array_equal(out, expected.detach())
    np.testing.assert_array_equal(pullback(jnp.asarray(weight))[0], tx.grad)


def test_trunk_and_its_gradients_equal_pytorch():
    views = np.random.default_rng(0).integers(0, 11, (32, 7, 7, 3), dtype=np.uint8)
    params = tuple(
        Layer(jnp.asarray(random(shape, i)), jnp.asarray(random(shape[-1:], 10 + i)))
        for i, shape in enumerate(KERNEL_SHAPES)
    )
    weight = random((32, 64), 20)
    out, pullback = jax.vjp(lambda p: trunk(p, jnp.asarray(views)), params)

    theirs = as_tensors(params)
    expected = encode(theirs, views)
    expected.backward(torch.tensor(weight).double())
    np.testing.assert_allclose(out, expected.detach(), rtol=1e-4, atol=1e-3)
    for ours, layer in zip(pullback(jnp.asarray(weight))[0], gradients(theirs), strict=True):
        scale = abs(layer.kernel).max()
        np.testing.assert_allclose(ours.kernel, layer.kernel, rtol=1e-3, atol=1e-5 * scale)
        np.testing.assert_allclose(ours.bias, layer.bias, rtol=1e-3, atol=1e-5 * scale)
