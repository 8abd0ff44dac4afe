"""How programs are compiled: float32 products, a CPU's convolutions on all cores, determinism.

Products: where the hardware allows it, JAX rounds the operands of float32 products, to
TensorFloat-32 (10 bits of mantissa instead of 23) on a GPU and to bfloat16 on a TPU. `jit` asks for
float32, so that a result does not depend on the backend beyond rounding. JAX's own setting
overrides it: with JAX_DEFAULT_MATMUL_PRECISION=tensorfloat32 in the environment a GPU is faster.

Convolutions: jaxlib 0.10.2 passes convolutions on a CPU to YNNPACK, which runs them on one core, at
a quarter of the rate of a matrix product on two cores. Eigen runs them near that rate
(`benchmarks/results/conv.json`). The option applies to a whole program, so a function within a
program cannot set it.

Determinism: a GPU adds floats that meet in a scatter in any order, and some algorithms of cuDNN do
so inside. XLA's option replaces both, in the programs that are compiled with it. A CPU gives the
same numbers each time without one.

Remove the option for convolutions when: `jax.jit` without it runs those of `benchmarks.conv` as
fast.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import jax

from re3_jax.cpu.branches import tracing_for

Options = dict[str, str | bool]
"""XLA's options, as `jax.jit` takes them."""

CONVOLUTIONS_ON_ALL_CORES: Options = {
    "xla_cpu_experimental_ynn_fusion_type": (
        "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"
    )
}
"""The operations that jaxlib 0.10.2 passes to YNNPACK by default, without the convolutions."""

DETERMINISTIC: Options = {"xla_gpu_exclude_nondeterministic_ops": True}
"""Keeps a GPU from operations that do not give the same numbers each time.

The older `xla_gpu_deterministic_ops` does the same in jaxlib 0.10.2.
"""

PRECISION = "highest"
"""Precision of products, unless JAX is configured otherwise: JAX's name for float32 operands."""


def jit(
    function: Callable[..., Any],
    *,
    platform: str | None = None,
    deterministic: bool = False,
    **keywords: Any,
) -> jax.stages.Wrapped:
    """`jax.jit` with `options()` and products of full precision.

    Args:
      function: the function to compile. JAX rejects compiler options inside another compiled
        function.
      platform: of the devices that it is compiled for; by default the default backend.
      deterministic: whether a GPU must give the same numbers each time.
      keywords: those of `jax.jit`, other than `compiler_options`.
    """

    @wraps(function)
    def traced(*arguments: Any, **named: Any) -> Any:
        configured = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
        precision = jax.default_matmul_precision(configured or PRECISION)
        with precision, tracing_for(platform or jax.default_backend()):
            return function(*arguments, **named)

    return jax.jit(traced, compiler_options=options(platform, deterministic), **keywords)


@cache
def options(platform: str | None = None, deterministic: bool = False) -> Options | None:
    """`compiler_options` for a program with convolutions.

    Args:
      platform: of the devices that it is compiled for; by default the default backend.
      deterministic: whether a GPU must give the same numbers each time.

    Returns:
      `CONVOLUTIONS_ON_ALL_CORES` on a CPU, if XLA knows the option; `DETERMINISTIC` on a GPU, if
      it is asked for; otherwise None.
    """
    platform = platform or jax.default_backend()
    if platform == "gpu" and deterministic:
        return DETERMINISTIC
    if platform != "cpu":
        return None
    try:
        jax.jit(lambda x: x, compiler_options=CONVOLUTIONS_ON_ALL_CORES).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return None
    return CONVOLUTIONS_ON_ALL_CORES
