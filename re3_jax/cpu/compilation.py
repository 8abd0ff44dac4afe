"""How programs are compiled: float32 products everywhere, convolutions on all cores of a CPU.

Products: where the hardware allows it, JAX rounds the operands of float32 products, to
TensorFloat-32 (10 bits of mantissa instead of 23) on a GPU and to bfloat16 on a TPU. `jit` asks for
float32, so that a result does not depend on the backend beyond rounding. JAX's own setting
overrides it: with JAX_DEFAULT_MATMUL_PRECISION=tensorfloat32 in the environment a GPU is faster.

Convolutions: jaxlib 0.10.2 passes convolutions on a CPU to YNNPACK, which runs them on one core, at
a quarter of the rate of a matrix product on two cores. Eigen runs them near that rate
(`benchmarks/results/conv.json`). The option applies to a whole program, so a function within a
program cannot set it.

Remove the option when: `jax.jit` without it runs the convolutions of `benchmarks.conv` as fast.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import jax

CONVOLUTIONS_ON_ALL_CORES = {
    "xla_cpu_experimental_ynn_fusion_type": (
        "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"
    )
}
"""The operations that jaxlib 0.10.2 passes to YNNPACK by default, without the convolutions."""

PRECISION = "highest"
"""Of products, unless JAX is configured otherwise; JAX's name for that of their operands."""


def jit(
    function: Callable[..., Any], *, platform: str | None = None, **keywords: Any
) -> jax.stages.Wrapped:
    """`jax.jit` with `options()` and products of full precision.

    Args:
      function: the function to compile. JAX rejects compiler options inside another compiled
        function.
      platform: of the devices that it is compiled for; by default the default backend.
      keywords: those of `jax.jit`, other than `compiler_options`.
    """

    @wraps(function)
    def traced(*arguments: Any, **named: Any) -> Any:
        configured = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
        with jax.default_matmul_precision(configured or PRECISION):
            return function(*arguments, **named)

    return jax.jit(traced, compiler_options=options(platform), **keywords)


@cache
def options(platform: str | None = None) -> dict[str, str] | None:
    """`compiler_options` for a program with convolutions.

    Args:
      platform: of the devices that it is compiled for; by default the default backend.

    Returns:
      `CONVOLUTIONS_ON_ALL_CORES`; None if the platform is not a CPU, or if XLA does not know the
      option.
    """
    if (platform or jax.default_backend()) != "cpu":
        return None
    try:
        jax.jit(lambda x: x, compiler_options=CONVOLUTIONS_ON_ALL_CORES).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return None
    return CONVOLUTIONS_ON_ALL_CORES
