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

        def one_by_one(*arguments):
            of_axis = [x for x, is_batched in zip(arguments, batched, strict=True) if is_batched]

            def body(slices):
                rest = iter(slices)
                pairs = zip(arguments, batched, strict=True)
                return run(*(next(rest) if is_batched else x for x, is_batched in pairs))

            return lax.map(body, of_axis)

        in_axes = [0 if is_batched else None for is_batched in batched]
        all_at_once = jax.vmap(elsewhere, in_axes=in_axes)
        ways = {"cpu": one_by_one, "default": all_at_once}
        ways |= {name: jax.vmap(way, in_axes=in_axes) for name, way in tpu.items()}
        if mapped_on_gpu is not None:
            on_gpu = jax.vmap(mapped_on_gpu, in_axes=in_axes)
            ways |= {"cuda": on_gpu, "rocm": on_gpu}
        return of_platform(first, second, **ways), True

    return run


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
        leaves, tree = jax.tree.flatten(arguments)
        is_mapped = jax.tree.leaves(batched)

        def one_by_one(*leaves):
            def body(slices):
                rest = iter(slices)
                pairs = zip(leaves, is_mapped, strict=True)
                own = [next(rest) if mapped else leaf for leaf, mapped in pairs]
                return function(*jax.tree.unflatten(tree, own))

            return lax.map(body, [x for x, m in zip(leaves, is_mapped, strict=True) if m])

        def all_at_once(*leaves):
            axes = jax.tree.unflatten(tree, [0 if mapped else None for mapped in is_mapped])
            return jax.vmap(function, in_axes=axes)(*jax.tree.unflatten(tree, leaves))

        out = of_platform(*leaves, cpu=one_by_one, default=all_at_once)
        return out, jax.tree.map(lambda _: True, out)

    return run
