"""Milliseconds of Dreamer's convolutions for its images, beside PyTorch's, on one core.

Usage: `python -m benchmarks.dreamer_images [--rounds N] [--depths 8 16 32]`; one JSON object.

128 images of 64x64x3, a fourth of a batch of the preset `small`. `encoder`: the features alone, and
with the gradient of all weights; `decoder`: the images' loss with the gradients of weights and
states. `re3_jax` sees the first layer of the encoder, and the same of the decoder's backward pass,
without a stride (`re3_jax.cpu.space_to_depth`); `stride` leaves it to XLA. PyTorch's images are
in its faster layout (`channels_last`). All ways take turns, in the order of another draw each
round.
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
from re3_jax import compilation
from re3_jax.agents.dreamer import images, networks
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.cpu.space_to_depth import is_narrow

IMAGES = 128
CHANNELS = 3

Case = tuple[Callable[..., Any], tuple[Any, ...], Callable[[], Any]]
"""A program, its arguments, and what does the same in PyTorch."""


def cases(depth: int) -> dict[str, Case]:
    """Name -> what is timed."""
    config = DreamerConfig(conv_depth=depth)
    model = networks.init_model(jax.random.key(0), config, action_dim=1, channels=CHANNELS)
    size = networks.IMAGE_SIZE
    frames = np.random.default_rng(0).integers(0, 256, (IMAGES, size, size, CHANNELS), np.uint8)
    width = config.deter + config.stoch
    states = np.random.default_rng(1).normal(size=(IMAGES, width)).astype(np.float32)

    def embedded(encoder, frames):
        return jnp.sum(images.embed(encoder, frames) ** 2)

    encoder, decoder = torch_encoder(depth), torch_decoder(depth, width)
    targets = torch.as_tensor(frames).permute(0, 3, 1, 2).float() / 255 - 0.5
    seen = targets.contiguous(memory_format=torch.channels_last)
    inputs = torch.tensor(states, requires_grad=True)

    def encode(gradient: bool) -> None:
        with torch.set_grad_enabled(gradient):
            loss = encoder(seen).square().sum()
        if gradient:
            encoder.zero_grad()
            loss.backward()

    def decode() -> None:
        decoder.zero_grad()
        (decoder(inputs) - targets).square().sum().backward()

    def decoded(decoder, states, frames):
        return images.image_loss("float32", decoder, states, frames)

    on_device = jnp.asarray(frames)
    return {
        "encoder": (embedded, (model.encoder, on_device), partial(encode, False)),
        "encoder_with_gradient": (
            jax.value_and_grad(embedded),
            (model.encoder, on_device),
            partial(encode, True),
        ),
        "decoder_with_gradient": (
            jax.value_and_grad(decoded, (0, 1)),
            (model.decoder, jnp.asarray(states), on_device),
            decode,
        ),
    }


def torch_encoder(depth: int) -> torch.nn.Module:
    """The encoder with PyTorch's weights, whose values cost nothing."""
    sizes = [CHANNELS, *(depth * 2**number for number in range(4))]
    convs = [torch.nn.Conv2d(*pair, 4, 2) for pair in zip(sizes, sizes[1:], strict=False)]
    return channels_last(*(layer for conv in convs for layer in (conv, torch.nn.ReLU())))


def torch_decoder(depth: int, width: int) -> torch.nn.Module:
    """The decoder with PyTorch's weights."""
    sizes = [32 * depth, 4 * depth, 2 * depth, depth, CHANNELS]
    convs = [
        torch.nn.ConvTranspose2d(*pair, kernel, networks.DECODER_STRIDE)
        for kernel, pair in zip(
            networks.DECODER_KERNELS, zip(sizes, sizes[1:], strict=False), strict=True
        )
    ]
    between = [layer for conv in convs for layer in (torch.nn.ReLU(), conv)][1:]
    hidden = torch.nn.Linear(width, sizes[0])
    return channels_last(hidden, torch.nn.Unflatten(1, (-1, 1, 1)), *between)


def channels_last(*layers: torch.nn.Module) -> torch.nn.Module:
    """The layers, one after the other, their kernels in the faster layout."""
    for weight in (weight for layer in layers for weight in layer.parameters()):
        if weight.ndim == len("NCHW"):
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    return torch.nn.Sequential(*layers)


def report_case(case: Case, rounds: int) -> dict[str, float]:
    """Median milliseconds of each way."""
    program, arguments, on_torch = case
    runs: dict[str, Callable[[], Any]] = {"torch": on_torch}
    for name, in_the_place in {"re3_jax": is_narrow, "stride": lambda *_: False}.items():
        # What was traced with the other way would be taken from a cache.
        jax.clear_caches()
        with mock.patch("re3_jax.cpu.conv.is_narrow", in_the_place):
            compiled = compilation.jit(partial(program)).lower(*arguments).compile()
        runs[name] = finished(compiled, *arguments)
    seconds = take_turns(runs, rounds, warm=True)
    return {name: round(1e3 * float(np.median(seconds[name])), 1) for name in sorted(runs)}


def main() -> None:
    """Runs all cases and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21, help="turns of each way")
    parser.add_argument("--depths", type=int, nargs="+", default=[8, 16, 32])
    words = parser.parse_args()
    report = hardware.on_one_core("dreamer_images", words.rounds) | {
        "milliseconds_of": f"{IMAGES} images"
    }
    for depth in words.depths:
        report[f"depth {depth}"] = {
            name: report_case(case, words.rounds) for name, case in cases(depth).items()
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
