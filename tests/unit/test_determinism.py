"""On a GPU: no sum of floats in open order in any update, and none at all with the option."""

import dataclasses
import re
import warnings
from contextlib import nullcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import compilation
from re3_jax.accelerators import targets
from re3_jax.accelerators.hlo import parse as parse_program
from re3_jax.accelerators.targets import TARGETS
from re3_jax.agents.sac import learner as sac
from re3_jax.distributions import batched_index
from re3_jax.runs import build
from re3_jax.runs.options import parse
from re3_jax.training import seeds
from re3_jax.training.host_loop import HostProgram
from tests.probe_host_env import SIZE, spec
from tests.scatters import unordered_scatters
from tests.unit import test_no_copies as small

PROGRAM = """
HloModule m

%combine (a: {dtype}[], b: {dtype}[]) -> {dtype}[] {{
  %a = {dtype}[] parameter(0)
  %b = {dtype}[] parameter(1)
  ROOT %c = {dtype}[] {combined}
}}

%fused (x: {dtype}[9], i: s32[4,1], u: {dtype}[4]) -> {dtype}[9] {{
  %x = {dtype}[9]{{0}} parameter(0)
  %i = s32[4,1]{{1,0}} parameter(1)
  %u = {dtype}[4]{{0}} parameter(2)
  ROOT %s = {dtype}[9]{{0}} scatter(%x, %i, %u), index_vector_dim=1{unique}, to_apply=%combine
}}

ENTRY %main (x: {dtype}[9], i: s32[4,1], u: {dtype}[4]) -> {dtype}[9] {{
  %x = {dtype}[9]{{0}} parameter(0)
  %i = s32[4,1]{{1,0}} parameter(1)
  %u = {dtype}[4]{{0}} parameter(2)
  ROOT %f = {dtype}[9]{{0}} fusion(%x, %i, %u), kind=kInput, calls=%fused
}}
"""


@pytest.mark.parametrize(
    ("dtype", "combined", "is_unordered"),
    [
        ("f32", "add(%a, %b)", True),
        ("bf16", "add(%a, %b)", True),
        ("s32", "add(%a, %b)", False),
        ("f32", "maximum(%a, %b)", False),
        ("s32", "copy(%b)", True),
    ],
)
def test_a_scatter_is_unordered_where_rounding_or_the_last_one_matters(
    dtype, combined, is_unordered
):
    text = PROGRAM.format(dtype=dtype, combined=combined, unique="")
    assert [one.name for one in unordered_scatters(parse_program(text))] == ["s"] * is_unordered
    text = PROGRAM.format(dtype=dtype, combined=combined, unique=", unique_indices=true")
    assert unordered_scatters(parse_program(text)) == []


def sums_of_floats(text):
    """The scatters of a lowered program that add floats which may meet."""
    scatters = re.findall(r'"stablehlo\.scatter".*?\n\s*\}\) :', text, re.DOTALL)
    return [
        scatter
        for scatter in scatters
        if re.search(r"stablehlo\.add.* : tensor<f32>", scatter) and "indices = false" in scatter
    ]


def test_a_gradient_of_a_gather_is_found():
    def gather(x, i):
        return jnp.sum(jnp.sin(jnp.take_along_axis(x, i[:, None], axis=1)))

    shapes = jax.ShapeDtypeStruct((5, 4), jnp.float32), jax.ShapeDtypeStruct((5,), jnp.int32)
    assert len(sums_of_floats(jax.jit(jax.grad(gather)).lower(*shapes).as_text())) == 1


def on_policy_program(agent, devices=None, **options):
    words = ["--env", "doorkey_6x6", "--agent", agent, "--preset", "debug", "--seeds", "1"]
    config, _ = build.prepared(parse([*words, *(["--deterministic"] if options else [])]))
    return build.device_program(config, build.make_environment(config.env), devices)


def pixels(augmentation, **sizes):
    """RAD's crop or DrQ's shifts."""
    config = dataclasses.replace(small.SAC, augmentation=augmentation, **sizes)
    return sac.make_learner(config, spec(), small.re3(SIZE - 1))


HOST = {
    **small.HOST,
    "rad": partial(pixels, "crop", crop_size=SIZE - 1),
    "drq": partial(pixels, "shift", num_augmentations=2),
}


def host_program(agent, devices=None, **options):
    return HostProgram(
        HOST[agent](), lambda lanes: None, seeds=[1], chunk_agent_steps=1, eval_episodes=1,
        eval_greedy=True, devices=devices, **options,
    )  # fmt: skip


a2c_program = partial(on_policy_program, "a2c")
PROGRAMS = {
    "a2c": a2c_program,
    "ppo": partial(on_policy_program, "ppo"),
    **{agent: partial(host_program, agent) for agent in HOST},
}


SCATTERS = "a2c", "ppo", "rainbow"
"""Agents whose programs have unordered scatters without the option (docs/resume.md)."""


@pytest.mark.parametrize("agent", ["a2c", "ppo"])
def test_no_program_adds_floats_in_open_order(agent, monkeypatch):
    """`test_precision` asks the same of the programs of the host loop, which it lowers anyway."""
    # A program that is made for a CPU then holds a GPU's branches, too.
    monkeypatch.setattr(compilation, "tracing_for", lambda platform: nullcontext())
    program = PROGRAMS[agent]()
    traced = program.train.trace(program.abstract_state(1))
    assert sums_of_floats(traced.lower(lowering_platforms=("cuda",)).as_text()) == []


@pytest.mark.parametrize(
    "agent",
    [pytest.param(name, marks=pytest.mark.slow if name in HOST else ()) for name in PROGRAMS],
)
def test_with_the_option_no_scatter_is_unordered(agent):
    target = TARGETS["h100"]
    if (missing := targets.missing_compiler(target)) is not None:
        pytest.skip(f"no compiler for h100: {missing} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        devices = targets.devices(target)[:1]

    def unordered(**options):
        lowered = PROGRAMS[agent](devices, **options).lowered(1).values()
        programs = (parse_program(one.compile().as_text()) for one in lowered)
        return sum(len(unordered_scatters(program)) for program in programs)

    assert unordered(deterministic=True) == 0
    assert (unordered() > 0) == (agent in SCATTERS)


def test_a_gpu_alone_needs_the_option():
    assert compilation.options("gpu", True) == compilation.DETERMINISTIC
    assert compilation.options("gpu") is None
    assert compilation.options("tpu", True) is None
    assert compilation.options("cpu", True) == compilation.options("cpu")


def test_the_option_of_a_run_reaches_every_program(monkeypatch):
    asked = []

    def jit(function, *, platform, deterministic, **keywords):
        asked.append(deterministic)
        return jax.jit(function, **keywords)

    monkeypatch.setattr(seeds.compilation, "jit", jit)
    a2c_program()
    assert set(asked) == {False}
    asked.clear()
    a2c_program(deterministic=True)
    assert set(asked) == {True}


def test_values_of_actions_are_those_of_a_gather():
    rng = np.random.default_rng(0)
    values, action = rng.normal(size=(6, 5)).astype(np.float32), rng.integers(0, 5, 6)
    expected = values[np.arange(6), action]
    np.testing.assert_array_equal(batched_index(jnp.asarray(values), jnp.asarray(action)), expected)
    ours = jax.grad(lambda x: jnp.sum(jnp.sin(batched_index(x, action))))(jnp.asarray(values))
    by_hand = np.zeros_like(values)
    by_hand[np.arange(6), action] = np.cos(expected)
    np.testing.assert_allclose(ours, by_hand, rtol=1e-6)
    infinite = jnp.full((2, 5), -jnp.inf).at[:, 1].set(3.0)
    np.testing.assert_array_equal(batched_index(infinite, jnp.array([1, 1])), [3.0, 3.0])
