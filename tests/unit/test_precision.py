"""Every product of a program of the loops is of float32 numbers, on every backend.

The lowered text shows it: JAX writes HIGHEST beside the operands of each dot and convolution.
"""

import re

import jax
import jax.numpy as jnp
import pytest

from re3_jax.agents.dreamer.state_entropy import encoder_from
from re3_jax.cpu import compilation
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.training.host_loop import HostProgram
from tests.probe_host_env import spec
from tests.unit.test_no_copies import HOST

PLATFORMS = ("cpu", "cuda")


def products(program, *arguments, platform):
    """The lines of the lowered text with a product."""
    text = program.trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
    return re.findall(r"^.*stablehlo\.(?:dot_general|dot|convolution)\b.*$", text, re.MULTILINE)


def is_full(line):
    return line.count("HIGHEST") == 2


@pytest.fixture(scope="module", params=HOST)
def agent(request):
    """Programs of an agent with RE3 over pixels, and the shape of its state."""
    program = HostProgram(
        HOST[request.param](), lambda lanes: None, seeds=range(1), chunk_agent_steps=1,
        eval_episodes=1, eval_greedy=True,
    )  # fmt: skip
    return program, program.abstract_state(1)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_products_of_an_update(agent, platform):
    program, state = agent
    found = products(program.programs.learn[0], state, platform=platform)
    assert len(found) > 20
    assert [line for line in found if not is_full(line)] == []


@pytest.mark.parametrize("platform", PLATFORMS)
def test_products_of_acting_and_storing(agent, platform):
    program, state = agent
    programs = program.programs
    _, action = jax.eval_shape(programs.act, state)
    step = jax.eval_shape(lambda: program.on_device(program._zero_step()))
    for one, arguments in ((programs.act, (state,)), (programs.store, (state, action, step))):
        found = products(one, *arguments, platform=platform)
        assert len(found) >= 3
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
