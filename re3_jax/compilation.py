"""How programs are compiled.

In jaxlib 0.10 a CPU hands convolutions to YNNPACK, which runs them on one core, at a quarter of the
rate of a matrix product on two. Left to Eigen they come near that rate
(`benchmarks/results/conv.json`). XLA takes that choice from an option of the compiler, which
belongs to a program and not to a function that is part of one.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax

CONVOLUTIONS_ON_ALL_CORES = {
    "xla_cpu_experimental_ynn_fusion_type": (
        "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"
    )
}
"""What jaxlib 0.10 has YNNPACK do by default, less the convolutions."""


def jit(function: Callable[..., Any], **keywords: Any) -> jax.stages.Wrapped:
    """`jax.jit` with `options()`; not to be called from within another."""
    return jax.jit(function, compiler_options=options(), **keywords)


@cache
def options() -> dict[str, str] | None:
    """`compiler_options` for a program with convolutions; None where it needs or knows none."""
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda x: x, compiler_options=CONVOLUTIONS_ON_ALL_CORES).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return None
    return CONVOLUTIONS_ON_ALL_CORES
