"""Independent seeds as one program: `vmap` within a device, `shard_map` over devices.

A device holds whole seeds, except where the ring of a seed is divided among several
(`replay.sharded_ring`), or the batch of an update (`batch_split`). These hold a slice of the ring's
rows, and compute the gradients of a share of the batch, each; all else of the seed they hold and
compute alike.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NotRequired, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from re3_jax import batch_split, compilation
from re3_jax.cpu.branches import tracing_for
from re3_jax.replay.sharded_ring import AXIS, ROW_AXES, ShardedRing
from re3_jax.training import layouts

SEED_AXIS = "seed"
BY_SEED = PartitionSpec(SEED_AXIS)


class OverSeeds:
    """Compiles functions of one seed for all seeds of a run.

    Attributes:
      sharding: of every array but the rows of sharded rings; its leading axis is `seed`.
    """

    def __init__(
        self,
        devices: Sequence[jax.Device] | None = None,
        deterministic: bool = False,
        ring_shards: int = 1,
        batch_shards: int = 1,
    ):
        """Spreads seeds over `devices`, by default over one.

        Args:
          devices: `ring_shards * batch_shards` follow each other for each share of the seeds; the
            number of shares divides that of the seeds.
          deterministic: as in `ProgramOptions`.
          ring_shards: as in `ProgramOptions`.
          batch_shards: as in `ProgramOptions`.
        """
        # Devices that hold the same seed must not drift apart.
        self._deterministic = deterministic or ring_shards * batch_shards > 1
        grid = np.reshape(devices or jax.local_devices()[:1], (-1, ring_shards, batch_shards))
        self._mesh = Mesh(grid, (SEED_AXIS, AXIS, batch_split.AXIS))
        self.sharding = NamedSharding(self._mesh, BY_SEED)

    @classmethod
    def of(cls, options: "ProgramOptions") -> "OverSeeds":
        """Makes an `OverSeeds` with the devices, shards and determinism of a program's options."""
        shards = options.get("ring_shards", 1), options.get("batch_shards", 1)
        return cls(options.get("devices"), options.get("deterministic", False), *shards)

    def compile(self, function: Callable[..., Any], donate: int | Sequence[int] = ()) -> Any:
        """The program of `function`, as `jax.jit`'s; the arguments `donate` are donated to it."""

        def jitted(mapped: Callable[..., Any], before: Any, after: Any) -> jax.stages.Wrapped:
            # Explicit on both sides: a state that comes back from training must look to the
            # compiler like the one that was made, or the second chunk would compile anew.
            return compilation.jit(
                mapped,
                platform=self._platform,
                deterministic=self._deterministic,
                in_shardings=before,
                out_shardings=after,
                donate_argnums=donate,
            )

        if self._mesh.shape[AXIS] == 1 and self._platform not in layouts.PLATFORMS:
            return jitted(map_over_seeds(function, self._mesh), self.sharding, self.sharding)

        def for_arguments(arguments: tuple[Any, ...]) -> jax.stages.Wrapped:
            before = specs_of(arguments)
            with tracing_for(self._platform):
                results = jax.eval_shape(map_over_seeds(function, self._mesh, before), *arguments)
            mapped = map_over_seeds(function, self._mesh, before, specs_of(results))
            return jitted(mapped, self._formats(arguments), self._formats(results))

        return _OnFirstUse(for_arguments)

    def with_shardings(self, shapes: Any) -> Any:
        """Shapes and dtypes of a state, to restore it into without ever allocating another."""
        return jax.tree.map(
            lambda leaf, there: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=there),
            shapes,
            self._formats(shapes),
        )

    @property
    def _platform(self) -> str:
        return self._mesh.devices.flat[0].platform

    def _formats(self, tree: Any) -> Any:
        """Where each array is, and in which order of its axes."""
        shardings = jax.tree.map(partial(NamedSharding, self._mesh), specs_of(tree))
        return jax.tree.map(layouts.format_of, tree, shardings)


class _OnFirstUse:
    """A program that is made for the types of its first arguments, as `jax.jit`'s otherwise."""

    def __init__(self, make: Callable[[tuple[Any, ...]], jax.stages.Wrapped]):
        self._make = make
        self._made: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return self._for(arguments)(*arguments)

    def lower(self, *arguments: Any) -> jax.stages.Lowered:
        return self._for(arguments).lower(*arguments)

    def eval_shape(self, *arguments: Any) -> Any:
        return self._for(arguments).eval_shape(*arguments)

    def _for(self, arguments: tuple[Any, ...]) -> Any:
        if self._made is None:
            self._made = self._make(arguments)
        return self._made


def map_over_seeds(
    function: Callable[..., Any], mesh: Mesh, in_specs: Any = BY_SEED, out_specs: Any = BY_SEED
) -> Callable[..., Any]:
    """Maps `function` over the leading axis of all its arguments and results.

    A device that holds a single seed runs `function` itself: what `vmap` would batch over one
    element (a convolution with its weights above all) is compiled as it stands.

    Args:
      function: of one seed.
      mesh: has the axis `seed`.
      in_specs: how the arguments are divided: `specs_of` them, if one has a sharded ring.
      out_specs: the same of the results.
    """

    def mapped(*arguments: Any) -> Any:
        if jax.tree.leaves(arguments)[0].shape[0] > 1:
            return jax.vmap(function)(*arguments)
        # Reshapes, where indexing would copy: a replay may be half of the memory.
        result = function(*jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[1:]), arguments))
        return jax.tree.map(lambda leaf: jnp.reshape(leaf, (1, *jnp.shape(leaf))), result)

    if mesh.size == 1:
        return mapped
    by_hand = set(mesh.axis_names)
    if mesh.shape.get(batch_split.AXIS, 1) > 1:
        # XLA's to divide, where `batch_split` says so. An axis of one device would round otherwise.
        by_hand.remove(batch_split.AXIS)
    return jax.shard_map(
        mapped,
        mesh=mesh,
        in_specs=in_specs,
        out_specs=out_specs,
        axis_names=by_hand,
        check_vma=False,
    )


def specs_of(tree: Any) -> Any:
    """How arrays with a leading axis `seed` are divided: over seeds, rows of sharded rings too."""

    def of_rows(leaf: Any, axis: int | None) -> PartitionSpec:
        if axis is None:
            return BY_SEED
        before = (None,) * (leaf.ndim + axis - 1)
        return PartitionSpec(SEED_AXIS, *before, AXIS)

    def of(node: Any) -> Any:
        if not isinstance(node, ShardedRing):
            return BY_SEED
        specs: Any = map(of_rows, node, ROW_AXES)
        return ShardedRing(*specs)

    return jax.tree.map(of, tree, is_leaf=lambda node: isinstance(node, ShardedRing))


class ProgramOptions(TypedDict):
    """Options of every training program.

    Attributes:
      eval_episodes: episodes per evaluation and seed.
      eval_greedy: evaluate the mode of the policy; otherwise it explores.
      devices: devices to spread the seeds over; the number of seeds times `ring_shards` and
        `batch_shards` must be a multiple of theirs. One device by default.
      deterministic: whether a GPU must give the same numbers each time, at some cost in speed.
      ring_shards: devices among which the ring of each seed is divided, as in `RE3Config`.
      batch_shards: devices among which each batch is divided, as in `SACConfig`.
    """

    eval_episodes: int
    eval_greedy: bool
    devices: NotRequired[Sequence[jax.Device] | None]
    deterministic: NotRequired[bool]
    ring_shards: NotRequired[int]
    batch_shards: NotRequired[int]
