"""Milliseconds of the pixel encoder's four convolutions beside XLA's own and PyTorch's, in one run.

Usage: `python -m benchmarks.conv [--rounds N] [--batches 128 512]`; prints one JSON object.

Images of 84x84x9, 32 filters. Forward, and forward with the gradient of all weights, called on
their own, inside `scan` and vmapped over three seeds with weights of their own (PyTorch: three
calls). All ways take turns, round by round, so that what else the machine does meets them alike.
`cpu_ms` is the processor time of all threads, which another program on the machine disturbs less
than it does the wall clock. The floor is the convolutions' operations (gradient: twice the
forward's, without that of the images) at the rate of this machine's float32 product of two
2048 x 2048 matrices; a ratio is the median of the ratios to the floor of the same round.
A way whose first call, compilation included, takes over 20 seconds takes part in one round only;
at batch 512 XLA's own in a `scan` takes several minutes even so.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks import hardware
from benchmarks.knn import finished
from re3_jax import compilation, initializers
from re3_jax.networks import conv_stack
from re3_jax.networks.conv_stack import ConvStack

SIZE, CHANNELS, FILTERS = 84, 9, 32
CONVS = conv_stack.colour("rad", FILTERS)
SEEDS = 3
CALLS_IN_SCAN = 2
PEAK_SIZE = 2048
SLOW_SECONDS = 20


class Way(NamedTuple):
    """One implementation: `run()` passes `passes` batches."""

    run: Callable[[], Any]
    passes: int


def xla_features(params: ConvStack, observation: jax.Array) -> jax.Array:
    """`features` with XLA's own convolution."""
    x = observation.astype(jnp.float32) / 255
    for layer, stride in zip(params.layers, params.strides, strict=True):
        dimensions = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(
            x, layer.kernel, (stride, stride), "VALID", dimension_numbers=dimensions
        )
        x = jax.nn.relu(x + layer.bias)
    return x.reshape(x.shape[0], -1)


def draw(key: jax.Array) -> ConvStack:
    """Weights of one stack."""
    shapes = conv_stack.kernel_shapes(CONVS, CHANNELS)
    return conv_stack.of_layers(CONVS, initializers.layers("torch", key, shapes))


def features(params: ConvStack, observation: jax.Array) -> jax.Array:
    """The library's features of bytes."""
    return conv_stack.features(params, observation.astype(jnp.float32) / 255)


def with_gradient(features: Callable) -> Callable:
    """Gradient of a loss of the features with respect to all weights."""
    return jax.grad(lambda params, observation: jnp.sum(features(params, observation) ** 2))


def in_scan(function: Callable) -> Callable:
    """Several calls as one program, as the training loop makes them."""

    def run(params, observation):
        def body(before, _):
            # The carry keeps XLA from hoisting the call out of the loop. It holds whole arrays, so
            # XLA does not fuse the last convolution with their sum, which would be another case.
            nothing = 0 * jax.tree.leaves(before)[0].ravel()[0]
            return function(jax.tree.map(lambda leaf: leaf + nothing, params), observation), None

        shapes = jax.eval_shape(function, params, observation)
        start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.lax.scan(body, start, None, length=CALLS_IN_SCAN)[0]

    return run


def torch_stack(params: ConvStack) -> torch.nn.Sequential:
    """The same network in PyTorch."""
    modules: list[torch.nn.Module] = []
    for layer, stride in zip(params.layers, params.strides, strict=True):
        channels, filters = layer.kernel.shape[2:]
        conv = torch.nn.Conv2d(channels, filters, 3, stride)
        conv.weight.data = torch.tensor(np.asarray(layer.kernel)).permute(3, 2, 0, 1).contiguous()
        conv.bias.data = torch.tensor(np.asarray(layer.bias))
        modules += [conv, torch.nn.ReLU()]
    return torch.nn.Sequential(*modules)


def torch_forward(network: torch.nn.Module, observation: torch.Tensor) -> torch.Tensor:
    """Features, without storing anything for a gradient."""
    with torch.no_grad():
        return network(observation.float() / 255)


def torch_gradient(network: torch.nn.Module, observation: torch.Tensor) -> None:
    """Gradients of all weights, left in the network."""
    network.zero_grad()
    network(observation.float() / 255).square().sum().backward()


def ways_of(batch: int, gradient: bool) -> dict[str, Way]:
    """All implementations for one batch, by context and by convolution."""
    rng = np.random.default_rng(0)
    shape = SEEDS, batch, SIZE, SIZE, CHANNELS
    observations = jnp.asarray(rng.integers(0, 256, shape, np.uint8))
    stacked = jax.vmap(draw)(jax.random.split(jax.random.key(0), SEEDS))
    params = jax.tree.map(lambda leaf: leaf[0], stacked)
    ways = {}
    for name, forward in (("re3_jax", features), ("xla", xla_features)):
        function = with_gradient(forward) if gradient else forward
        jit = compilation.jit if name == "re3_jax" else jax.jit
        alone, scanned, vmapped = jit(function), jit(in_scan(function)), jit(jax.vmap(function))
        ways[f"alone {name}"] = Way(finished(alone, params, observations[0]), 1)
        ways[f"in_scan {name}"] = Way(finished(scanned, params, observations[0]), CALLS_IN_SCAN)
        ways[f"vmapped {name}"] = Way(finished(vmapped, stacked, observations), SEEDS)
    network = torch_stack(params)
    on_torch = torch.tensor(np.asarray(observations[0])).permute(0, 3, 1, 2).contiguous()
    call = torch_gradient if gradient else torch_forward
    ways["alone torch"] = Way(partial(call, network, on_torch), 1)
    return ways


def operations_of(batch: int, gradient: bool) -> float:
    """Floating-point operations of the convolutions of one batch."""
    forward, total, size, channels = 0, 0, SIZE, CHANNELS
    for place, stride in enumerate(conv.stride for conv in CONVS):
        size = (size - 3) // stride + 1
        one = 2 * batch * size * size * 9 * channels * FILTERS
        forward, total, channels = forward + one, total + one * (3 if place else 2), FILTERS
    return float(total if gradient else forward)


def peak_gflops(matrix: jax.Array, product: Callable) -> float:
    """The rate of one product of two square matrices."""
    start = time.perf_counter()
    jax.block_until_ready(product(matrix, matrix))
    return 2e-9 * PEAK_SIZE**3 / (time.perf_counter() - start)


def report_case(batch: int, gradient: bool, rounds: int) -> dict[str, Any]:
    """Times all ways on one batch size."""
    ways = ways_of(batch, gradient)
    matrix = jax.random.normal(jax.random.key(0), (PEAK_SIZE, PEAK_SIZE))
    product = jax.jit(jnp.matmul)
    peak_gflops(matrix, product)
    slow = set()
    for name, way in ways.items():
        start = time.perf_counter()
        way.run()
        if time.perf_counter() - start > SLOW_SECONDS:
            slow.add(name)
    wall = {name: np.full(rounds, np.nan) for name in ways}
    processor, rates = {name: np.full(rounds, np.nan) for name in ways}, np.zeros(rounds)
    rng = np.random.default_rng(0)
    for turn in range(rounds):
        rates[turn] = peak_gflops(matrix, product)
        for place in rng.permutation(len(ways)):
            name = list(ways)[place]
            if turn and name in slow:
                continue
            before, start = time.process_time(), time.perf_counter()
            ways[name].run()
            wall[name][turn] = 1e3 * (time.perf_counter() - start) / ways[name].passes
            processor[name][turn] = 1e3 * (time.process_time() - before) / ways[name].passes
    floor = 1e-6 * operations_of(batch, gradient) / rates
    return {
        "floor_ms": round(float(np.median(floor)), 1),
        "peak_gflops": round(float(np.median(rates))),
        "ways": {
            name: {
                "ms": round(float(np.nanmedian(wall[name])), 1),
                "ms_fastest": round(float(np.nanmin(wall[name])), 1),
                "cpu_ms": round(float(np.nanmedian(processor[name])), 1),
                "ratio_to_floor": round(float(np.nanmedian(wall[name] / floor)), 2),
            }
            for name in ways
        },
    }


def main() -> None:
    """Runs all cases and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each way")
    parser.add_argument("--batches", type=int, nargs="+", default=[128], help="batch sizes")
    arguments = parser.parse_args()
    report: dict[str, Any] = {
        "hardware": hardware.describe(),
        "rounds": arguments.rounds,
        "milliseconds_of": "one batch",
    }
    for batch in arguments.batches:
        report[f"batch {batch}"] = {
            "forward": report_case(batch, False, arguments.rounds),
            "forward_and_backward": report_case(batch, True, arguments.rounds),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
