"""The frames of a replay on disk, each written once however many checkpoints there are (io).

A hundred thousand 100x100 frames are 3 GB a seed: too much to write again for each checkpoint.
So a checkpoint adds one *segment*, a file with the frames since the checkpoint before it, and
lists the segments from which the ring of frames can be rebuilt. Rows that no transition needs
any more are rebuilt too, so what is read equals what was saved bit for bit. The row after the
newest frame may hold what belongs to nothing: it is written too, and is the next segment's first.

A segment is written under another name, synced and renamed; it is deleted when no checkpoint
on disk lists it. A process killed at any moment leaves whole segments, perhaps one too many.
Each is shared by the checkpoints that list it: where one is damaged, all of them are.
"""

import gzip
import hashlib
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

from re3_jax.replay.frame_ring import FrameReplay
from re3_jax.replay.prioritized import PrioritizedReplay
from re3_jax.replay.sequence_ring import SequenceReplay
from re3_jax.training import layouts
from re3_jax.training.distributed import Processes
from re3_jax.training.whole_file import replacing

Replay = FrameReplay | PrioritizedReplay | SequenceReplay
"""Rings of `frames`, each with its `num_written`: one per seed, or one per seed and lane."""

BLOCK = 256
"""Frames of one ring that go through host memory at a time."""


class Segment(NamedTuple):
    """What a checkpoint knows of a file of frames, which lead with their place, then the ring.

    Attributes:
      file: its name.
      sha256: digest of its bytes.
      first: per ring, the number of the first frame in it.
      end: per ring, the number of the row after the newest frame: the last in it, and repeated
        where other rings have more.
      ring: which of the rings of all processes is the first in it.
    """

    file: str
    sha256: str
    first: list[int]
    end: list[int]
    ring: int = 0


Segments = list[Segment]


class ReplayJournal:
    """The segments of one run. States saved one after the other must continue each other."""

    def __init__(self, folder: Path, processes: Processes):
        """Opens `folder`, in which each process writes segments of its own seeds."""
        self.folder, self._processes = folder, processes
        self._known: list[Segments] = []

    def write(self, name: str, state: Any) -> list[Segments]:
        """Writes the frames that the last checkpoint did not have.

        Args:
          name: of the checkpoint; segments of a checkpoint of this name are replaced.
          state: its replays have a leading axis of seeds.

        Returns:
          For each replay the segments that rebuild it; `read` takes those of all processes. They
          count as written once they are passed to `keep`.

        Raises:
          OSError: the disk does not take it.
        """
        replays = [leaf for leaf in jax.tree.leaves(state, is_leaf=_is_replay) if _is_replay(leaf)]
        known = self._known or [[] for _ in replays]
        if self._processes.count > 1:
            name = f"{name}-{self._processes.index}"
        return [
            self._extend(f"{name}-{number}", replay, segments)
            for number, (replay, segments) in enumerate(zip(replays, known, strict=True))
        ]

    def keep(self, newest: list[Segments], others: Iterable[list[Segments]]) -> None:
        """Goes on from `newest`, and deletes what neither it nor `others` list."""
        self._known = newest
        needed = {file for listed in (newest, *others) for known in listed for file, *_ in known}
        if self._processes.is_first and self.folder.exists():
            for path in self.folder.iterdir():
                if path.suffix in (".frames", ".part") and path.name not in needed:
                    path.unlink()

    def read(self, listed: list[Segments], small: Any, template: Any) -> Any:
        """A state whose frames are rebuilt from segments; later ones go on from it.

        Args:
          listed: what `write` returned, or what JSON made of it, of all processes together.
          small: what `without_frames` left of the state.
          template: state of the same shapes; the shardings and orders of its frames are used.

        Raises:
          ValueError: a segment is damaged.
          OSError: a segment is not there.
        """
        known = [[Segment(*segment) for segment in segments] for segments in listed]
        left, own = iter(known), []

        def whole(leaf: Any, like: Any) -> Any:
            if not _is_replay(leaf):
                return leaf
            segments, rings = next(left), leaf.num_frames.size
            of_own = [one for one in segments if self._overlap(one, rings) is not None]
            is_same = all((one.ring, len(one.end)) == (self._ring(rings), rings) for one in of_own)
            # Where other processes had the seeds, this one writes their frames anew.
            own.append(of_own if is_same else [])
            frames = self._rebuild(of_own, leaf.num_written, like.rows, like.frames.array)
            return leaf._replace(frames=replace(like.frames, array=frames))

        state = jax.tree.map(whole, small, template, is_leaf=_is_replay)
        self._known = own
        return state

    def _ring(self, rings: int) -> int:
        """The number of this process's first ring, if each process has so many."""
        return self._processes.index * rings

    def _overlap(self, segment: Segment, rings: int) -> tuple[slice, slice] | None:
        """Rings of a segment that this process has: their places in the segment, and here."""
        here = self._ring(rings)
        first = max(here, segment.ring)
        end = min(here + rings, segment.ring + len(segment.end))
        if first >= end:
            return None
        return slice(first - segment.ring, end - segment.ring), slice(first - here, end - here)

    def _extend(self, name: str, replay: Replay, known: Segments) -> Segments:
        end, oldest = _range(replay.num_written, replay.rows)
        last = np.asarray(known[-1].end) if known else np.zeros_like(end)
        if np.any(last > end):
            known, last = [], np.zeros_like(end)
        first = np.maximum(last, oldest)
        known = [segment for segment in known if np.any(np.asarray(segment.end) > oldest)]
        if np.all(first == end):
            return known
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.frames"
        with replacing(path) as part:
            sha256 = _compress(_blocks(replay, first, end), part)
        _sync_folder(self.folder)
        ring = self._ring(end.size)
        return [*known, Segment(path.name, sha256, first.tolist(), end.tolist(), ring)]

    def _rebuild(
        self, segments: Segments, num_frames: Array, num_rows: int, template: Array
    ) -> Array:
        axes = num_frames.ndim
        num_places, *frame_shape = template.shape[axes:]
        end, oldest = _range(num_frames, num_rows)
        frame_bytes = math.prod(frame_shape) * template.dtype.itemsize
        frames = jnp.zeros(template.shape, template.dtype, device=template.sharding)
        for segment in segments:
            overlap = self._overlap(segment, end.size)
            assert overlap is not None
            there, here = overlap
            block_numbers = _numbers(np.asarray(segment.first), np.asarray(segment.end))
            shape = len(segment.end), frame_bytes
            blocks = _decompress(self.folder / segment.file, segment.sha256, shape)
            for numbers, block in zip(block_numbers, blocks, strict=True):
                numbers, found = numbers[:, there], block[:, there].view(template.dtype)
                is_held = numbers >= oldest[here]
                slots = np.full((BLOCK, end.size), num_places)
                slots[:, here] = np.where(is_held, numbers % num_rows, num_places)
                values = np.zeros((BLOCK, end.size, *frame_shape), template.dtype)
                values[:, here] = found.reshape(*numbers.shape, *frame_shape)
                arrays = slots.swapaxes(0, 1), values.swapaxes(0, 1)
                frames = _put(frames, *_beside(frames, arrays), axes)
        return layouts.put(frames, template)


def without_frames(state: Any) -> Any:
    """A state, or a template of one, with () in place of the frames of every replay."""
    return jax.tree.map(
        lambda leaf: leaf._replace(frames=()) if _is_replay(leaf) else leaf,
        state,
        is_leaf=_is_replay,
    )


def _is_replay(node: Any) -> bool:
    return isinstance(node, Replay)


def _range(num_frames: Array, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Per ring, the number of the row after the newest frame and the oldest one still held."""
    end = np.asarray(num_frames).reshape(-1)
    return end, np.maximum(end - (num_rows - 1), 0)


def _numbers(first: np.ndarray, end: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers of the frames in a segment as [`BLOCK`, ring], the last ones repeated."""
    for start in range(0, (end - first).max() + 1, BLOCK):
        yield np.minimum(first + start + np.arange(BLOCK)[:, None], end)


def _blocks(replay: Replay, first: np.ndarray, end: np.ndarray) -> Iterator[np.ndarray]:
    """The bytes of a segment as [frame, ring, byte]; only these leave the device."""
    axes, frames, left = replay.num_frames.ndim, replay.frames.array, (end - first).max() + 1
    for numbers in _numbers(first, end):
        rows = numbers.swapaxes(0, 1) % replay.rows
        values = np.asarray(_take(frames, _beside(frames, rows), axes))
        yield values.reshape(*rows.shape, -1).view(np.uint8).swapaxes(0, 1)[:left]
        left -= BLOCK


def _compress(blocks: Iterable[np.ndarray], path: Path) -> str:
    """Writes differences of consecutive frames, compressed; returns the digest of the file."""
    before: np.ndarray | int = 0
    with path.open("wb") as file:
        with gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as stream:
            for block in blocks:
                # A camera that stands still shows the same background: mostly zeros are left.
                difference = np.concatenate([block[:1] - before, block[1:] - block[:-1]])
                stream.write(difference.tobytes())
                before = block[-1:]
        file.flush()
        os.fsync(file.fileno())
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _decompress(path: Path, sha256: str, shape: tuple[int, int]) -> Iterator[np.ndarray]:
    """Blocks as they went into `_compress`, of frames [ring, byte], the last frame repeated.

    Damage is noticed before anything is used.
    """
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise ValueError(f"{path.name} is not what was written")
    before = np.zeros(shape, np.uint8)
    with gzip.open(path) as stream:
        while stream.readinto((block := np.zeros((BLOCK, *shape), np.uint8)).data):
            # np.cumsum along the first axis takes several times as long.
            for frame in block:
                frame += before
                before = frame
            yield block


def _beside(frames: Array, arrays: Any) -> Any:
    """Each ring's part of `arrays` on the device that has the ring."""
    sharding = frames.sharding
    if isinstance(sharding, jax.NamedSharding):
        # Of the first axis alone: rings of one seed follow each other.
        sharding = jax.NamedSharding(sharding.mesh, jax.P(*sharding.spec[:1]))
    return jax.device_put(arrays, sharding)


@partial(jax.jit, static_argnums=2)
def _take(
    frames: Shaped[Array, "..."], rows: Int[Array, "ring block"], axes: int
) -> Shaped[Array, " ring block *frame"]:
    """Rows of rings, of which the first `axes` axes are."""
    rings = frames.reshape(-1, *frames.shape[axes:])
    return jax.vmap(lambda ring, some: ring.at[some].get(mode="promise_in_bounds"))(rings, rows)


@partial(jax.jit, donate_argnums=0, static_argnums=3)
def _put(
    frames: Shaped[Array, "..."],
    rows: Int[Array, "ring block"],
    values: Shaped[Array, " ring block *frame"],
    axes: int,
) -> Shaped[Array, "..."]:
    """Rows past the end are left out."""
    rings = frames.reshape(-1, *frames.shape[axes:])
    put = jax.vmap(lambda ring, some, new: ring.at[some].set(new, mode="drop"))
    return put(rings, rows, values).reshape(frames.shape)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
