"""A replay of image observations that stores each frame once.

A transition is a row of small arrays (action, reward, discount) and the number of the frame it
starts from; stacks and next observations are put together when a batch is sampled. A hundred
thousand 100x100 frames take 3.0 GB where whole stacks of three, twice, would take 18 GB.

Frames are numbered from 0 in the order they are written and frame n lies in row n modulo the
number of rows. An episode of T transitions writes T + 1 frames one after the other, so the
frame after o_t's is o_{t+1}'s, also where the episode ends, and a stack never reaches into
another episode as long as it stops at the episode's first frame.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from re3_jax.agents.transitions import Transitions


class FrameReplay(NamedTuple):
    """First-in-first-out store of transitions and of their frames.

    Transition number i lies in row i modulo the capacity. The two numbers that count from the
    start are int32: they are right for 2^31 - 1 frames.

    Attributes:
      frames: the frames; rows not yet written are zero, and the row after the newest frame may
        hold a frame that belongs to nothing.
      action: a_t.
      reward: task reward.
      discount: 0 where the task ended at this step, else 1.
      frame_number: number of the newest frame of o_t, counted from the first one ever written.
      age: frames that the episode had before that one.
      bonus_index: where the bonus keeps what belongs to o_t.
      newest_age: the same of the newest frame, from which the next transition starts.
      num_frames: frames written so far, those since overwritten included.
      num_transitions: transitions written so far, likewise.
    """

    frames: UInt8[Array, "rows height width channels"]
    action: Float[Array, "capacity action"]
    reward: Float[Array, " capacity"]
    discount: Float[Array, " capacity"]
    frame_number: Int[Array, " capacity"]
    age: Int[Array, " capacity"]
    bonus_index: Int[Array, " capacity"]
    newest_age: Int[Array, ""]
    num_frames: Int[Array, ""]
    num_transitions: Int[Array, ""]


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
    return capacity + -(-capacity // shortest_episode) + stack + 1


def init(
    capacity: int,
    frame_shape: tuple[int, int, int],
    action_dim: int,
    stack: int,
    shortest_episode: int,
) -> FrameReplay:
    """An empty replay of `capacity` transitions.

    Args:
      capacity: transitions kept; the oldest one gives way.
      frame_shape: height, width and channels of one frame.
      action_dim: length of an action.
      stack: frames in one observation.
      shortest_episode: steps that every episode has at least. With shorter ones, fewer than
        `capacity` transitions are kept; nothing that is sampled is ever wrong.

    Raises:
      ValueError: if a number is not positive.
    """
    rows = num_rows(capacity, stack, shortest_episode)
    return FrameReplay(
        frames=jnp.zeros((rows, *frame_shape), jnp.uint8),
        action=jnp.zeros((capacity, action_dim), jnp.float32),
        reward=jnp.zeros(capacity, jnp.float32),
        discount=jnp.zeros(capacity, jnp.float32),
        frame_number=jnp.zeros(capacity, jnp.int32),
        age=jnp.zeros(capacity, jnp.int32),
        bonus_index=jnp.zeros(capacity, jnp.int32),
        newest_age=jnp.zeros((), jnp.int32),
        num_frames=jnp.zeros((), jnp.int32),
        num_transitions=jnp.zeros((), jnp.int32),
    )


def start(replay: FrameReplay, frame: UInt8[Array, "height width channels"]) -> FrameReplay:
    """Writes the first frame of an episode, when there is no `add` that ends the one before."""
    rows = replay.frames.shape[0]
    return replay._replace(
        frames=replay.frames.at[replay.num_frames % rows].set(frame, mode="promise_in_bounds"),
        newest_age=jnp.zeros_like(replay.newest_age),
        num_frames=replay.num_frames + 1,
    )


def add(
    replay: FrameReplay,
    action: Float[Array, " action"],
    reward: Float[Array, ""],
    discount: Float[Array, ""],
    frame: UInt8[Array, "height width channels"],
    final_frame: UInt8[Array, "height width channels"],
    done: Bool[Array, ""],
    bonus_index: Int[Array, ""],
) -> FrameReplay:
    """Stores the transition that starts from the newest frame.

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
    rows, capacity = replay.frames.shape[0], replay.reward.shape[0]
    # Where the episode goes on, the second one is written over by the next call.
    written = (replay.num_frames + jnp.arange(2, dtype=jnp.int32)) % rows
    row = replay.num_transitions % capacity
    return FrameReplay(
        frames=replay.frames.at[written].set(
            jnp.stack([final_frame, frame]), unique_indices=True, mode="promise_in_bounds"
        ),
        action=replay.action.at[row].set(action),
        reward=replay.reward.at[row].set(reward),
        discount=replay.discount.at[row].set(discount),
        frame_number=replay.frame_number.at[row].set(replay.num_frames - 1),
        age=replay.age.at[row].set(replay.newest_age),
        bonus_index=replay.bonus_index.at[row].set(bonus_index),
        newest_age=jnp.where(done, 0, replay.newest_age + 1),
        num_frames=replay.num_frames + 1 + done.astype(jnp.int32),
        num_transitions=replay.num_transitions + 1,
    )


def num_valid(replay: FrameReplay, stack: int) -> Int[Array, ""]:
    """Transitions of which all frames are still there; they are the newest ones."""
    rows, capacity = replay.frames.shape[0], replay.reward.shape[0]
    oldest_needed = replay.frame_number - jnp.minimum(replay.age, stack - 1)
    # One row less: the one after the newest frame may have been written over.
    intact = oldest_needed >= replay.num_frames - (rows - 1)
    written = jnp.arange(capacity) < replay.num_transitions
    return jnp.sum(intact & written, dtype=jnp.int32)


def sample(
    key: PRNGKeyArray, replay: FrameReplay, batch_size: int, stack: int
) -> tuple[Transitions, Int[Array, " batch"]]:
    """Draws transitions uniformly, with replacement; also returns the index stored with each.

    Observations are uint8 [batch, height, width, channels * stack], newest frame last; at the
    start of an episode its first frame stands for those before it. Bonuses are zero.

    The replay must hold a transition; from an empty one come zeros.
    """
    rows, capacity = replay.frames.shape[0], replay.reward.shape[0]
    back = jax.random.randint(key, (batch_size,), 0, jnp.maximum(num_valid(replay, stack), 1))
    row = (replay.num_transitions - 1 - back) % capacity
    newest = replay.frame_number[row]
    # o_t and o_{t+1} share all frames but one each.
    numbers = newest[:, None] + jnp.arange(1 - stack, 2, dtype=jnp.int32)
    numbers = jnp.maximum(numbers, (newest - replay.age[row])[:, None])
    channels = replay.frames.shape[-1]
    seen = _stacks(replay.frames, numbers % rows)
    return (
        Transitions(
            observation=seen[..., :-channels],
            action=replay.action[row],
            reward=replay.reward[row],
            bonus=jnp.zeros(batch_size, jnp.float32),
            discount=replay.discount[row],
            next_observation=seen[..., channels:],
        ),
        replay.bonus_index[row],
    )


def newest_stack(replay: FrameReplay, stack: int) -> UInt8[Array, "height width stacked"]:
    """The current observation: the stack that ends with the newest frame written."""
    newest = replay.num_frames - 1
    numbers = newest + jnp.arange(1 - stack, 1, dtype=jnp.int32)
    numbers = jnp.maximum(numbers, newest - replay.newest_age)
    return _stacks(replay.frames, numbers[None] % replay.frames.shape[0])[0]


def _stacks(
    frames: UInt8[Array, "rows height width channels"], rows: Int[Array, "batch stack"]
) -> UInt8[Array, "batch height width stacked"]:
    # Frame by frame: half the memory and time of one gather that is transposed afterwards.
    return jnp.concatenate(
        [frames.at[column].get(mode="promise_in_bounds") for column in rows.T], axis=-1
    )
