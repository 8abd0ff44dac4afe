"""`lax.platform_dependent`, of which only the branch in use is traced where the platform is known.

Reason: JAX traces all branches and drops the others when it lowers. Under `vmap` over seeds these
branches contain others, and a program of PPO with RE3 traced its k-NN 27 times, of which a CPU
uses three: 8 seconds of each start.

Remove when: JAX traces one branch in a function that it compiles for one platform.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jax import lax

NAMES = {"cpu": ("cpu",), "tpu": ("tpu",), "gpu": ("cuda", "rocm")}
"""Of the lowering, for each of a device's platforms; `gpu` is either of two."""

_platform: ContextVar[str | None] = ContextVar("platform", default=None)


@contextmanager
def tracing_for(platform: str | None) -> Iterator[None]:
    """Says for which devices `of_platform` is traced within; None if that is not known."""
    before = _platform.set(platform)
    try:
        yield
    finally:
        _platform.reset(before)


def of_platform(*arguments: Any, default: Callable[..., Any], **of_name: Callable[..., Any]) -> Any:
    """`lax.platform_dependent`, for a known platform without the other branches.

    Args:
      arguments: of the branch.
      default: the branch of the platforms that `of_name` does not name.
      of_name: branches by the name of the platform in the lowering, such as `cpu` or `cuda`.
    """
    names = NAMES.get(_platform.get() or "", ())
    branches = [of_name.get(name, default) for name in names]
    if branches and all(branch is branches[0] for branch in branches):
        return branches[0](*arguments)
    return lax.platform_dependent(*arguments, default=default, **of_name)
