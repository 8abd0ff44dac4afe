"""Every product of a program of the loops is of float32 numbers, on every backend.

The lowered text shows it: JAX writes HIGHEST beside the operands of each dot and convolution. It
takes long to make, so what `test_determinism` asks of programs is asked of these texts here.
"""

import re
from contextlib import nullcontext
from functools import cache, partial

import jax
import jax.numpy as jnp
import pytest

from re3_jax import compilation
from re3_jax.agents.dreamer.re3 import encoder_from
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.training.host_functions import SeedFunctions
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.seeds import OverSeeds
from tests.probe_host_env import spec
from tests.unit.test_determinism import sums_of_floats
from tests.unit.test_no_copies import HOST

PLATFORMS = ("cpu", "cuda")


def lowered_text(program, *arguments, platform):
    return program.trace(*arguments).lower(lowering_platforms=(platform,)).as_text()


def products(text):
    """Its lines with a product."""
    return re.findall(r"^.*stablehlo\.(?:dot_general|dot|convolution)\b.*$", text, re.MULTILINE)


def products_of(program, *arguments, platform):
    return products(lowered_text(program, *arguments, platform=platform))


@pytest.fixture(scope="module", autouse=True)
def for_every_platform():
    """Programs that are made for a CPU hold the branches of other platforms too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "tracing_for", lambda platform: nullcontext())
        yield


def is_full(line):
    return line.count("HIGHEST") == 2


@pytest.fixture(scope="module", params=HOST)
def text_of(request):
    """Text, by name and platform, of what the host loop compiles for an agent with RE3."""
    program = HostProgram(
        HOST[request.param](), lambda lanes: None, seeds=range(1), chunk_agent_steps=1,
        eval_episodes=1, eval_greedy=True,
    )  # fmt: skip
    one, compiled = SeedFunctions(program.learner), OverSeeds().compile
    state = program.abstract_state(1)
    _, action = jax.eval_shape(program.programs.act, state)
    step = jax.eval_shape(lambda: program.on_device(program._zero_step()))
    programs = {
        "learn": (compiled(partial(one.learn, program.learner.phases[0])), state),
        "act": (compiled(one.act), state),
        "store": (compiled(one.store), state, action, step),
    }
    return cache(lambda name, platform: lowered_text(*programs[name], platform=platform))


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(("name", "least"), [("learn", 20), ("act", 3), ("store", 3)])
def test_products_of_a_program(text_of, name, least, platform):
    found = products(text_of(name, platform))
    assert len(found) >= least
    assert [line for line in found if not is_full(line)] == []


@pytest.mark.parametrize("name", ["learn", "act", "store"])
def test_no_program_adds_floats_in_open_order_on_a_gpu(text_of, name):
    assert sums_of_floats(text_of(name, "cuda")) == []


def product(x):
    return x @ x.T


def test_jaxs_own_setting_overrides_it():
    x = jnp.ones((3, 4))
    (line,) = products_of(compilation.jit(product), x, platform="cuda")
    assert is_full(line)
    (line,) = products_of(jax.jit(product), x, platform="cuda")
    assert "HIGHEST" not in line
    with jax.default_matmul_precision("tensorfloat32"):
        (line,) = products_of(compilation.jit(product), x, platform="cuda")
    assert line.count("HIGH") == 2 and "HIGHEST" not in line


def test_dreamers_random_encoder_keeps_float32_in_any_program():
    encoder = encoder_from(RE3Config(latent_dim=4), "tanh_then_layer_norm", 2)
    weights = jax.eval_shape(
        lambda key: encoder.init(key, spec(stack=1, size=64)), jax.random.key(0)
    )
    frames = jax.ShapeDtypeStruct((3, 64, 64, 3), jnp.uint8)
    found = products_of(jax.jit(encoder.encode), weights, frames, platform="cuda")
    assert len(found) == 5 and all(map(is_full, found))


def test_a_gradient_is_of_full_precision_too():
    program = compilation.jit(jax.grad(lambda x: product(x).sum()))
    found = products_of(program, jnp.ones((3, 4)), platform="cuda")
    assert len(found) == 2 and all(map(is_full, found))
