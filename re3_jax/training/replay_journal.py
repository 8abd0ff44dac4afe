"""The frames of a replay on disk, each written once however many checkpoints there are (io).

A hundred thousand 100x100 frames are 3 GB a seed: too much to write again for each checkpoint.
So a checkpoint adds one *segment*, a file with the frames since the checkpoint before it, and
lists the segments from which the ring of frames can be rebuilt. Rows that no transition needs
any more are rebuilt too, so what is read equals what was saved bit for bit.

A segment is written under another name, synced and renamed; it is deleted when no checkpoint
on disk lists it. A process killed at any moment leaves whole segments, perhaps one too many.
Each is shared by the checkpoints that list it: where one is damaged, all of them are.
"""

import gzip
import hashlib
import itertools
import math
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Sharding
from jaxtyping import Array, Int, Shaped

from re3_jax.replay.frame_ring import FrameReplay
from re3_jax.replay.prioritized import PrioritizedReplay
from re3_jax.replay.sequence_ring import SequenceReplay

Replay = FrameReplay | PrioritizedReplay | SequenceReplay
"""Rings of `frames`, each with its `num_frames`: one per seed, or one per seed and lane.

What is called a frame here is a row of the ring: of `PrioritizedReplay` a frame of every lane.
"""

BLOCK = 256
"""Frames of one ring that go through host memory at a time."""


class Segment(NamedTuple):
    """What a checkpoint knows of a file of frames.

    Attributes:
      file: its name.
      sha256: digest of its bytes.
      first: per ring, the number of the first frame in it.
      end: per ring, the number after the last one.
      block: frames of one ring that stand one after the other in it.
    """

    file: str
    sha256: str
    first: list[int]
    end: list[int]
    block: int


Segments = list[Segment]


class ReplayJournal:
    """The segments of one run. States saved one after the other must continue each other."""

    def __init__(self, folder: Path):
        """Opens `folder`; it is made when something is written."""
        self.folder = folder
        self._known: list[Segments] = []

    def write(self, name: str, replays: list[Replay]) -> list[Segments]:
        """Writes the frames that the last checkpoint did not have.

        Args:
          name: of the checkpoint; segments of a checkpoint of this name are replaced.
          replays: with a leading axis of seeds.

        Returns:
          For each replay the segments that rebuild it, for `read`. They count as written once
          they are passed to `keep`.

        Raises:
          OSError: the disk does not take it.
        """
        known = self._known or [[] for _ in replays]
        return [
            self._extend(f"{name}-{number}", replay, segments)
            for number, (replay, segments) in enumerate(zip(replays, known, strict=True))
        ]

    def keep(self, newest: list[Segments], others: Iterable[list[Segments]]) -> None:
        """Goes on from `newest`, and deletes what neither it nor `others` list."""
        self._known = newest
        needed = {s.file for listed in (newest, *others) for segments in listed for s in segments}
        if self.folder.exists():
            for path in self.folder.iterdir():
                if path.suffix in (".frames", ".part") and path.name not in needed:
                    path.unlink()

    def read(
        self, listed: list[Segments], replays: list[Replay], templates: list[Replay]
    ) -> list[Replay]:
        """Replays whose `frames` are rebuilt from segments; later ones go on from these.

        Args:
          listed: what `write` returned.
          replays: what `without_frames` left of them.
          templates: replays of the same shapes; the shardings of their frames are used.

        Raises:
          ValueError: a segment is damaged.
          OSError: a segment is not there.
        """
        found = [
            self._rebuild(segments, replay, template)
            for segments, replay, template in zip(listed, replays, templates, strict=True)
        ]
        self._known = listed
        return found

    def _extend(self, name: str, replay: Replay, known: Segments) -> Segments:
        end = _ends(replay)
        oldest = _oldest(replay)
        last = np.asarray(known[-1].end) if known else np.zeros_like(end)
        if np.any(last > end):
            known, last = [], np.zeros_like(end)
        first = np.maximum(last, oldest)
        known = [segment for segment in known if np.any(np.asarray(segment.end) > oldest)]
        if np.all(first == end):
            return known
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.frames"
        part = self.folder / f"{name}.part"
        try:
            sha256 = _compress(_blocks(replay, first, end), part)
        except OSError:
            # On a full disk, what is half written takes the room of what is needed.
            part.unlink(missing_ok=True)
            raise
        part.replace(path)
        _sync_folder(self.folder)
        return [*known, Segment(path.name, sha256, first.tolist(), end.tolist(), BLOCK)]

    def _rebuild(self, segments: Segments, replay: Replay, template: Replay) -> Replay:
        shape, dtype = template.frames.shape, template.frames.dtype
        axes = replay.num_frames.ndim
        num_rings, rows, frame_shape = replay.num_frames.size, shape[axes], shape[axes + 1 :]
        frames = jnp.zeros(shape, dtype, device=template.frames.sharding)
        oldest = _oldest(template._replace(num_frames=replay.num_frames))
        for segment in segments:
            with _decompress(self.folder / segment.file, segment.sha256) as blocks:
                for numbers in _numbers(
                    np.asarray(segment.first), np.asarray(segment.end), segment.block
                ):
                    values = np.zeros((num_rings, segment.block, *frame_shape), dtype)
                    for ring, held in enumerate(numbers >= 0):
                        values[ring, held] = _undo_difference(
                            blocks, (held.sum(), *frame_shape), dtype
                        )
                    wanted = numbers >= oldest[:, None]
                    slots = np.where(wanted, numbers % rows, rows)
                    frames = _put(frames, *_beside(frames, (slots, values)), axes)
        spare = (_ends(replay) % rows)[:, None]
        newest = replay.frames.reshape(num_rings, 1, *frame_shape)
        return replay._replace(frames=_put(frames, _beside(frames, spare), newest, axes))


def without_frames(state: Any) -> tuple[Any, list[Replay]]:
    """Takes the frames out of every replay in a pytree; also returns the whole replays.

    Left in their place is the row after the newest frame of each ring: the only one that may
    hold what is not one of the newest frames.
    """
    small = jax.tree.map(
        lambda leaf: leaf._replace(frames=_spare_frames(leaf)) if is_replay(leaf) else leaf,
        state,
        is_leaf=is_replay,
    )
    return small, replays_in(state)


def template_without_frames(template: Any) -> tuple[Any, list[Replay]]:
    """The same of a template, without its numbers being looked at."""

    def shrink(leaf: Any) -> Any:
        if not is_replay(leaf):
            return leaf
        rings = leaf.num_frames.shape
        shape = (*rings, *leaf.frames.shape[len(rings) + 1 :])
        return leaf._replace(
            frames=jax.ShapeDtypeStruct(
                shape, leaf.frames.dtype, sharding=_of_seeds(leaf.frames.sharding)
            )
        )

    return jax.tree.map(shrink, template, is_leaf=is_replay), replays_in(template)


def replays_in(state: Any) -> list[Replay]:
    """Every replay of a pytree."""
    return [leaf for leaf in jax.tree.leaves(state, is_leaf=is_replay) if is_replay(leaf)]


def with_replays(small: Any, replays: list[Replay]) -> Any:
    """Puts whole replays back where `without_frames` took their frames out."""
    left = iter(replays)
    return jax.tree.map(
        lambda leaf: next(left) if is_replay(leaf) else leaf, small, is_leaf=is_replay
    )


def is_replay(node: Any) -> bool:
    """Whether a node of a pytree is a replay of frames."""
    return isinstance(node, Replay)


def _oldest(replay: Replay) -> np.ndarray:
    """Per ring, the number of the oldest frame that is surely not written over."""
    return np.maximum(_ends(replay) - (_num_rows(replay) - 1), 0)


def _ends(replay: Replay) -> np.ndarray:
    """Per ring, the number after that of the newest frame."""
    return np.asarray(replay.num_frames).reshape(-1)


def _num_rows(replay: Replay) -> int:
    return int(replay.frames.shape[replay.num_frames.ndim])


def _spare_frames(replay: Replay) -> Shaped[Array, "..."]:
    rings = replay.num_frames.shape
    taken = _take(replay.frames, replay.num_frames.reshape(-1, 1) % _num_rows(replay), len(rings))
    return taken.reshape(*rings, *taken.shape[2:])


def _numbers(first: np.ndarray, end: np.ndarray, block: int) -> Iterator[np.ndarray]:
    """Numbers of the frames in `[first, end)` as `[rings, block]`, -1 past the end."""
    for start in range(0, int((end - first).max()), block):
        numbers = first[:, None] + start + np.arange(block)
        yield np.where(numbers < end[:, None], numbers, -1)


def _blocks(replay: Replay, first: np.ndarray, end: np.ndarray) -> Iterator[np.ndarray]:
    """The frames of a segment, ring by ring in each block; only these leave the device."""
    axes, frames = replay.num_frames.ndim, replay.frames
    for numbers in _numbers(first, end, BLOCK):
        rows = np.maximum(numbers, 0) % _num_rows(replay)
        values = np.asarray(_take(frames, _beside(frames, rows), axes))
        for ring, held in enumerate(numbers >= 0):
            yield values[ring, held]


def _compress(blocks: Iterable[np.ndarray], path: Path) -> str:
    """Writes differences of consecutive frames, compressed; returns the digest of the file."""
    with path.open("wb") as file:
        with gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as stream:
            for block in blocks:
                difference = _bytes_of(block).copy()
                # A camera that stands still shows the same background: mostly zeros are left.
                difference[1:] -= _bytes_of(block)[:-1]
                stream.write(difference.tobytes())
        file.flush()
        os.fsync(file.fileno())
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _decompress(path: Path, sha256: str) -> BinaryIO:
    """A segment as it went into `_compress`; damage is noticed before anything is used."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise ValueError(f"{path.name} is not what was written")
    return cast(BinaryIO, gzip.open(path))


def _undo_difference(blocks: BinaryIO, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    count, size = shape[0], math.prod(shape[1:]) * dtype.itemsize
    values = np.frombuffer(blocks.read(count * size), np.uint8).reshape(count, size).copy()
    # np.cumsum along the first axis takes several times as long.
    for before, frame in itertools.pairwise(values):
        frame += before
    return values.view(dtype).reshape(shape)


def _bytes_of(block: np.ndarray) -> np.ndarray:
    """[frames, bytes of one]."""
    flat = block.reshape(len(block), math.prod(block.shape[1:]))
    return np.ascontiguousarray(flat).view(np.uint8)


def _beside(frames: Array, arrays: Any) -> Any:
    """Each ring's part of `arrays` on the device that has the ring."""
    return jax.device_put(arrays, _of_seeds(frames.sharding))


def _of_seeds(sharding: Sharding) -> Sharding:
    """The sharding of the first axis alone: rings of one seed follow each other."""
    if isinstance(sharding, jax.NamedSharding):
        return jax.NamedSharding(sharding.mesh, jax.P(*sharding.spec[:1]))
    return sharding


@partial(jax.jit, static_argnums=2)
def _take(
    frames: Shaped[Array, "..."], rows: Int[Array, "ring block"], axes: int
) -> Shaped[Array, " ring block *frame"]:
    """Rows of rings, of which the first `axes` axes are."""
    return jax.vmap(lambda ring, chosen: ring.at[chosen].get(mode="promise_in_bounds"))(
        frames.reshape(-1, *frames.shape[axes:]), rows
    )


@partial(jax.jit, donate_argnums=0, static_argnums=3)
def _put(
    frames: Shaped[Array, "..."],
    rows: Int[Array, "ring block"],
    values: Shaped[Array, " ring block *frame"],
    axes: int,
) -> Shaped[Array, "..."]:
    """Rows past the end are left out."""
    written = jax.vmap(lambda ring, chosen, new: ring.at[chosen].set(new, mode="drop"))(
        frames.reshape(-1, *frames.shape[axes:]), rows, values
    )
    return written.reshape(frames.shape)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
