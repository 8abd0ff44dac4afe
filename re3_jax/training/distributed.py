"""Several processes of one run, usually one on each host (io).

Seeds are independent, so every process trains its own share of them, and no program spans two
processes. They meet where the host acts: they exchange what it records and decides, and they write
one checkpoint, whose arrays are whole: a run may go on with another number of processes.
"""

import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding

Result = TypeVar("Result")

LAUNCHERS = {
    "SLURM_STEP_NUM_TASKS": "SLURM_PROCID",
    "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "RANK",
}
"""Variable with the number of processes -> variable with this one's: srun, mpirun, torchrun."""


class LostProcess(Exception):
    """Another process of the run ended or cannot be reached."""


class FailedElsewhere(Exception):
    """What only the first process does failed there; it says why."""


@dataclass(frozen=True)
class Processes:
    """The processes of a run, each with the same number of devices; by default this one alone."""

    index: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process is the first, which alone prints and writes tables."""
        return self.index == 0

    def exchange(self, value: Any) -> list[Any]:
        """The values of all processes; every one must call this.

        Raises:
          LostProcess: one of them does not.
        """
        if self.count == 1:
            return [value]
        data = np.frombuffer(pickle.dumps(value), np.uint8)
        try:
            sizes = multihost_utils.process_allgather(np.int32(data.size))
            # Few different sizes, because each is a program.
            padded = np.zeros(1 << int(sizes.max() - 1).bit_length(), np.uint8)
            padded[: data.size] = data
            rows = multihost_utils.process_allgather(padded)
        # JAX raises a ValueError where XLA's status is UNKNOWN: "Gloo AllGather failed".
        except (RuntimeError, ValueError) as error:
            raise LostProcess(
                f"another process of this run ended ({str(error).splitlines()[0][:80]}): "
                "start all of them again with --resume"
            ) from None
        return [pickle.loads(row[:size].tobytes()) for row, size in zip(rows, sizes, strict=True)]

    def join(self, tree: Any) -> Any:
        """Arrays [seed, ...] of this process's seeds -> NumPy arrays of all seeds."""
        parts = self.exchange(jax.device_get(tree))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def agreed(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """The result of `work` in this process; if it fails in one, it fails in all.

        Raises:
          ValueError: it failed in one of several processes; the sentence is the first one's. Alone,
            a process raises its own exception.
        """
        if self.count == 1:
            return work(*arguments)
        result, error = None, None
        try:
            result = work(*arguments)
        # Of any kind: the others wait for this process's answer.
        except Exception as raised:
            error = str(raised) or type(raised).__name__
        if errors := [one for one in self.exchange(error) if one is not None]:
            raise ValueError(errors[0])
        return result  # type: ignore[return-value]

    def from_first(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, which the first process alone does.

        Raises:
          FailedElsewhere: it failed; the first process raises its own exception.
        """
        result, error = None, None
        if self.is_first:
            try:
                result = work()
            # As in `agreed`.
            except Exception as raised:
                error = raised
        result, failed = self.exchange((result, error is not None))[0]
        if error is not None:
            raise error
        if failed:
            raise FailedElsewhere
        return result

    def share(self, seeds: int) -> int:
        """How many of so many seeds each process has.

        Raises:
          ValueError: they cannot be spread evenly.
        """
        if seeds % self.count:
            raise ValueError(
                f"--seeds {seeds} cannot be spread evenly over {self.count} processes: "
                f"give a multiple of {self.count}"
            )
        return seeds // self.count

    def whole(self, state: Any) -> Any:
        """A state, or a template, of this process's seeds -> of all; nothing is moved."""
        if self.count == 1:
            return state

        def of_leaf(leaf: Any) -> Any:
            shape = self.count * leaf.shape[0], *leaf.shape[1:]
            sharding = _over_all(leaf.sharding)
            if isinstance(leaf, jax.ShapeDtypeStruct):
                return jax.ShapeDtypeStruct(shape, leaf.dtype, sharding=sharding)
            return _of_shards(leaf, shape, sharding)

        return jax.tree.map(of_leaf, state)

    def part(self, whole: Any, template: Any) -> Any:
        """The inverse of `whole`, with the shapes and shardings of `template`."""
        if self.count == 1:
            return whole
        return jax.tree.map(
            lambda leaf, like: _of_shards(leaf, like.shape, like.sharding), whole, template
        )


ALONE = Processes()


def start(environment: Mapping[str, str] = os.environ) -> Processes:
    """Connects the processes that a launcher started; must come before any use of JAX's devices.

    Raises:
      ValueError: a launcher's variable is missing or no number, or the processes cannot be
        connected; the message has the remedy.
    """
    sizes = {name: _number(environment, name, 1) for name in LAUNCHERS}
    name = next((name for name, size in sizes.items() if size > 1), None)
    if name is None:
        return ALONE
    found = Processes(_number(environment, LAUNCHERS[name]), sizes[name])
    address, devices = None, None
    if name == "WORLD_SIZE":
        if not (host := environment.get("MASTER_ADDR")):
            raise ValueError(_not_launched(f"MASTER_ADDR is missing beside {name}"))
        # The port itself is the launcher's.
        address = f"{host}:{_number(environment, 'MASTER_PORT') + 1}"
        if _number(environment, "LOCAL_WORLD_SIZE", 1) > 1:
            devices = [_number(environment, "LOCAL_RANK")]
    try:
        jax.distributed.initialize(address, found.count, found.index, devices)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"the {found.count} processes that {name} counts cannot be connected ({error}): start "
            "each with one of the commands of docs/distributed.md, for torchrun with a free port"
        ) from None
    return found


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    """A launcher's variable; `default` if it is not set."""
    text = environment.get(name)
    if text is None and default is not None:
        return default
    try:
        return int(text or "")
    except ValueError:
        what = "is missing" if text is None else f"is {text!r}, not a number"
        raise ValueError(_not_launched(f"{name} {what}")) from None


def _not_launched(what: str) -> str:
    return (
        f"the variables of a launcher are incomplete ({what}): start every process with one of "
        f"the commands of docs/distributed.md, or unset {', '.join(LAUNCHERS)} to train alone"
    )


def _over_all(own: NamedSharding) -> NamedSharding:
    """The seeds of all processes over the first devices of each, as this one's over its `own`."""
    devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    used: dict[int, list[jax.Device]] = {}
    for device in devices:
        used.setdefault(device.process_index, []).append(device)
    chosen = [theirs[: own.mesh.size] for theirs in used.values()]
    grid = np.reshape(chosen, (-1, *own.mesh.devices.shape[1:]))
    return NamedSharding(Mesh(grid, own.mesh.axis_names), own.spec)


def _of_shards(leaf: jax.Array, shape: tuple[int, ...], sharding: NamedSharding) -> jax.Array:
    shards = [shard.data for shard in leaf.addressable_shards]
    return jax.make_array_from_single_device_arrays(shape, sharding, shards)
