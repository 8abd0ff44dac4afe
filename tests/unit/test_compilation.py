"""The compiler options that a program gets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import compilation
from re3_jax.training.device_program import DeviceProgram


@pytest.fixture(autouse=True)
def fresh_options():
    options = compilation.options
    options.cache_clear()
    yield
    options.cache_clear()


def test_options_leave_products_as_they_are():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(40, 30)), jnp.float32)

    def gram(x):
        return x @ x.T

    np.testing.assert_array_equal(compilation.jit(gram)(x), jax.jit(gram)(x))


def test_programs_are_compiled_with_the_options(monkeypatch):
    """XLA refuses unknown options, which shows that it received them."""
    monkeypatch.setattr(compilation, "options", lambda *asked: {"xla_no_such_option": "1"})
    program = DeviceProgram(
        None,
        None,
        init=jax.random.key_data,
        train=lambda state: (state, {}),
        eval_episodes=1,
        eval_greedy=True,
        env_frames_per_chunk=1,
    )
    for compiled in (compilation.jit(jnp.sin), program.init):
        with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such_option"):
            compiled(jnp.arange(2))


def test_keywords_are_those_of_jax_jit():
    program = compilation.jit(lambda x, power: x**power, static_argnames="power")
    assert program(jnp.float32(3), power=2) == 9


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="they are a CPU's")
@pytest.mark.skipif(jax.__version_info__[:2] != (0, 10), reason="they are those of JAX 0.10")
def test_jax_0_10_knows_them():
    assert compilation.options() == compilation.CONVOLUTIONS_ON_ALL_CORES


def test_an_option_that_xla_does_not_know_is_left_out(monkeypatch):
    monkeypatch.setattr(compilation, "CONVOLUTIONS_ON_ALL_CORES", {"xla_no_such_option": "1"})
    assert compilation.options() is None
    assert compilation.jit(lambda x: x + 1)(1) == 2


def test_an_accelerator_gets_none(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert compilation.options() is None
