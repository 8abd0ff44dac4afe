"""One function for a CPU, another for accelerators, and a `vmap` that loops on a CPU.

Reason: `vmap` over seeds turns several convolutions into one grouped convolution, which
jaxlib 0.10.2 runs many times slower on a CPU than the same convolutions one after the other. It
also turns their products into batched products, which are slower than each alone (`in_turn`).

Remove when: `benchmarks.conv` shows a vmapped convolution on a CPU as fast as those of its seeds
one after the other; and `in_turn` when `python -m benchmarks.a2c --agent ppo` is as fast per seed
with several seeds on a core as with one without it.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jaxtyping import Array, Shaped

from re3_jax.cpu.branches import of_platform

OfTwoArrays = Callable[[Shaped[Array, "..."], Shaped[Array, "..."]], Shaped[Array, "..."]]


def by_platform(
    on_cpu: OfTwoArrays,
    elsewhere: OfTwoArrays,
    mapped_on_gpu: OfTwoArrays | None = None,
    on_tpu: OfTwoArrays | None = None,
) -> OfTwoArrays:
    """A function of two arrays that runs `on_cpu` on a CPU and `elsewhere` on other backends.

    Under `vmap` a CPU computes the elements of the mapped axis one after the other; other backends
    compute `vmap` of theirs, a GPU `vmap(mapped_on_gpu)`.

    The function has rules of its own, and outside `jit` each such function is compiled. What calls
    this for each pair of arrays is therefore a `jit(inline=True)`.

    Args:
      on_cpu: function for CPUs; its result has the shapes and dtypes of `elsewhere`'s.
      elsewhere: function for GPUs and TPUs.
      mapped_on_gpu: the same as `elsewhere`, which it is by default, but faster there under `vmap`.
      on_tpu: the same as `elsewhere`, which it is by default, but faster on a TPU.
    """
    tpu = {} if on_tpu is None else {"tpu": on_tpu}

    @jax.custom_batching.custom_vmap
    def run(first, second):
        return of_platform(first, second, cpu=on_cpu, default=elsewhere, **tpu)

    @run.def_vmap
    def _(axis_size, batched, first, second):
        del axis_size

        one_by_one = mapped_one_by_one(run, batched)
        in_axes = [0 if is_batched else None for is_batched in batched]
        all_at_once = jax.vmap(elsewhere, in_axes=in_axes)
        ways = {"cpu": one_by_one, "default": all_at_once}
        ways |= {name: jax.vmap(way, in_axes=in_axes) for name, way in tpu.items()}
        if mapped_on_gpu is not None:
            on_gpu = jax.vmap(mapped_on_gpu, in_axes=in_axes)
            ways |= {"cuda": on_gpu, "rocm": on_gpu}
        return of_platform(first, second, **ways), True

    return run


def mapped_one_by_one(function: Callable[..., Any], batched: Any) -> Callable[..., Any]:
    """`vmap(function)` as a loop over the mapped axis.

    Args:
      function: of pytrees of arrays.
      batched: which arrays have the axis, a tuple of pytrees like the arguments: what a rule of
        `custom_vmap` is given.
    """
    flags = jax.tree.leaves(batched)

    def one_by_one(*arguments):
        leaves, tree = jax.tree.flatten(arguments)

        def body(slices):
            rest = iter(slices)
            pairs = zip(leaves, flags, strict=True)
            own = [next(rest) if is_batched else leaf for leaf, is_batched in pairs]
            return function(*jax.tree.unflatten(tree, own))

        return lax.map(body, [leaf for leaf, has in zip(leaves, flags, strict=True) if has])

    return one_by_one


def in_turn(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, of which a CPU computes the elements of a mapped axis one after the other.

    Under `vmap` the products of all elements become one batched product, which a CPU runs more
    slowly than each alone; one element at a time also stays in its caches. Other backends compute
    `vmap(function)`.

    Args:
      function: of pytrees of arrays; it closes over no traced value and is not differentiated.
    """

    @jax.custom_batching.custom_vmap
    def run(*arguments):
        return function(*arguments)

    @run.def_vmap
    def _(axis_size, batched, *arguments):
        del axis_size
        all_at_once = jax.vmap(function, in_axes=jax.tree.map(lambda m: 0 if m else None, batched))
        one_by_one = mapped_one_by_one(function, batched)
        out = of_platform(*arguments, cpu=one_by_one, default=all_at_once)
        return out, jax.tree.map(lambda _: True, out)

    return run
