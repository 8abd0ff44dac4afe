"""The profile's table: the time of an instruction counts for the named scope it came from."""

import jax
import jax.numpy as jnp
import pytest

from re3_jax.commands.attribution import OTHER, milliseconds_by_scope, scope_of_instructions

SCOPES = ("light", "heavy")


def step(carry, _):
    weights, x = carry
    with jax.named_scope("light"):
        x = jnp.tanh(x[:8] * 1.5)
    with jax.named_scope("heavy"):
        gradient = jax.grad(lambda w: jnp.sum(jnp.tanh(w @ w.T)))(weights)
    return (weights + 1e-6 * gradient, x), x.sum()


@jax.jit
def program(weights, x):
    return jax.vmap(lambda w: jax.lax.scan(step, (w, x), length=20))(weights)


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    arguments = jnp.full((2, 256, 256), 1e-3), jnp.ones((8, 4))
    # Otherwise a program from the cache may have the scopes of an earlier version of this file.
    option = "jax_compilation_cache_include_metadata_in_key"
    before = getattr(jax.config, option)
    jax.config.update(option, True)
    compiled = program.lower(*arguments).compile()
    jax.config.update(option, before)
    jax.block_until_ready(compiled(*arguments))
    folder = tmp_path_factory.mktemp("trace")
    with jax.profiler.trace(str(folder)):
        jax.block_until_ready(compiled(*arguments))
    return folder, compiled.as_text()


def test_time_goes_to_the_scope_that_took_it(traced):
    folder, hlo_text = traced
    parts = milliseconds_by_scope(folder, hlo_text, SCOPES)
    assert set(parts) == {*SCOPES, OTHER}
    assert parts["heavy"] > parts["light"] > 0
    assert parts["heavy"] > parts[OTHER]


def test_without_a_scope_everything_is_other(traced):
    folder, hlo_text = traced
    parts = milliseconds_by_scope(folder, hlo_text, ["absent"])
    assert parts["absent"] == 0.0
    assert parts[OTHER] > 0.0


def test_a_trace_of_another_program_is_refused(traced):
    folder, _ = traced
    other = jax.jit(lambda x: x + 1).lower(jnp.ones(3)).compile().as_text()
    with pytest.raises(ValueError, match="no instruction of this program"):
        milliseconds_by_scope(folder, other, SCOPES)


def test_instructions_are_assigned_to_scopes():
    hlo_text = """HloModule jit_f

%fused (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %inner = f32[4]{0} tanh(%p), metadata={op_name="jit(f)/vmap(light)/tanh"}
}

ENTRY %main (x: f32[4], y: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %y = f32[4]{0} parameter(1)
  %own = f32[4]{0} add(%x, %y), metadata={op_name="jit(f)/light/transpose(jvp(heavy))/add"}
  %fusion = f32[4]{0} fusion(%y), kind=kLoop, calls=%fused
  %moved = f32[4]{0} copy(%own)
  %moved_again = f32[4]{0} copy(%moved)
  %alone = f32[4]{0} copy(%x)
  %loop = f32[4]{0} while(%moved_again), metadata={op_name="jit(f)/heavy/while"}
}
"""
    assert scope_of_instructions(hlo_text, SCOPES) == {
        "inner": "light",
        "own": "heavy",
        "fusion": "light",
        "moved": "heavy",
        "moved_again": "heavy",
        "alone": OTHER,
    }
