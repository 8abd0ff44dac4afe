"""Any shape, kernel and stride: forward and gradients equal PyTorch's."""

from functools import partial

import jax
import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from re3_jax import compilation
from re3_jax.cpu.conv_input_gradient import input_gradient_in_groups
from re3_jax.networks.conv import conv2d, conv_transpose2d


@st.composite
def problems(draw):
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    height, width = draw(st.integers(rows, 12)), draw(st.integers(columns, 12))
    batch, channels, features = (draw(st.integers(1, most)) for most in (9, 5, 5))
    stride = draw(st.integers(1, 4))
    return (batch, height, width, channels), (rows, columns, channels, features), stride


@settings(max_examples=10, deadline=None)
@given(problem=problems(), seed=st.integers(0, 2**16))
def test_forward_and_gradients_equal_pytorch(problem, seed):
    image_shape, kernel_shape, stride = problem
    rng = np.random.default_rng(seed)
    x, kernel, bias = (
        rng.normal(size=shape).astype(np.float32)
        for shape in (image_shape, kernel_shape, kernel_shape[-1:])
    )
    on_torch = [torch.tensor(array.astype(np.float64), requires_grad=True) for array in (x, kernel)]
    expected = torch.nn.functional.conv2d(
        on_torch[0].permute(0, 3, 1, 2),
        on_torch[1].permute(3, 2, 0, 1).contiguous(),
        torch.tensor(bias.astype(np.float64)),
        stride=stride,
    ).permute(0, 2, 3, 1)
    d_out = rng.normal(size=expected.shape).astype(np.float32)
    expected.backward(torch.tensor(d_out.astype(np.float64)))

    @compilation.jit
    def ours(x, kernel, d_out):
        out, pull = jax.vjp(lambda x, kernel: conv2d(x, kernel, bias, stride), x, kernel)
        return out, *pull(d_out)

    theirs = expected.detach(), on_torch[0].grad, on_torch[1].grad
    for own, other in zip(ours(x, kernel, d_out), theirs, strict=True):
        np.testing.assert_allclose(own, other.numpy(), rtol=1e-5, atol=1e-4)


@settings(max_examples=10, deadline=None)
@given(problem=problems(), seed=st.integers(0, 2**16), is_pixel=st.booleans())
def test_transposed_forward_and_gradients_equal_pytorch(problem, seed, is_pixel):
    image_shape, kernel_shape, stride = problem
    if is_pixel:
        image_shape = (image_shape[0], 1, 1, image_shape[3])
    rng = np.random.default_rng(seed)
    rows, columns, channels, features = kernel_shape
    x, kernel, bias = (
        rng.normal(size=shape).astype(np.float32)
        for shape in (image_shape, (rows, columns, features, channels), features)
    )
    on_torch = [torch.tensor(a.astype(np.float64), requires_grad=True) for a in (x, kernel, bias)]
    expected = torch.nn.functional.conv_transpose2d(
        on_torch[0].permute(0, 3, 1, 2),
        on_torch[1].permute(3, 2, 0, 1).contiguous(),
        on_torch[2],
        stride=stride,
    ).permute(0, 2, 3, 1)
    d_out = rng.normal(size=expected.shape).astype(np.float32)
    expected.backward(torch.tensor(d_out.astype(np.float64)))

    @compilation.jit
    def ours(x, kernel, bias, d_out):
        out, pull = jax.vjp(partial(conv_transpose2d, stride=stride), x, kernel, bias)
        return out, *pull(d_out)

    theirs = expected.detach(), *(tensor.grad for tensor in on_torch)
    for own, other in zip(ours(x, kernel, bias, d_out), theirs, strict=True):
        np.testing.assert_allclose(own, other.numpy(), rtol=1e-5, atol=2e-4)


@settings(max_examples=10, deadline=None)
@given(problem=problems(), seed=st.integers(0, 2**16))
@example(problem=((2, 5, 6, 3), (4, 4, 3, 2), 2), seed=0)  # one position, pixels out of reach
def test_input_gradients_of_several_seeds_equal_pytorch(problem, seed):
    image_shape, kernel_shape, stride = problem
    rng = np.random.default_rng(seed)
    sides = [(n - k) // stride + 1 for n, k in zip(image_shape[1:3], kernel_shape[:2], strict=True)]
    d_out = rng.normal(size=(2, image_shape[0], *sides, kernel_shape[-1])).astype(np.float32)
    kernels = rng.normal(size=(2, *kernel_shape)).astype(np.float32)
    of_seed = partial(input_gradient_in_groups, size=image_shape[1:3], stride=stride)
    ours = jax.jit(jax.vmap(of_seed))(kernels, d_out)
    for own, kernel, gradient in zip(ours, kernels, d_out, strict=True):
        theirs = torch.nn.grad.conv2d_input(
            (image_shape[0], image_shape[3], *image_shape[1:3]),
            torch.tensor(kernel.astype(np.float64)).permute(3, 2, 0, 1),
            torch.tensor(gradient.astype(np.float64)).permute(0, 3, 1, 2),
            stride=stride,
        )
        np.testing.assert_allclose(own, theirs.permute(0, 2, 3, 1), rtol=1e-5, atol=2e-4)
