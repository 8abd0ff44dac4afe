"""A compiler option that keeps convolutions on all cores of a CPU.

Reason: jaxlib 0.10.2 hands the convolutions of a CPU to YNNPACK, which runs them on one core, at a
quarter of the rate of a matrix product on two cores. Eigen runs them near that rate
(`benchmarks/results/conv.json`). The option belongs to a program, so it cannot be set in a
function that is part of one.

Can go when: `jax.jit` without the option runs the convolutions of `benchmarks.conv` as fast.
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
"""What jaxlib 0.10.2 has YNNPACK do by default, without the convolutions."""


def jit(function: Callable[..., Any], **keywords: Any) -> jax.stages.Wrapped:
    """`jax.jit` with `options()`.

    Args:
      function: what is compiled. JAX refuses compiler options inside another compiled function.
      keywords: those of `jax.jit`, other than `compiler_options`.
    """
    return jax.jit(function, compiler_options=options(), **keywords)


@cache
def options() -> dict[str, str] | None:
    """`compiler_options` of a program with convolutions.

    Returns:
      `CONVOLUTIONS_ON_ALL_CORES`; None where the default backend is no CPU, or where XLA does not
      know the option.
    """
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda x: x, compiler_options=CONVOLUTIONS_ON_ALL_CORES).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return None
    return CONVOLUTIONS_ON_ALL_CORES
