"""`lax.platform_dependent`, of which one branch is traced where the platform decides for it.

Reason: JAX traces all branches and drops the others when it lowers. Under `vmap` over seeds these
branches contain others, and a program of PPO with RE3 traced its k-NN 27 times, of which a CPU
uses three. (Before and after, with flat random arrays: `benchmarks/results/start_pairs.json`.)

Remove when: JAX traces one branch in a function that it compiles for one platform.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax

NAMES = {"cpu": ("cpu",), "tpu": ("tpu",), "gpu": ("cuda", "rocm")}
"""Platform of a device -> its names in a lowering; a `gpu` has either of two."""

tracing_for = jax.make_user_context(None)
"""`with tracing_for(platform)`: the devices' platform that `of_platform` is traced for within.

JAX keeps the traces of different platforms apart. None if the platform is not known.
"""


def of_platform(*arguments: Any, default: Callable[..., Any], **of_name: Callable[..., Any]) -> Any:
    """`lax.platform_dependent`, for a known platform without the other branches.

    Then nothing checks that the branches have results of the same shapes and dtypes.

    Args:
      arguments: of the branch.
      default: the branch of the platforms that `of_name` does not name.
      of_name: branches by the name of the platform in the lowering, such as `cpu` or `cuda`.
    """
    names = NAMES.get(tracing_for.value or "", ())
    branches = [of_name.get(name, default) for name in names]
    if branches and all(branch is branches[0] for branch in branches):
        return branches[0](*arguments)
    return lax.platform_dependent(*arguments, default=default, **of_name)
