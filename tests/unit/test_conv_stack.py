"""The stack of convolutions: unused gradients, XLA's axis orders, sizes, errors."""

import itertools
import math
import re

import chex
import jax
import jax.numpy as jnp
import pytest

from re3_jax.initializers import Layer
from re3_jax.networks import conv_stack
from re3_jax.networks.conv import conv2d


def convolutions_of(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().as_text().count(" convolution(")


def test_an_unused_gradient_of_the_images_is_not_computed():
    x, kernel, bias = jnp.ones((4, 9, 9, 3)), jnp.ones((3, 3, 3, 2)), jnp.ones(2)

    def loss(x, kernel):
        return jnp.sum(conv2d(x, kernel, bias) ** 2)

    without = convolutions_of(jax.grad(loss, 1), x, kernel)
    assert convolutions_of(jax.grad(loss, (0, 1)), x, kernel) == without + 1


def test_convolutions_in_a_loop_keep_the_axis_order_that_cpus_are_fast_in():
    """Within a loop XLA does not transpose axes; other orders then run many times slower."""

    def loss(x, kernel):
        return jnp.sum(conv2d(x, kernel, jnp.ones(2), 2) ** 2)

    def in_loop(xs, kernel):
        return jax.lax.map(lambda x: jax.grad(loss, (0, 1))(x, kernel), xs)

    arguments = jnp.ones((2, 4, 21, 21, 3)), jnp.ones((3, 3, 3, 2))
    program = jax.jit(in_loop).lower(*arguments).compile().as_text()
    axes = re.findall(r" convolution\(.*dim_labels=(\S+?)[,\s]", program)
    assert set(axes) == {"b01f_01io->b01f"}


def test_a_gpu_gets_the_native_convolution_without_loops():
    """There, seeds are one grouped convolution."""

    def loss(x, kernel, bias):
        return jnp.sum(conv2d(x, kernel, bias, 2) ** 2)

    gradient = jax.jit(jax.vmap(jax.grad(loss, (0, 1, 2))))
    arguments = jnp.ones((2, 4, 9, 9, 3)), jnp.ones((2, 3, 3, 3, 5)), jnp.ones((2, 5))
    program = gradient.trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
    assert program.count("stablehlo.convolution") == 3
    assert "stablehlo.while" not in program


@pytest.mark.parametrize(
    ("height", "width", "num_filters", "flat"),
    [(84, 84, 32, 39_200), (100, 100, 32, 59_168), (15, 16, 4, 4)],
)
def test_length_of_the_features(height, width, num_filters, flat):
    """The first two are the released code's."""
    convs = conv_stack.colour("rad", num_filters)
    assert conv_stack.flat_dim(convs, height, width) == flat
    kernels = [jnp.zeros(shape) for shape in conv_stack.kernel_shapes(convs, 3)]
    layers = [Layer(kernel, jnp.zeros(num_filters)) for kernel in kernels]
    image = jax.ShapeDtypeStruct((2, height, width, 3), jnp.float32)
    features = jax.eval_shape(conv_stack.features, conv_stack.of_layers(convs, layers), image)
    assert (features.shape, features.dtype) == ((2, flat), jnp.float32)


@pytest.mark.parametrize(("frames", "channels"), [(2, 3), (3, 3), (4, 1)])
def test_weights_of_differences_act_on_the_differences_of_frames(frames, channels):
    keys = jax.random.split(jax.random.key(0), 3)
    convs = [conv_stack.Conv(5, 4, 4), conv_stack.Conv(6, 2, 1)]
    layers = [
        Layer(jax.random.normal(key, shape), jnp.ones(shape[-1]))
        for key, shape in zip(
            keys, conv_stack.kernel_shapes(convs, frames * channels), strict=False
        )
    ]
    images = jax.random.uniform(keys[2], (2, 12, 12, frames * channels))
    by_frame = jnp.split(images, frames, axis=-1)
    moves = [after - before for before, after in itertools.pairwise(by_frame)]
    differences = jnp.concatenate([*moves, by_frame[-1]], axis=-1)

    def squares(layers, frames, images):
        features = conv_stack.features(conv_stack.of_layers(convs, layers, frames), images)
        return jnp.sum(features**2), features

    value_and_gradient = jax.value_and_grad(squares, has_aux=True)
    found = value_and_gradient(layers, frames, images)
    expected = value_and_gradient(layers, 1, differences)
    assert jnp.any(found[0][1] > 0)
    chex.assert_trees_all_close(found, expected, rtol=1e-3, atol=1e-3)


def test_an_unknown_torso_is_refused():
    with pytest.raises(ValueError, match="unknown torso 'resnet': choose one of rad, patches"):
        conv_stack.colour("resnet", 32)


@pytest.mark.parametrize("convs", [conv_stack.colour("patches", 4), conv_stack.NATURE])
def test_the_smallest_images_leave_one_position(convs):
    side = conv_stack.smallest_side(convs)
    assert conv_stack.flat_dim(convs, side, side) == convs[-1].filters
    with pytest.raises(ValueError, match=f"at least {side}x{side}"):
        conv_stack.flat_dim(convs, side - 1, side)


def test_patches_need_a_twentieth_of_the_multiplications():
    def multiplications(torso):
        convs, side, total = conv_stack.colour(torso, 32), 84, 0
        for shape, conv in zip(conv_stack.kernel_shapes(convs, 9), convs, strict=True):
            side = (side - conv.size) // conv.stride + 1
            total += side**2 * math.prod(shape)
        return total

    assert multiplications("patches") < multiplications("rad") / 20


def test_too_small_images_are_refused():
    with pytest.raises(ValueError, match="images of 14x20 pixels are too small"):
        conv_stack.flat_dim(conv_stack.colour("rad", 32), 14, 20)
