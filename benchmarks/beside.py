"""PyTorch as JAX runs: on the same device, with products of the same precision."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from re3_jax.runs import machine

TENSOR_FLOAT = "tensorfloat32"
"""JAX's name of products of 10 bits of mantissa."""


def as_jax_does() -> None:
    """Sets PyTorch's threads, its default device, and products of float32."""
    import torch

    torch.set_num_threads(machine.usable_cores())
    if jax.default_backend() == "gpu":
        torch.set_default_device("cuda")
    products_in_tf32(False)


def products_in_tf32(allowed: bool) -> None:
    """Whether PyTorch may use TensorFloat-32, in convolutions and products.

    Its own defaults are yes for the former and no for the latter.
    """
    import torch

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = allowed


def finished(function: Callable[..., Any], *arguments: Any) -> Callable[[], np.ndarray]:
    """A call of a function of tensors that waits for its result."""
    return lambda: function(*arguments).cpu().numpy()
