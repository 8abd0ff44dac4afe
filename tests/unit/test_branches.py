"""`of_platform`: one branch is traced where the platform is known, and it is the right one."""

import re
from collections import Counter

import jax
import jax.numpy as jnp
import pytest

from re3_jax import compilation, knn
from re3_jax.cpu.branches import of_platform, tracing_for
from re3_jax.replay import latent_ring


@pytest.mark.parametrize(
    ("platform", "names", "wanted"),
    [
        ("cpu", "cpu tpu", ["cpu"]),
        ("tpu", "cpu tpu", ["tpu"]),
        ("tpu", "cpu", ["default"]),
        # A GPU is CUDA's or ROCm's: which, the lowering knows.
        ("gpu", "cpu", ["default"]),
        ("gpu", "cuda", ["cuda", "default"]),
        (None, "cpu tpu", ["cpu", "tpu", "default"]),
    ],
)
def test_the_branches_that_are_traced(platform, names, wanted):
    seen = []

    def branch(name):
        return lambda x: seen.append(name) or x + 1

    branches = {name: branch(name) for name in (*names.split(), "default")}
    with tracing_for(platform):
        jax.make_jaxpr(lambda x: of_platform(x, **branches))(1.0)
    assert seen == wanted


def recording(seen):
    """A function with a branch of its own on each platform."""

    def function(x):
        cpu, tpu, other = (lambda x, n=n: seen.append(n) or x for n in ("cpu", "tpu", "other"))
        return of_platform(x, cpu=cpu, tpu=tpu, default=other)

    return function


def test_a_compiled_function_is_traced_for_its_platform():
    for platform, wanted in {"cpu": ["cpu"], "tpu": ["tpu"], None: [jax.default_backend()]}.items():
        seen = []
        compilation.jit(recording(seen), platform=platform).eval_shape(1.0)
        assert [name if name != "other" else "gpu" for name in seen] == wanted
    # Outside of it, nothing is known.
    jax.jit(recording(seen)).eval_shape(1.0)
    assert seen[1:] == ["cpu", "tpu", "other"]


def test_a_trace_is_not_used_for_another_platform():
    in_jit, in_scan = [], []
    shared = jax.jit(recording(in_jit))

    def scan_body(carry, x):
        return carry, recording(in_scan)(x)

    def function(x):
        return shared(x), jax.lax.scan(scan_body, x, jnp.ones(3))

    for platform in ("cpu", "tpu"):
        compilation.jit(function, platform=platform).eval_shape(1.0)
    assert (in_jit, set(in_scan)) == (["cpu", "tpu"], {"cpu", "tpu"})


def test_a_search_is_lowered_as_without_the_knowledge():
    ring, _ = jax.vmap(latent_ring.add)(
        jax.vmap(lambda _: latent_ring.init(capacity=64, latent_dim=4))(jnp.arange(3)),
        jax.random.normal(jax.random.key(0), (3, 8, 4)),
    )

    def search(queries, ring):
        return knn.nearest_distances(queries, ring, k=3)

    def operations(jit, name):
        lowered = jit(jax.vmap(search)).trace(ring.latents[:, :8], ring)
        text = lowered.lower(lowering_platforms=(name,)).as_text()
        return Counter(re.findall(r"stablehlo\.(while|dot_general|gather|dynamic_slice)\b", text))

    def known(platform):
        return lambda function: compilation.jit(function, platform=platform)

    cpu, tpu = operations(known("cpu"), "cpu"), operations(known("tpu"), "tpu")
    # A CPU searches one ring after the other.
    assert cpu["while"] == tpu["while"] + 1
    assert cpu == operations(jax.jit, "cpu") and tpu == operations(jax.jit, "tpu")
