"""Replay of whole episodes on the device, from which sequences of fixed length are drawn (Dreamer).

Each frame is stored once, with the action that led to it and what came with it; an episode begins
with a frame that no action led to. A sequence is drawn as danijar/dreamer draws it: an episode
uniformly among those that are finished, whole and long enough, and a beginning uniformly in
[0, frames of the episode - length), so that no sequence crosses an episode or the write cursor.
(The last sequence of an episode is never drawn, there as here.)
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from re3_jax.replay.frame_rows import FrameRows, num_places


class SequenceReplay(NamedTuple):
    """First-in-first-out store of several lanes, each a ring of its own.

    Frames are numbered from 0 in each lane; number n is in row n modulo the number of rows.

    Attributes:
      frames: what was seen, of [lanes, rows], flat and padded (`FrameRows`).
      action: that led to it; zero for the first of an episode.
      reward: that came with it, likewise.
      discount: 0 where the task ended with it, else 1.
      bonus_index: where the bonus keeps the latent of the frame; not known of an episode's last,
        which is never drawn.
      num_frames: written so far.
      begins: number of the first frame of the episode under way.
      starts: numbers of the first frames of finished episodes, the newest of them.
      lengths: how many frames each of them has.
      num_episodes: episodes noted so far.
    """

    frames: FrameRows
    action: Float[Array, "lanes rows action"]
    reward: Float[Array, "lanes rows"]
    discount: Float[Array, "lanes rows"]
    bonus_index: Int[Array, "lanes rows *index"]
    num_frames: Int[Array, " lanes"]
    begins: Int[Array, " lanes"]
    starts: Int[Array, "lanes episodes"]
    lengths: Int[Array, "lanes episodes"]
    num_episodes: Int[Array, " lanes"]

    @property
    def num_written(self) -> Int[Array, "..."]:
        """Frames written so far, of each ring."""
        return self.num_frames

    @property
    def rows(self) -> int:
        """Frames of a lane; also of replays with leading axes."""
        return self.reward.shape[self.num_frames.ndim]


class Sequences(NamedTuple):
    """A batch of sequences, and what follows each: the frame after the last and its action.

    Attributes:
      frames: one more than `length`.
      action: that led to each frame, zero for the first of an episode.
      reward: that came with each frame of the sequence, likewise.
      discount: 0 where the task ended with the frame, else 1.
      bonus_index: where the bonus keeps what belongs to each frame.
    """

    frames: UInt8[Array, "batch length+1 height width channels"]
    action: Float[Array, "batch length+1 action"]
    reward: Float[Array, "batch length"]
    discount: Float[Array, "batch length"]
    bonus_index: Int[Array, "batch length *index"]


def init(
    rows: int,
    lanes: int,
    frame_shape: tuple[int, ...],
    action_dim: int,
    length: int,
    index_shape: tuple[int, ...] = (),
) -> SequenceReplay:
    """An empty replay of `rows` frames for each of `lanes` lanes.

    Args:
      rows: frames kept per lane.
      lanes: lanes.
      frame_shape: height, width and channels.
      action_dim: length of an action.
      length: of the sequences that will be drawn.
      index_shape: of the bonus's index of one step.

    Raises:
      ValueError: if a number is not positive, or an episode that is long enough would not fit.
    """
    if min(rows, lanes, action_dim, length) < 1:
        raise ValueError(
            f"a replay of {rows} rows of {lanes} lanes for sequences of {length} with "
            f"{action_dim}-dimensional actions cannot hold anything: all must be at least 1"
        )
    if rows <= length:
        raise ValueError(
            f"a replay of {rows} frames holds no episode of more than {length}: raise it, or draw "
            "shorter sequences"
        )
    episodes = rows // (length + 1)
    # Each its own array, because one that is shared cannot be donated.
    zeros = partial(jnp.zeros, dtype=jnp.int32)
    return SequenceReplay(
        frames=FrameRows.zeros((lanes, num_places(rows)), frame_shape, jnp.uint8),
        action=jnp.zeros((lanes, rows, action_dim), jnp.float32),
        reward=jnp.zeros((lanes, rows), jnp.float32),
        discount=jnp.ones((lanes, rows), jnp.float32),
        bonus_index=zeros((lanes, rows, *index_shape)),
        num_frames=zeros(lanes),
        begins=zeros(lanes),
        starts=zeros((lanes, episodes)),
        lengths=zeros((lanes, episodes)),
        num_episodes=zeros(lanes),
    )


def begin(
    replay: SequenceReplay, frame: UInt8[Array, "lanes height width channels"]
) -> SequenceReplay:
    """Writes the first frame of an episode in all lanes; drops the episodes under way."""
    lanes = replay.num_frames.shape[0]
    nothing = jnp.zeros(lanes, jnp.float32)
    action = jnp.zeros((lanes, replay.action.shape[2]), jnp.float32)
    step = _Rows(frame, action, nothing, nothing + 1)
    everywhere = jnp.ones((lanes, 1), bool)
    written = _write(replay, jax.tree.map(lambda value: value[:, None], step), everywhere)
    return written._replace(begins=jnp.copy(replay.num_frames))


def add(
    replay: SequenceReplay,
    action: Float[Array, "lanes action"],
    reward: Float[Array, " lanes"],
    terminated: Bool[Array, " lanes"],
    frame: UInt8[Array, "lanes height width channels"],
    final_frame: UInt8[Array, "lanes height width channels"],
    done: Bool[Array, " lanes"],
    bonus_index: Int[Array, " lanes *index"],
    *,
    length: int,
) -> SequenceReplay:
    """Writes one step of all lanes; where an episode ended, also the next one's first frame.

    Args:
      replay: where to.
      action: that was taken.
      reward: that it brought.
      terminated: whether the task ended with it.
      frame: what is seen now; another one than `final_frame` where an episode ended.
      final_frame: what the action led to.
      done: whether the task ended or a time limit was met.
      bonus_index: where the bonus keeps the latent of the frame that the action answered.
      length: of the sequences that will be drawn; shorter episodes are never drawn from.
    """
    lanes, rows = replay.reward.shape
    lane, answered = jnp.arange(lanes), (replay.num_frames - 1) % rows
    replay = replay._replace(
        bonus_index=replay.bonus_index.at[lane, answered].set(bonus_index, unique_indices=True)
    )
    frames = replay.num_frames + 1 - replay.begins
    noted = done & (frames > length)
    episodes = replay.starts.shape[1]
    # A place that is not there drops the note.
    place = jnp.where(noted, replay.num_episodes % episodes, episodes)
    nothing = jnp.zeros_like(reward)
    led_to = _Rows(final_frame, action, reward, 1.0 - terminated.astype(jnp.float32))
    next_one = _Rows(frame, jnp.zeros_like(action), nothing, nothing + 1)
    # In one write: of two in a row XLA makes copies of all the frames where there is one lane.
    written = _write(
        replay,
        jax.tree.map(lambda *values: jnp.stack(values, 1), led_to, next_one),
        jnp.stack([jnp.ones_like(done), done], 1),
    )
    return written._replace(
        begins=jnp.where(done, replay.num_frames + 1, replay.begins),
        starts=replay.starts.at[lane, place].set(replay.begins, mode="drop"),
        lengths=replay.lengths.at[lane, place].set(frames, mode="drop"),
        num_episodes=replay.num_episodes + noted,
    )


class _Rows(NamedTuple):
    """What is written of a frame, [lane, ...] or [lane, n, ...]."""

    frames: Array
    action: Array
    reward: Array
    discount: Array


def _write(replay: SequenceReplay, values: _Rows, where: Bool[Array, "lanes n"]) -> SequenceReplay:
    """Appends to each lane those of `n` frames that are wanted."""
    lanes, rows = replay.reward.shape
    number = replay.num_frames[:, None] + jnp.cumsum(where, axis=1) - 1
    # A row that is nowhere drops what is written to it; the ring of frames may have a spare one.
    row = jnp.where(where, number % rows, num_places(rows))
    lane = jnp.arange(lanes)[:, None]

    def write(store: Array, value: Array) -> Array:
        return store.at[lane, row].set(value, mode="drop", unique_indices=True)

    return replay._replace(
        frames=replay.frames.write((lane, row), values.frames, mode="drop", unique_indices=True),
        action=_write_numbers(replay.action, lane, row, values.action),
        reward=write(replay.reward, values.reward),
        discount=write(replay.discount, values.discount),
        num_frames=replay.num_frames + jnp.sum(where, axis=1, dtype=jnp.int32),
    )


def _write_numbers(
    store: Float[Array, "lanes rows width"],
    lane: Int[Array, "lanes 1"],
    row: Int[Array, "lanes n"],
    value: Float[Array, "lanes n width"],
) -> Float[Array, "lanes rows width"]:
    """Writes short rows number by number; one that is nowhere is dropped.

    A TPU keeps such rows innermost (`re3_jax/training/layouts.py`): XLA turns the whole array to
    write or read a row, but not for single numbers of the array whose last axis is that of rows.
    """
    place = lane[..., None], jnp.arange(store.shape[-1]), row[..., None]
    turned = store.swapaxes(1, 2).at[place].set(value, mode="drop", unique_indices=True)
    return turned.swapaxes(1, 2)


def _read_numbers(
    store: Float[Array, "lanes rows width"], lane: Int[Array, "batch 1"], row: Int[Array, "batch n"]
) -> Float[Array, "batch n width"]:
    """Reads short rows number by number, for the reason that `_write_numbers` gives."""
    return store.swapaxes(1, 2)[lane[..., None], jnp.arange(store.shape[-1]), row[..., None]]


def num_whole(replay: SequenceReplay) -> Int[Array, " lanes"]:
    """Finished episodes of each lane of which nothing is overwritten."""
    used = jnp.arange(replay.starts.shape[1]) < replay.num_episodes[:, None]
    kept = replay.starts >= replay.num_frames[:, None] - replay.reward.shape[1]
    return jnp.sum(used & kept, axis=1, dtype=jnp.int32)


def can_sample(replay: SequenceReplay) -> Bool[Array, ""]:
    """Whether there is an episode to draw from."""
    return jnp.any(num_whole(replay) > 0)


def sample(key: PRNGKeyArray, replay: SequenceReplay, batch_size: int, length: int) -> Sequences:
    """Draws sequences; there must be an episode to draw from (`can_sample`).

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from re3_jax.replay import sequence_ring
      >>> replay = sequence_ring.init(50, 1, (8, 8, 3), action_dim=2, length=4)
      >>> frame = jnp.zeros((1, 8, 8, 3), jnp.uint8)
      >>> replay = sequence_ring.begin(replay, frame)
      >>> action, one, index = jnp.zeros((1, 2)), jnp.ones(1), jnp.zeros(1, jnp.int32)
      >>> for step in range(6):
      ...     done = jnp.array([step == 5])
      ...     step = action, one, done, frame, frame, done, index
      ...     replay = sequence_ring.add(replay, *step, length=4)
      >>> batch = sequence_ring.sample(jax.random.key(0), replay, batch_size=3, length=4)
      >>> batch.frames.shape, batch.reward.shape
      ((3, 5, 8, 8, 3), (3, 4))
    """
    rows = replay.reward.shape[1]
    episode_key, start_key = jax.random.split(key)
    whole = num_whole(replay)
    ends = jnp.cumsum(whole)
    drawn = jax.random.randint(episode_key, (batch_size,), 0, ends[-1])
    lane = jnp.searchsorted(ends, drawn, side="right").astype(jnp.int32)
    # The newest are the whole ones: what is older is overwritten first.
    age = ends[lane] - 1 - drawn
    episode = (replay.num_episodes[lane] - 1 - age) % replay.starts.shape[1]
    latest = replay.lengths[lane, episode] - length
    offset = jax.random.randint(start_key, (batch_size,), 0, latest)
    # The last sequence of an episode is never drawn, so a frame follows each that is.
    numbers = (replay.starts[lane, episode] + offset)[:, None] + jnp.arange(length + 1)
    onward, lane = numbers % rows, lane[:, None]
    row = onward[:, :-1]
    return Sequences(
        replay.frames.read((lane, onward)),
        _read_numbers(replay.action, lane, onward),
        replay.reward[lane, row],
        replay.discount[lane, row],
        replay.bonus_index[lane, row],
    )
