"""Independent seeds as one program: `vmap` within a device, `shard_map` over devices."""

from collections.abc import Callable, Sequence
from typing import Any, NotRequired, TypedDict

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from re3_jax.cpu import compilation

SEED_AXIS = "seed"


class OverSeeds:
    """Compiles functions of one seed for all seeds of a run.

    Attributes:
      sharding: of every array, whose leading axis is `seed`.
    """

    def __init__(self, devices: Sequence[jax.Device] | None = None, deterministic: bool = False):
        """Spreads seeds over `devices`, whose number divides theirs; over one by default.

        `deterministic` as in `ProgramOptions`.
        """
        self._deterministic = deterministic
        self._mesh = Mesh(devices or jax.local_devices()[:1], (SEED_AXIS,))
        self.sharding = NamedSharding(self._mesh, PartitionSpec(SEED_AXIS))

    def compile(
        self, function: Callable[..., Any], donate: int | Sequence[int] = ()
    ) -> jax.stages.Wrapped:
        """The program of `function`, to which the arguments `donate` are donated."""
        # Explicit on both sides: a state that comes back from training must look to the compiler
        # like the one that was made, or the second chunk would compile anew.
        return compilation.jit(
            map_over_seeds(function, self._mesh),
            platform=self._mesh.devices.flat[0].platform,
            deterministic=self._deterministic,
            in_shardings=self.sharding,
            out_shardings=self.sharding,
            donate_argnums=donate,
        )


def map_over_seeds(function: Callable[..., Any], mesh: Mesh) -> Callable[..., Any]:
    """Maps `function` over the leading axis of all its arguments and results.

    A device that holds a single seed runs `function` itself: what `vmap` would batch over one
    element (a convolution with its weights above all) is compiled as it stands.
    """

    def mapped(*arguments: Any) -> Any:
        if jax.tree.leaves(arguments)[0].shape[0] > 1:
            return jax.vmap(function)(*arguments)
        # Reshapes, where indexing would copy: a replay may be half of the memory.
        result = function(*jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[1:]), arguments))
        return jax.tree.map(lambda leaf: jnp.reshape(leaf, (1, *jnp.shape(leaf))), result)

    if mesh.size == 1:
        return mapped
    spec = PartitionSpec(SEED_AXIS)
    return jax.shard_map(mapped, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)


def with_sharding(shapes: Any, sharding: NamedSharding) -> Any:
    """Shapes and dtypes of a state, to restore it into without ever allocating another."""
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), shapes
    )


class ProgramOptions(TypedDict):
    """What every program is asked for.

    Attributes:
      eval_episodes: episodes per evaluation and seed.
      eval_greedy: evaluate the mode of the policy; otherwise it explores.
      devices: devices to spread the seeds over; the number of seeds must be a multiple of
        theirs. One device by default.
      deterministic: whether a GPU must give the same numbers each time, at some cost in speed.
    """

    eval_episodes: int
    eval_greedy: bool
    devices: NotRequired[Sequence[jax.Device] | None]
    deterministic: NotRequired[bool]
