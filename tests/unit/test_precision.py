"""Every product of a program of the loops is of float32 numbers, on every backend.

The lowered text shows it: JAX writes HIGHEST beside the operands of each dot and convolution.
"""

import re
from contextlib import nullcontext
from functools import partial

import jax
import jax.numpy as jnp
import pytest

from re3_jax.agents.dreamer.state_entropy import encoder_from
from re3_jax.cpu import compilation
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.training.host_functions import SeedFunctions
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.seeds import OverSeeds
from tests.probe_host_env import spec
from tests.unit.test_no_copies import HOST

PLATFORMS = ("cpu", "cuda")


def products(program, *arguments, platform):
    """The lines of the lowered text with a product."""
    text = program.trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
    return re.findall(r"^.*stablehlo\.(?:dot_general|dot|convolution)\b.*$", text, re.MULTILINE)


@pytest.fixture(autouse=True)
def for_every_platform(monkeypatch):
    """Programs that are made for a CPU hold the branches of other platforms too."""
    monkeypatch.setattr(compilation, "tracing_for", lambda platform: nullcontext())


def is_full(line):
    return line.count("HIGHEST") == 2


@pytest.fixture(scope="module", params=HOST)
def agent(request):
    """What the host loop compiles for an agent with RE3 over pixels, and its arguments' shapes."""
    program = HostProgram(
        HOST[request.param](), lambda lanes: None, seeds=range(1), chunk_agent_steps=1,
        eval_episodes=1, eval_greedy=True,
    )  # fmt: skip
    one, compiled = SeedFunctions(program.learner), OverSeeds().compile
    state = program.abstract_state(1)
    _, action = jax.eval_shape(program.programs.act, state)
    step = jax.eval_shape(lambda: program.on_device(program._zero_step()))
    return {
        "learn": (compiled(partial(one.learn, program.learner.phases[0])), state),
        "act": (compiled(partial(one.act, False)), state),
        "store": (compiled(one.store), state, action, step),
    }


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(("name", "least"), [("learn", 20), ("act", 3), ("store", 3)])
def test_products_of_a_program(agent, name, least, platform):
    found = products(*agent[name], platform=platform)
    assert len(found) >= least
    assert [line for line in found if not is_full(line)] == []


def product(x):
    return x @ x.T


def test_jaxs_own_setting_overrides_it():
    x = jnp.ones((3, 4))
    (line,) = products(compilation.jit(product), x, platform="cuda")
    assert is_full(line)
    (line,) = products(jax.jit(product), x, platform="cuda")
    assert "HIGHEST" not in line
    with jax.default_matmul_precision("tensorfloat32"):
        (line,) = products(compilation.jit(product), x, platform="cuda")
    assert line.count("HIGH") == 2 and "HIGHEST" not in line


def test_dreamers_random_encoder_keeps_float32_in_any_program():
    encoder = encoder_from(RE3Config(latent_dim=4), "tanh_then_layer_norm", 2)
    weights = jax.eval_shape(
        lambda key: encoder.init(key, spec(stack=1, size=64)), jax.random.key(0)
    )
    frames = jax.ShapeDtypeStruct((3, 64, 64, 3), jnp.uint8)
    found = products(jax.jit(encoder.encode), weights, frames, platform="cuda")
    assert len(found) == 5 and all(map(is_full, found))


def test_a_gradient_is_of_full_precision_too():
    program = compilation.jit(jax.grad(lambda x: product(x).sum()))
    assert all(map(is_full, products(program, jnp.ones((3, 4)), platform="cuda")))
