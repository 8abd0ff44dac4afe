"""The pixel convolution, its gradients and the stack of four against PyTorch in float64."""

from contextlib import nullcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from re3_jax import compilation, initializers
from re3_jax.initializers import Layer
from re3_jax.networks import conv_stack
from re3_jax.networks.conv import conv2d, conv_transpose2d
from tests.torch_oracle.layers import convolve, convolve_all, flat, images
from tests.torch_oracle.weights import as_tensors


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def tensors(*arrays):
    return [torch.tensor(np.asarray(array, np.float64), requires_grad=True) for array in arrays]


def torch_conv(x, kernel, bias, stride):
    out = convolve(Layer(kernel, bias), x.permute(0, 3, 1, 2), stride)
    return out.permute(0, 2, 3, 1)


def torch_pull(arguments, stride, d_out):
    on_torch = tensors(*arguments)
    out = torch_conv(*on_torch, stride)
    out.backward(torch.tensor(np.asarray(d_out, np.float64)))
    return out.detach().numpy(), [tensor.grad.numpy() for tensor in on_torch]


def assert_close(ours, theirs):
    """Equal up to the float32 rounding of a sum."""
    scale = max(1.0, np.abs(theirs).max())
    np.testing.assert_allclose(np.asarray(ours) / scale, theirs / scale, rtol=0, atol=3e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("convolve", "channels"), [(conv2d, (4, 8)), (conv_transpose2d, (8, 4))])
@pytest.mark.parametrize("size", [6, 14])
def test_bfloat16_is_summed_in_float32(convolve, channels, size):
    """Outputs and gradients equal float32's for the same inputs, rounded to 8 bits."""
    narrow = [
        jnp.asarray(array, jnp.bfloat16)
        for array in (
            normal(500, size, size, 4),
            normal(4, 4, *channels, seed=1),
            normal(8, seed=2),
        )
    ]
    wide = [array.astype(jnp.float32) for array in narrow]

    def out_and_gradients(arguments):
        out, pull = jax.vjp(partial(convolve, stride=2), *arguments)
        d_out = jnp.asarray(normal(*out.shape, seed=3), jnp.bfloat16).astype(out.dtype)
        return out, *pull(d_out)

    found, expected = out_and_gradients(narrow), out_and_gradients(wide)
    for ours, theirs in zip(found[:3], expected[:3], strict=True):
        assert ours.dtype == jnp.bfloat16
        error = jnp.linalg.norm(ours.astype(jnp.float32) - theirs) / jnp.linalg.norm(theirs)
        # Two roundings to 8 bits; sums of thousands of terms in bfloat16 would be off by far more.
        assert error < 2**-8


@pytest.mark.parametrize(
    ("batch", "height", "width", "channels", "features", "rows", "columns", "stride"),
    [
        (16, 20, 22, 9, 8, 3, 3, 2),
        (24, 21, 21, 4, 8, 3, 3, 1),
        (7, 9, 8, 2, 3, 2, 3, 3),
        (2, 3, 3, 2, 2, 3, 3, 1),
        (1, 8, 8, 3, 4, 3, 3, 2),
        (80, 40, 40, 8, 4, 3, 3, 1),
        (6, 14, 13, 9, 5, 4, 4, 4),
        (6, 12, 12, 4, 5, 3, 3, 3),
        (5, 15, 14, 3, 8, 4, 6, 2),
    ],
    ids=[
        *("first layer", "later layer", "odd kernel", "one position", "one image", "blocks"),
        *("side by side, three frames", "side by side, no frames", "few channels"),
    ],
)
def test_forward_and_gradients(batch, height, width, channels, features, rows, columns, stride):
    arguments = (
        normal(batch, height, width, channels),
        normal(rows, columns, channels, features, seed=1),
        normal(features, seed=2),
    )

    @compilation.jit
    def ours(arguments, d_out):
        out, pull = jax.vjp(partial(conv2d, stride=stride), *arguments)
        return out, pull(d_out)

    out_shape = jax.eval_shape(partial(conv2d, stride=stride), *arguments).shape
    d_out = normal(*out_shape, seed=3)
    out, gradients = ours(arguments, d_out)
    expected, expected_gradients = torch_pull(arguments, stride, d_out)
    assert_close(out, expected)
    for ours_, theirs in zip(gradients, expected_gradients, strict=True):
        assert_close(ours_, theirs)


@pytest.mark.parametrize("platform", ["cpu", "default"])
@pytest.mark.parametrize("stride", [1, 2])
def test_seeds_in_a_loop(stride, platform, monkeypatch):
    """A scan of steps, vmapped over seeds, as in the training program."""
    monkeypatch.setattr(compilation, "tracing_for", lambda platform: nullcontext())
    monkeypatch.setattr(
        jax.lax, "platform_dependent", lambda *arguments, **ways: ways[platform](*arguments)
    )
    seeds, steps = 2, 3
    x = normal(seeds, steps, 5, 9, 9, 3)
    kernel, bias = normal(seeds, 3, 3, 3, 4, seed=1), normal(seeds, 4, seed=2)

    def run(kernel, bias, x):
        def loss(x, kernel, bias):
            return jnp.sum(jnp.sin(conv2d(x, kernel, bias, stride)))

        return jax.lax.scan(
            lambda carry, x: (carry, jax.grad(loss, (0, 1, 2))(x, kernel, bias)), 0, x
        )[1]

    gradients = compilation.jit(jax.vmap(run))(kernel, bias, x)
    for seed in range(seeds):
        for step in range(steps):
            on_torch = tensors(x[seed, step], kernel[seed], bias[seed])
            torch.sin(torch_conv(*on_torch, stride)).sum().backward()
            for ours, theirs in zip(gradients, on_torch, strict=True):
                assert_close(ours[seed, step], theirs.grad.numpy())


def test_one_image_for_several_kernels():
    """As in an ensemble: only the kernels are batched."""
    x, kernel, bias = normal(4, 8, 8, 3), normal(3, 3, 3, 3, 5, seed=1), normal(3, 5, seed=2)
    out = compilation.jit(jax.vmap(conv2d, in_axes=(None, 0, 0)))(x, kernel, bias)
    for member in range(3):
        expected = torch_conv(*tensors(x, kernel[member], bias[member]), 1)
        assert_close(out[member], expected.detach().numpy())


@pytest.mark.parametrize(("torso", "shape"), [("rad", (8, 5, 3)), ("patches", (8, 6, 5))])
def test_features_equal_pytorch_up_to_the_order_of_the_flat_axis(torso, shape):
    convs = conv_stack.colour(torso, 8)
    layers = initializers.layers("torch", jax.random.key(0), conv_stack.kernel_shapes(convs, 9))
    stack = conv_stack.of_layers(convs, layers)
    x = np.random.default_rng(0).random((3, 24, 20, 9), np.float32)
    features = compilation.jit(conv_stack.features)(stack, x)
    expected = convolve_all(as_tensors(stack), images(x)).detach()
    assert expected.shape == (3, *shape)
    assert features.shape == (3, conv_stack.flat_dim(convs, 24, 20))
    assert_close(features, flat(expected).numpy())
