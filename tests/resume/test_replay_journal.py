"""Frames are written once: checkpoints with replays are restored bit for bit or not at all."""

import errno
import os
import random
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.replay import frame_ring, prioritized, sequence_ring
from re3_jax.training import replay_journal
from re3_jax.training.checkpoint import KEEP, CheckpointStore
from tests.resume.conftest import ROOT
from tests.resume.test_checkpoint import DAMAGE, assert_equal

SHAPE, SEEDS, CAPACITY, SHORTEST = (3, 2, 3), 2, 40, 5

add = jax.jit(jax.vmap(frame_ring.add))


def empty():
    replay = frame_ring.init(CAPACITY, 1, SHAPE, 1, 3, SHORTEST)
    replay = jax.tree.map(lambda leaf: jnp.stack([leaf] * SEEDS), replay)
    first = jnp.full((SEEDS, 1, *SHAPE), 9, jnp.uint8)
    keys = jax.random.split(jax.random.key(0), SEEDS)
    return {"keys": keys, "nested": (jax.vmap(frame_ring.begin)(replay, first), jnp.zeros(2))}


def advance(state, steps, seed=0):
    """Some steps further; the seeds' episodes end at different times."""
    replay, counter = state["nested"]
    rng = np.random.default_rng((seed, int(replay.num_transitions[0])))
    for _ in range(steps):
        frames = rng.integers(0, 256, (2, SEEDS, *SHAPE), dtype=np.uint8)
        numbers = rng.normal(size=(3, SEEDS)).astype(np.float32)
        done = rng.random(SEEDS) < [0.1, 0.3]
        index = rng.integers(0, 100, SEEDS, dtype=np.int32)
        step = numbers[0][:, None], *numbers[1:], *frames, done, index
        replay = add(replay, *(x[:, None] for x in step))
    return {**state, "nested": (replay, counter + steps)}


LANES, LENGTH = 2, 3

begin_sequences = jax.jit(jax.vmap(sequence_ring.begin))
add_sequences = jax.jit(jax.vmap(partial(sequence_ring.add, length=LENGTH)))


def empty_sequences():
    replay = sequence_ring.init(CAPACITY, LANES, SHAPE, 1, LENGTH)
    replay = jax.tree.map(lambda leaf: jnp.stack([leaf] * SEEDS), replay)
    first = jnp.full((SEEDS, LANES, *SHAPE), 9, jnp.uint8)
    return {"keys": jnp.zeros(SEEDS), "nested": (begin_sequences(replay, first), jnp.zeros(2))}


def advance_sequences(state, steps):
    """Some steps further; episodes of every lane end at different times."""
    replay, counter = state["nested"]
    rng = np.random.default_rng(int(counter[0]))
    for _ in range(steps):
        frames = rng.integers(0, 256, (2, SEEDS, LANES, *SHAPE), dtype=np.uint8)
        numbers = rng.normal(size=(2, SEEDS, LANES)).astype(np.float32)
        done, terminated = rng.random((2, SEEDS, LANES)) < 0.2
        index = rng.integers(0, 100, (SEEDS, LANES), dtype=np.int32)
        replay = add_sequences(
            replay, numbers[0][..., None], numbers[1], terminated, *frames, done, index
        )
    return {**state, "nested": (replay, counter + steps)}


add_steps = jax.jit(jax.vmap(partial(prioritized.add, n=3, stack=2)))


def empty_prioritized():
    """Frames of two-byte numbers."""
    replay = prioritized.init(CAPACITY, LANES, SHAPE, jnp.int16, n=3, stack=2)
    replay = jax.tree.map(lambda leaf: jnp.stack([leaf] * SEEDS), replay)
    return {"keys": jnp.zeros(SEEDS), "nested": (replay, jnp.zeros(2))}


def advance_prioritized(state, steps):
    """Some steps further; all lanes write a row together."""
    replay, counter = state["nested"]
    rng = np.random.default_rng(int(counter[0]))
    for _ in range(steps):
        frame = rng.integers(-(2**15), 2**15, (SEEDS, LANES, *SHAPE), dtype=np.int16)
        action = rng.integers(0, 4, (SEEDS, LANES), dtype=np.int32)
        reward = rng.normal(size=(SEEDS, LANES)).astype(np.float32)
        ended = rng.random((2, SEEDS, LANES)) < 0.1
        replay = add_steps(replay, frame, action, reward, *ended, action)
    return {**state, "nested": (replay, counter + steps)}


def segments(folder: Path) -> set[str]:
    return {path.name for path in (folder / "frames").iterdir()}


def restore(folder: Path, template=None):
    said: list[str] = []
    store = CheckpointStore(folder)
    try:
        return store.restore(template or empty(), said.append), said
    finally:
        store.close()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks smaller than the tests' segments, none of which is a multiple of a block."""
    monkeypatch.setattr(replay_journal, "BLOCK", 7)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """Checkpoints of 15 and 30 steps; the second needs the segments of both.

    They are written in blocks of the usual size and read by tests that write smaller ones.
    """
    folder, state = tmp_path_factory.mktemp("checkpoints"), empty()
    store = CheckpointStore(folder)
    for step in (15, 30):
        state = advance(state, 15)
        store.save(step, state, {"step": step})
    store.close()
    return folder


@pytest.mark.parametrize("store_lives_on", [True, False])
@pytest.mark.parametrize(
    ("empty", "advance"),
    [
        (empty, advance),
        (empty_sequences, advance_sequences),
        (empty_prioritized, advance_prioritized),
    ],
    ids=["frames", "sequences", "prioritized"],
)
def test_every_state_is_restored_bit_for_bit(tmp_path, empty, advance, store_lives_on):
    """The ring wraps five times, in steps from zero to more than its size."""
    state, store, step = empty(), CheckpointStore(tmp_path), 0
    for number, steps in enumerate((0, 1, 12, 0, 30, 2, 70, 5, 90, 11, 1)):
        state, step = advance(state, steps), step + steps
        store.save(number, state, {"step": step})
        (found, record), said = restore(tmp_path, empty())
        assert_equal(found, state)
        assert (record, said) == ({"step": step}, [])
        if not store_lives_on:
            store.close()
            store = CheckpointStore(tmp_path)
            state, _ = store.restore(empty(), lambda text: None)
    store.close()


def test_each_frame_is_written_once_and_dropped_when_no_checkpoint_needs_it(tmp_path, monkeypatch):
    state, store, sizes = empty(), CheckpointStore(tmp_path), []
    blocks, firsts, ends = replay_journal._blocks, [], []

    def watched(replay, first, end):
        firsts.append(first)
        ends.append(end)
        return blocks(replay, first, end)

    monkeypatch.setattr(replay_journal, "_blocks", watched)
    for number in range(30):
        state = advance(state, 8)
        store.save(number, state, {})
        newest = tmp_path / "frames" / f"{number}-0.frames"
        sizes.append(newest.stat().st_size)
    # A random byte does not compress: 8 transitions and at most 8 episode starts of 2 seeds.
    assert max(sizes) < 1.2 * 16 * SEEDS * np.prod(SHAPE)
    np.testing.assert_array_equal(firsts[1:], ends[:-1])
    assert len(segments(tmp_path)) <= -(-CAPACITY * 1.5 // 8) + KEEP
    assert all(path.endswith(".frames") for path in segments(tmp_path))
    for path in (tmp_path / "frames").iterdir():
        assert path.stat().st_size > 0
    store.close()


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_segment_is_never_used(saved, tmp_path, how):
    """The older checkpoint is restored if only the newer needs the segment, else an error."""
    for damaged in ("30-0.frames", "15-0.frames"):
        folder = tmp_path / damaged
        shutil.copytree(saved, folder)
        path, damage = folder / "frames" / damaged, DAMAGE[how]
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage(path.read_bytes()))
        if damaged == "15-0.frames":
            with pytest.raises(ValueError, match="every checkpoint"):
                restore(folder)
            continue
        (found, record), said = restore(folder)
        assert record == {"step": 15}
        assert_equal(found, advance(empty(), 15))
        assert len(said) == 1 and "checkpoint 30 is damaged" in said[0]
        store = CheckpointStore(folder)
        state = advance(store.restore(empty(), lambda text: None)[0], 15)
        store.save(30, state, {"step": 30})
        store.close()
        assert_equal(restore(folder)[0][0], state)


def test_full_disk_leaves_the_older_checkpoints(saved, tmp_path, monkeypatch):
    shutil.copytree(saved, tmp_path / "c")
    store = CheckpointStore(tmp_path / "c")
    state = advance(store.restore(empty(), lambda text: None)[0], 10)

    def full(blocks, path):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(replay_journal, "_compress", full)
        with pytest.raises(OSError, match="No space left") as caught:
            store.save(40, state, {"step": 40})
    assert caught.value.filename == str(tmp_path / "c")
    assert segments(tmp_path / "c") == {"15-0.frames", "30-0.frames"}
    assert restore(tmp_path / "c")[0][1] == {"step": 30}
    store.save(40, state, {"step": 40})
    store.close()
    assert_equal(restore(tmp_path / "c")[0][0], state)


def test_an_earlier_state_is_written_in_full(tmp_path):
    """A store gets an earlier state than it saved last, as after restoring a copy."""
    store = CheckpointStore(tmp_path)
    store.save(1, advance(empty(), 30, seed=1), {})
    state = advance(empty(), 20, seed=2)
    store.save(2, state, {})
    store.close()
    assert_equal(restore(tmp_path)[0][0], state)


@pytest.mark.parametrize("rings", [(SEEDS,), (SEEDS, LANES)])
def test_frames_of_the_ring_are_not_copied_on_the_device(rings):
    """Writing a block and reading one take memory of the size of blocks."""
    ring, num_rings = jnp.zeros((*rings, 2000, *SHAPE), jnp.uint8), int(np.prod(rings))
    rows = jnp.zeros((num_rings, 7), jnp.int32)
    block = jnp.zeros((num_rings, 7, *SHAPE), jnp.uint8)
    axes = len(rings)
    memory = replay_journal._put.lower(ring, rows, block, axes).compile().memory_analysis()
    assert memory.alias_size_in_bytes == ring.nbytes
    assert memory.temp_size_in_bytes < ring.nbytes / 4
    memory = replay_journal._take.lower(ring, rows, axes).compile().memory_analysis()
    assert memory.temp_size_in_bytes + memory.output_size_in_bytes < ring.nbytes / 4


SAVER = """
import pathlib, sys
from re3_jax.training.checkpoint import CheckpointStore
from tests.resume.test_replay_journal import advance, empty
store, state, step = CheckpointStore(pathlib.Path(sys.argv[1])), empty(), 0
while True:
    found = store.restore(empty(), print)
    if found is not None:
        state, step = found[0], found[1]["step"]
    for _ in range(1_000_000):
        state, step = advance(state, 4), step + 4
        store.save(step, state, {"step": step})
"""


@pytest.mark.slow
def test_killed_while_saving(tmp_path):
    """Three times, at random moments; each process resumes from the previous one's checkpoint."""
    folder, last = tmp_path / "c", 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", SAVER, str(folder)], cwd=ROOT)
        while not (folder.exists() and any(int(p.name) > last for p in steps(folder))):
            assert process.poll() is None
            time.sleep(0.002)
        delay = random.uniform(0.1, 0.6)
        print(f"SIGKILL {delay} s after the first checkpoint")
        time.sleep(delay)
        process.kill()
        process.wait()
        (found, record), said = restore(folder)
        assert said == []
        last = record["step"]
    expected = empty()
    for _ in range(last // 4):
        expected = advance(expected, 4)
    assert_equal(found, expected)


def steps(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.isdigit()]
