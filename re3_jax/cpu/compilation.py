"""A compiler option that keeps convolutions on all cores of a CPU.

Reason: jaxlib 0.10.2 passes convolutions on a CPU to YNNPACK, which runs them on one core, at a
quarter of the rate of a matrix product on two cores. Eigen runs them near that rate
(`benchmarks/results/conv.json`). The option applies to a whole program, so a function within a
program cannot set it.

Remove when: `jax.jit` without the option runs the convolutions of `benchmarks.conv` as fast.
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
"""The operations that jaxlib 0.10.2 passes to YNNPACK by default, without the convolutions."""


def jit(function: Callable[..., Any], **keywords: Any) -> jax.stages.Wrapped:
    """`jax.jit` with `options()`.

    Args:
      function: the function to compile. JAX rejects compiler options inside another compiled
        function.
      keywords: those of `jax.jit`, other than `compiler_options`.
    """
    return jax.jit(function, compiler_options=options(), **keywords)


@cache
def options() -> dict[str, str] | None:
    """`compiler_options` for a program with convolutions.

    Returns:
      `CONVOLUTIONS_ON_ALL_CORES`; None if the default backend is not a CPU, or if XLA does not know
      the option.
    """
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda x: x, compiler_options=CONVOLUTIONS_ON_ALL_CORES).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return None
    return CONVOLUTIONS_ON_ALL_CORES
