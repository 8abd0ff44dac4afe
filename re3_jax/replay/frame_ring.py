"""A replay of image observations that stores each frame once.

A transition is a row of small arrays (action, reward, discount) and the number of the frame it
starts from; stacks and next observations are put together when a batch is sampled. A hundred
thousand 100x100 frames take 3.0 GB where whole stacks of three, twice, would take 18 GB.

Each lane has a ring of its own, into which all lanes write at once. Frames of a lane are numbered
from 0 in the order they are written, and frame n lies in row n modulo the number of rows. An
episode of T transitions writes T + 1 consecutive frames, so the frame after o_t's is o_{t+1}'s,
also where the episode ends, and a stack never reaches into another episode as long as it stops
at the episode's first frame.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from re3_jax.replay.frame_rows import FrameRows, num_places
from re3_jax.replay.frame_stack import FrameStack
from re3_jax.replay.transitions import Later, Transitions


class FrameReplay(NamedTuple):
    """First-in-first-out store of transitions and of their frames.

    Transition number i of a lane lies in row i modulo the capacity. The two numbers that count
    from the start are int32: they are right for 2^31 - 1 frames.

    Attributes:
      frames: of [lanes, rows], flat and padded (`FrameRows`); rows not yet written are zero, and
        the row after the newest frame may hold a frame that belongs to nothing.
      action: a_t.
      reward: task reward.
      discount: 0 where the task ended at this step, else 1.
      frame_number: number of the newest frame of o_t, counted from the first one ever written.
      age: frames that the episode had before that one.
      bonus_index: where the bonus keeps what belongs to o_t.
      newest_age: `age` of the newest frame, from which the next transition starts.
      num_frames: frames written so far, those since overwritten included.
      num_transitions: transitions of each lane written so far, likewise.
    """

    frames: FrameRows
    action: Float[Array, "lanes capacity action"]
    reward: Float[Array, "lanes capacity"]
    discount: Float[Array, "lanes capacity"]
    frame_number: Int[Array, "lanes capacity"]
    age: Int[Array, "lanes capacity"]
    bonus_index: Int[Array, "lanes capacity *index"]
    newest_age: Int[Array, " lanes"]
    num_frames: Int[Array, " lanes"]
    num_transitions: Int[Array, ""]

    @property
    def num_written(self) -> Int[Array, "..."]:
        """Frames written so far, of each ring."""
        return self.num_frames

    @property
    def rows(self) -> int:
        """Frames of a lane; also of replays with leading axes."""
        return self.frames.array.shape[self.num_frames.ndim]


def num_rows(capacity: int, stack: int, shortest_episode: int) -> int:
    """Frames that keep `capacity` transitions whole if no episode is shorter than stated.

    Beside one frame a transition: the last one of each episode, the ones before the oldest
    transition that its stack shows, the first one of the next episode, and one row that `add`
    may write without need.

    Raises:
      ValueError: if any is not positive.
    """
    if min(capacity, stack, shortest_episode) < 1:
        raise ValueError(
            f"a replay of {capacity} transitions with stacks of {stack} frames and episodes of "
            f"{shortest_episode} steps cannot hold anything: all three must be at least 1"
        )
    return num_places(capacity + -(-capacity // shortest_episode) + stack + 1)


def init(
    capacity: int,
    lanes: int,
    frame_shape: tuple[int, ...],
    action_dim: int,
    stack: int,
    shortest_episode: int,
    index_shape: tuple[int, ...] = (),
) -> FrameReplay:
    """An empty replay of `capacity` transitions of each lane.

    Args:
      capacity: transitions kept per lane; the oldest one gives way.
      lanes: lanes.
      frame_shape: height, width and channels of one frame.
      action_dim: length of an action.
      stack: frames in one observation.
      shortest_episode: steps that every episode has at least. With shorter ones, fewer than
        `capacity` transitions are kept; nothing that is sampled is ever wrong.
      index_shape: of the bonus's index of one step.

    Raises:
      ValueError: if a number is not positive.
    """
    if lanes < 1:
        raise ValueError(
            f"a replay of {lanes} lanes cannot hold anything: there must be at least 1"
        )
    rows = num_rows(capacity, stack, shortest_episode)

    def zeros(dtype: Any, *shape: int) -> Array:
        return jnp.zeros((lanes, *shape), dtype)

    return FrameReplay(
        frames=FrameRows.zeros((lanes, rows), frame_shape, jnp.uint8),
        action=zeros(jnp.float32, capacity, action_dim),
        reward=zeros(jnp.float32, capacity),
        discount=zeros(jnp.float32, capacity),
        frame_number=zeros(jnp.int32, capacity),
        age=zeros(jnp.int32, capacity),
        bonus_index=zeros(jnp.int32, capacity, *index_shape),
        newest_age=zeros(jnp.int32),
        num_frames=zeros(jnp.int32),
        num_transitions=jnp.zeros((), jnp.int32),
    )


def begin(replay: FrameReplay, frame: UInt8[Array, "lanes height width channels"]) -> FrameReplay:
    """Writes the first frames of episodes, when there is no `add` that ends those before."""
    lanes, rows = len(replay.num_frames), replay.rows
    where = jnp.arange(lanes), replay.num_frames % rows
    return replay._replace(
        frames=replay.frames.write(where, frame, unique_indices=True, mode="promise_in_bounds"),
        newest_age=jnp.zeros_like(replay.newest_age),
        num_frames=replay.num_frames + 1,
    )


def add(
    replay: FrameReplay,
    action: Float[Array, "lanes action"],
    reward: Float[Array, " lanes"],
    discount: Float[Array, " lanes"],
    frame: UInt8[Array, "lanes height width channels"],
    final_frame: UInt8[Array, "lanes height width channels"],
    done: Bool[Array, " lanes"],
    bonus_index: Int[Array, " lanes *index"],
) -> FrameReplay:
    """Stores the transitions that start from the newest frames.

    Args:
      replay: donate it, and no frame but the new ones moves.
      action: a_t.
      reward: task reward of the step.
      discount: 0 where the task ended, else 1.
      frame: newest frame of what the agent sees next: the next episode's first where `done`.
      final_frame: newest frame of o_{t+1}, of the same episode.
      done: whether the episode ended, for whatever reason.
      bonus_index: what the bonus's `observe` returned for o_t.
    """
    lanes, rows = len(replay.num_frames), replay.rows
    lane, row = jnp.arange(lanes), replay.num_transitions % replay.reward.shape[1]
    # Lane by lane: for several seeds, a TPU copies all actions to run `at[:, row].set`.
    write = jax.vmap(partial(jax.lax.dynamic_update_index_in_dim, index=row, axis=0))
    # Where the episode goes on, the second one is written over by the next call.
    written = (replay.num_frames[:, None] + jnp.arange(2, dtype=jnp.int32)) % rows
    return FrameReplay(
        frames=replay.frames.write(
            (lane[:, None], written),
            jnp.stack([final_frame, frame], axis=1),
            unique_indices=True,
            mode="promise_in_bounds",
        ),
        action=write(replay.action, action),
        reward=write(replay.reward, reward),
        discount=write(replay.discount, discount),
        frame_number=write(replay.frame_number, replay.num_frames - 1),
        age=write(replay.age, replay.newest_age),
        bonus_index=write(replay.bonus_index, bonus_index),
        newest_age=jnp.where(done, 0, replay.newest_age + 1),
        num_frames=replay.num_frames + 1 + done.astype(jnp.int32),
        num_transitions=replay.num_transitions + 1,
    )


def num_valid(replay: FrameReplay, stack: int) -> Int[Array, " lanes"]:
    """Transitions of which all frames are still there; they are the newest ones of their lane."""
    rows, capacity = replay.rows, replay.reward.shape[1]
    oldest_needed = replay.frame_number - jnp.minimum(replay.age, stack - 1)
    # One row less: the one after the newest frame may have been written over.
    intact = oldest_needed >= replay.num_frames[:, None] - (rows - 1)
    written = jnp.arange(capacity) < replay.num_transitions
    return jnp.sum(intact & written, axis=1, dtype=jnp.int32)


def sample(
    key: PRNGKeyArray,
    replay: FrameReplay,
    batch_size: int,
    stack: int,
    n: int = 1,
    gamma: float = 1.0,
) -> tuple[Transitions, Int[Array, " batch *index"]]:
    """Draws transitions uniformly, with replacement; also returns the index stored with each.

    Observations are uint8 [batch, height, width, channels * stack], newest frame last; at the
    start of an episode its first frame stands for those before it. Bonuses are zero.

    With `n` > 1, a transition goes on for n steps, or for fewer where its episode ends or the
    newest transition is reached. `gamma` discounts the rewards after the first, and `discount` and
    `later.weight` are made of it; with n = 1 it is not used.

    The replay must hold a transition; from an empty one come zeros.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from re3_jax.replay import frame_ring
      >>> replay = frame_ring.init(100, 1, (8, 8, 3), 2, stack=3, shortest_episode=5)
      >>> frame = jnp.zeros((1, 8, 8, 3), jnp.uint8)
      >>> replay = frame_ring.begin(replay, frame)
      >>> one, no, index = jnp.ones(1), jnp.zeros(1, bool), jnp.zeros(1, jnp.int32)
      >>> action = jnp.zeros((1, 2))
      >>> replay = frame_ring.add(replay, action, one, one, frame + 9, frame + 9, no, index)
      >>> batch, index = frame_ring.sample(jax.random.key(0), replay, batch_size=4, stack=3)
      >>> batch.observation.shape, batch.next_observation[0, 0, 0].tolist()
      ((4, 8, 8, 9), [0, 0, 0, 0, 0, 0, 9, 9, 9])
    """
    rows, capacity = replay.rows, replay.reward.shape[1]
    ends = jnp.cumsum(num_valid(replay, stack))
    drawn = jax.random.randint(key, (batch_size,), 0, jnp.maximum(ends[-1], 1))
    lane = jnp.searchsorted(ends[:-1], drawn, side="right").astype(jnp.int32)
    # The newest transitions are the valid ones: older ones are overwritten first.
    back = ends[lane] - 1 - drawn
    row = (replay.num_transitions - 1 - back) % capacity
    number, age = replay.frame_number[lane, row], replay.age[lane, row]

    def stacks(
        steps: Int[Array, " batch"] | int, extra: int = 0
    ) -> UInt8[Array, "batch height width channels"]:
        """What is seen so many steps later, and `extra` frames before it."""
        newest = number + steps

        def frame_at(back: Int[Array, " batch"]) -> UInt8[Array, "batch height width channels"]:
            return replay.frames.read((lane, (newest - back) % rows))

        return FrameStack(stack).gather(frame_at, age + steps, extra)

    seen, channels = stacks(1, extra=1), replay.frames.frame_shape[-1]
    batch = Transitions(
        observation=seen[..., :-channels],
        action=replay.action[lane, row],
        reward=replay.reward[lane, row],
        bonus=jnp.zeros(batch_size, jnp.float32),
        discount=replay.discount[lane, row],
        next_observation=seen[..., channels:],
    )
    if n > 1:
        steps = jnp.ones_like(age)
        weight = jnp.ones(batch_size, jnp.float32)
        goes_on = jnp.ones(batch_size, bool)
        for k in range(1, n):
            after = lane, (row + k) % capacity
            # The next transition of the lane is of the same episode if its frame is a step older.
            goes_on &= (k <= back) & (replay.age[after] == age + k)
            steps += goes_on
            weight += jnp.where(goes_on, gamma**k, 0.0)
            batch = batch._replace(
                reward=batch.reward + jnp.where(goes_on, gamma**k * replay.reward[after], 0.0),
                discount=batch.discount * jnp.where(goes_on, gamma * replay.discount[after], 1.0),
            )
        batch = batch._replace(later=Later(stacks(steps), weight))
    return batch, replay.bonus_index[lane, row]
