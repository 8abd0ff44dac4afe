"""The patch-matmul convolution and the MiniGrid stack against PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import torch

from re3_jax.initializers import Layer
from re3_jax.networks.conv import conv2x2, max_pool2x2
from re3_jax.networks.minigrid import KERNEL_SHAPES, trunk


def random(shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_conv2x2_and_its_gradients_equal_pytorch():
    x, kernel, bias = random((3, 7, 6, 5), 0), random((2, 2, 3, 4), 1), random((4,), 2)
    weight = random((4, 6, 5, 5), 3)
    out, pullback = jax.vjp(conv2x2, x, kernel, bias)
    tx = torch.tensor(x, requires_grad=True)
    tk = torch.tensor(kernel, requires_grad=True)
    tb = torch.tensor(bias, requires_grad=True)
    expected = torch.nn.functional.conv2d(tx.permute(3, 0, 1, 2), tk.permute(3, 2, 0, 1), tb)
    expected = expected.permute(1, 2, 3, 0)
    expected.backward(torch.tensor(weight))
    np.testing.assert_allclose(out, expected.detach(), rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(pullback(jnp.asarray(weight)), (tx, tk, tb), strict=True):
        np.testing.assert_allclose(ours, theirs.grad, rtol=1e-5, atol=2e-5)


def test_max_pool_and_its_gradient_equal_pytorch():
    x, weight = random((3, 6, 8, 4), 0), random((3, 3, 4, 4), 1)
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

    convs = []
    for layer in params:
        conv = torch.nn.Conv2d(layer.kernel.shape[2], layer.kernel.shape[3], 2)
        conv.weight.data = torch.tensor(np.array(layer.kernel)).permute(3, 2, 0, 1)
        conv.bias.data = torch.tensor(np.array(layer.bias))
        convs.append(conv)
    x = torch.tensor(views).float().permute(0, 3, 1, 2)
    x = torch.nn.functional.max_pool2d(torch.relu(convs[0](x)), 2)
    x = torch.relu(convs[2](torch.relu(convs[1](x)))).flatten(1)
    x.backward(torch.tensor(weight))
    np.testing.assert_allclose(out, x.detach(), rtol=1e-4, atol=1e-3)
    for ours, conv in zip(pullback(jnp.asarray(weight))[0], convs, strict=True):
        theirs = conv.weight.grad.permute(2, 3, 1, 0)
        scale = float(theirs.abs().max())
        np.testing.assert_allclose(ours.kernel, theirs, rtol=1e-3, atol=1e-5 * scale)
        np.testing.assert_allclose(ours.bias, conv.bias.grad, rtol=1e-3, atol=1e-5 * scale)
