"""Microseconds a view of MiniGrid's convolutions, as they are and as XLA has them, on one core.

Usage: `python -m benchmarks.minigrid_trunk [--rounds N] [--batches 16 256 512]`; one JSON object.

Minibatches of a rollout of 2,048 views in a `scan`, as PPO learns from them: the features alone,
and with the gradient of all weights. `xla` puts the batch last within what follows and leaves the
gradient of the pooling to XLA; `batch_last` changes the first of these, and `re3_jax` both. PyTorch
computes the same in its own layout, minibatch by minibatch. All ways take turns, in the order of
another draw each round.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks import hardware
from benchmarks.knn import finished, take_turns
from re3_jax import compilation, initializers
from re3_jax.cpu.batch_last import batch_last
from re3_jax.networks import minigrid
from re3_jax.networks.conv import max_pool2x2
from re3_jax.networks.minigrid import TrunkParams

VIEWS = 2048
CODES = 11
"""MiniGrid has 11 kinds of objects."""


def transposed(images: jax.Array) -> jax.Array:
    """What `batch_last` is for."""
    return images.transpose(3, 1, 2, 0).astype(jnp.float32)


def pooled(x: jax.Array) -> jax.Array:
    """The maximum of each window, with XLA's gradient."""
    channels, height, width, batch = x.shape
    return x.reshape(channels, height // 2, 2, width // 2, 2, batch).max(axis=(2, 4))


WAYS: dict[str, dict[str, Any]] = {
    "re3_jax": {"batch_last": batch_last, "max_pool2x2": max_pool2x2},
    "batch_last": {"batch_last": batch_last, "max_pool2x2": pooled},
    "xla": {"batch_last": transposed, "max_pool2x2": pooled},
}
"""Name -> what stands in the place of the library's functions."""


def in_minibatches(gradient: bool) -> Callable[..., Any]:
    """A pass over all views; the weights move a little, so that nothing leaves the loop."""

    def loss(params: TrunkParams, views: jax.Array) -> jax.Array:
        return jnp.sum(jnp.square(minigrid.trunk(params, views)))

    def step(params: TrunkParams, views: jax.Array) -> tuple[TrunkParams, jax.Array]:
        if not gradient:
            found = loss(params, views)
            return jax.tree.map(lambda leaf: leaf + 0 * found, params), found
        found, slope = jax.value_and_grad(loss)(params, views)
        return jax.tree.map(lambda leaf, by: leaf - 1e-9 * by, params, slope), found

    def run(params: TrunkParams, views: jax.Array, order: jax.Array) -> Any:
        return jax.lax.scan(lambda params, rows: step(params, views[rows]), params, order)

    return run


def torch_pass(network: torch.nn.Module, views: torch.Tensor, order: np.ndarray, gradient: bool):
    """The same pass, without moving weights."""
    with torch.set_grad_enabled(gradient):
        for rows in torch.as_tensor(order):
            loss = network(views[rows].permute(0, 3, 1, 2).float()).square().sum()
            if gradient:
                network.zero_grad()
                loss.backward()


def torch_trunk() -> torch.nn.Module:
    """The network with PyTorch's weights, whose values cost nothing."""
    first, second, third = (
        torch.nn.Conv2d(shape[2], shape[3], 2) for shape in minigrid.KERNEL_SHAPES
    )
    relu = torch.nn.ReLU()
    return torch.nn.Sequential(first, relu, torch.nn.MaxPool2d(2), second, relu, third, relu)


def report_case(batch: int, gradient: bool, rounds: int) -> dict[str, float]:
    """Median microseconds a view of each way."""
    rng = np.random.default_rng(0)
    views = rng.integers(0, CODES, (VIEWS, *minigrid.OBSERVATION_SHAPE), np.uint8)
    order = rng.permutation(VIEWS).reshape(-1, batch)
    layers = initializers.layers("orthogonal", jax.random.key(0), minigrid.KERNEL_SHAPES)
    arguments = tuple(layers), jnp.asarray(views), jnp.asarray(order)
    runs: dict[str, Callable[[], Any]] = {}
    for name, instead in WAYS.items():
        with mock.patch.multiple(minigrid, **instead):
            compiled = compilation.jit(in_minibatches(gradient)).lower(*arguments).compile()
        runs[name] = finished(compiled, *arguments)
    on_torch = torch.as_tensor(views)
    runs["torch"] = partial(torch_pass, torch_trunk(), on_torch, order, gradient)
    seconds = take_turns(runs, rounds, warm=True)
    return {name: round(1e6 * float(np.median(seconds[name])) / VIEWS, 2) for name in runs}


def main() -> None:
    """Runs all cases and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21, help="turns of each way")
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 256, 512])
    words = parser.parse_args()
    report = hardware.on_one_core("minigrid_trunk", words.rounds) | {"microseconds_of": "one view"}
    for batch in words.batches:
        report[f"batch {batch}"] = {
            "forward": report_case(batch, False, words.rounds),
            "forward_and_backward": report_case(batch, True, words.rounds),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
