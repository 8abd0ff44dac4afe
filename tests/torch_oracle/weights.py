"""Our weights as PyTorch's tensors, in trees of the same structure, to compare leaf by leaf.

A leaf has our shape and the memory order of PyTorch's own modules.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import torch

_AXES = {2: (1, 0), 4: (3, 2, 0, 1)}
"""(in, out) as (out, in); (height, width, in, out) as (out, in, height, width)."""


def native(kernel):
    """A view of a kernel in the layout of PyTorch's functions."""
    return kernel.permute(_AXES[kernel.ndim])


def as_tensors(tree, dtype=torch.float64):
    """The same tree with leaves that collect gradients."""

    def leaf(array):
        tensor = torch.tensor(np.asarray(array), dtype=dtype)
        if tensor.ndim in _AXES:
            tensor = native(tensor).contiguous().permute(tuple(np.argsort(_AXES[tensor.ndim])))
        return tensor.requires_grad_()

    return jax.tree.map(leaf, tree)


def data(tree):
    """The same tree as tensors of the same dtypes, without gradients."""
    return jax.tree.map(lambda leaf: torch.tensor(np.asarray(leaf)), tree)


def detached(tree):
    """The same tensors, detached from gradients."""
    return jax.tree.map(lambda leaf: leaf.detach(), tree)


def gradients(tree):
    return jax.tree.map(lambda leaf: leaf.grad.numpy().copy(), tree)


def values(tree):
    return jax.tree.map(lambda leaf: leaf.detach().numpy().copy(), tree)


def adam(tree, learning_rate, **options):
    return torch.optim.Adam(jax.tree.leaves(tree), learning_rate, **options)


def step(optimizer, loss):
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def random_weights(init, seed=0):
    """A tree like that of `init` with a key, filled with normal numbers, biases included.

    No program is compiled for it.
    """
    rng = np.random.default_rng(seed)

    def leaf(like):
        scale = np.prod(like.shape[:-1]) ** -0.5 if len(like.shape) > 1 else 0.3
        return jnp.asarray(scale * rng.normal(size=like.shape), like.dtype)

    return jax.tree.map(leaf, jax.eval_shape(init, jax.random.key(0)))


def random_state(init, **given):
    """A state like that of `init` with a key: `given` fields, and zeros as Adam starts with."""
    shapes = jax.eval_shape(init, jax.random.key(0))
    zeros = jax.tree.map(lambda like: jnp.asarray(np.zeros(like.shape, like.dtype)), shapes)
    for name, tree in given.items():
        assert jax.tree.map(jnp.shape, tree) == jax.tree.map(jnp.shape, getattr(shapes, name))
    return zeros._replace(**given)


def assert_close(ours, theirs, rtol=1e-4, atol=1e-6):
    """Compares trees of arrays, leaf by leaf."""
    jax.tree.map(partial(np.testing.assert_allclose, rtol=rtol, atol=atol), ours, theirs)


def assert_same_step(ours, before, theirs, learning_rate):
    """Compares one Adam step from equal parameters, where the gradient is more than rounding.

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
