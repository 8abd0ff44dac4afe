"""Prioritised replay of n-step transitions of several lanes, each frame stored once.

Proportional prioritisation (Schaul et al., 2016) as Rainbow uses it (Hessel et al., 2018): the
probability of a transition is proportional to its priority, and a new transition has the largest
priority so far.

A transition can be drawn while everything it needs is stored: its stack of frames, its n rewards,
and the stack it leads to. Windows stop at the end of an episode. A window that meets a time limit
is never drawn: the replay does not keep the observation to bootstrap from, and no reward may be cut
off.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from re3_jax.replay import sum_tree
from re3_jax.replay.frame_rows import FrameRows, num_places
from re3_jax.replay.frame_stack import FrameStack
from re3_jax.replay.sum_tree import SumTree


class PrioritizedReplay(NamedTuple):
    """First-in-first-out store; a row is one step of all lanes.

    Attributes:
      frames: newest frame of o_t; lane l in row t is frame t * lanes + l.
      action: a_t.
      reward: r_t.
      terminated: whether the task ended at this step.
      truncated: whether a time limit, and not the task, ended the episode at this step.
      age: agent steps since the episode began, 0 at its first observation.
      bonus_index: the index that the bonus returned for o_t.
      tree: priorities; lane l in row t is leaf t * lanes + l; 0 if it cannot be drawn.
      max_priority: the largest priority so far.
      num_frames: rows written so far; number n is in row n modulo the number of rows.
    """

    frames: FrameRows
    action: Int[Array, "rows lanes"]
    reward: Float[Array, "rows lanes"]
    terminated: Bool[Array, "rows lanes"]
    truncated: Bool[Array, "rows lanes"]
    age: Int[Array, "rows lanes"]
    bonus_index: Int[Array, "rows lanes *index"]
    tree: SumTree
    max_priority: Float[Array, ""]
    num_frames: Int[Array, ""]

    @property
    def num_written(self) -> Int[Array, "..."]:
        """Frames written so far, one for each lane and row."""
        return self.num_frames * self.action.shape[-1]

    @property
    def rows(self) -> int:
        """Frames kept."""
        return math.prod(self.action.shape[self.num_frames.ndim :])


class NStepTransitions(NamedTuple):
    """A batch of n-step transitions.

    Attributes:
      observation: stacks that end at o_t, frames along the last axis, the newest last; zero
        before the episode's first frame.
      action: a_t.
      reward: sum of gamma^k r_{t+k} over k < n, up to the end of the episode.
      discount: gamma^n, 0 if the task ended within the n steps.
      ended: whether the task ended with the first step.
      following: stacks that end at o_{t+1}; meaningless where the task `ended`.
      next_observation: stacks that end at o_{t+n}; meaningless where the task ended within the n
        steps.
      slot: leaf of each transition in the tree.
      bonus_index: the index that the bonus returned for o_t.
      probability: with which each transition was drawn.
    """

    observation: Shaped[Array, " batch *stack"]
    action: Int[Array, " batch"]
    reward: Float[Array, " batch"]
    discount: Float[Array, " batch"]
    ended: Bool[Array, " batch"]
    following: Shaped[Array, " batch *stack"]
    next_observation: Shaped[Array, " batch *stack"]
    slot: Int[Array, " batch"]
    bonus_index: Int[Array, " batch *index"]
    probability: Float[Array, " batch"]


def init(
    rows: int,
    lanes: int,
    frame_shape: tuple[int, ...],
    dtype: jnp.dtype,
    *,
    n: int,
    stack: int,
    index_shape: tuple[int, ...] = (),
) -> PrioritizedReplay:
    """An empty replay of `rows` steps of `lanes` lanes.

    `index_shape` is that of the bonus's index of one step.

    Raises:
      ValueError: if a number is not positive, or if the rows are too few for one transition.
    """
    if min(rows, lanes, n, stack) < 1:
        raise ValueError(
            f"a replay of {rows} rows of {lanes} lanes with {n} steps and stacks of {stack} cannot "
            "hold anything: all must be at least 1"
        )
    if rows < n + stack:
        raise ValueError(
            f"a replay of {rows} rows holds no transition of {n} steps with stacks of {stack}: it "
            f"needs at least {n + stack}"
        )
    return PrioritizedReplay(
        frames=FrameRows.zeros((num_places(rows * lanes),), frame_shape, dtype),
        action=jnp.zeros((rows, lanes), jnp.int32),
        reward=jnp.zeros((rows, lanes), jnp.float32),
        terminated=jnp.zeros((rows, lanes), bool),
        truncated=jnp.zeros((rows, lanes), bool),
        age=jnp.zeros((rows, lanes), jnp.int32),
        bonus_index=jnp.zeros((rows, lanes, *index_shape), jnp.int32),
        tree=sum_tree.init(rows * lanes),
        max_priority=jnp.ones((), jnp.float32),
        num_frames=jnp.zeros((), jnp.int32),
    )


def add(
    replay: PrioritizedReplay,
    frame: Shaped[Array, " lanes *frame"],
    action: Int[Array, " lanes"],
    reward: Float[Array, " lanes"],
    terminated: Bool[Array, " lanes"],
    truncated: Bool[Array, " lanes"],
    bonus_index: Int[Array, " lanes *index"],
    *,
    n: int,
    stack: int,
) -> PrioritizedReplay:
    """Writes one step of all lanes over the oldest row.

    Args:
      replay: the replay to write to.
      frame: newest frame of each lane's o_t.
      action: a_t.
      reward: r_t.
      terminated: whether the task ended at this step.
      truncated: whether a time limit ended the episode at this step.
      bonus_index: the index that the bonus's `observe` returned for o_t.
      n: steps of a transition.
      stack: frames of an observation.
    """
    rows, lanes = replay.action.shape
    row, lane = replay.num_frames % rows, jnp.arange(lanes, dtype=jnp.int32)
    before = (row - 1) % rows
    written = replay._replace(
        frames=replay.frames.write(
            row * lanes + lane, frame, unique_indices=True, mode="promise_in_bounds"
        ),
        action=replay.action.at[row].set(action),
        reward=replay.reward.at[row].set(reward),
        terminated=replay.terminated.at[row].set(terminated),
        truncated=replay.truncated.at[row].set(truncated & ~terminated),
        bonus_index=replay.bonus_index.at[row].set(bonus_index),
        num_frames=replay.num_frames + 1,
    )
    goes_on = (replay.num_frames > 0) & ~(written.terminated[before] | written.truncated[before])
    age = replay.age.at[row].set(jnp.where(goes_on, replay.age[before] + 1, 0))
    # The transition of this row is not whole yet, and the stacks of the rows after it lose a frame
    # (only once all rows are written: before that, nothing is overwritten).
    ahead = jnp.arange(stack)[:, None]
    lost = jnp.where(
        (ahead == 0) | (replay.num_frames >= rows),
        (row + ahead) % rows * lanes + lane,
        jnp.iinfo(jnp.int32).max,
    )
    whole_row = (row - n) % rows
    is_whole = (replay.num_frames >= n) & ~_meets_time_limit(written, whole_row, n)
    whole = jnp.where(is_whole, whole_row * lanes + lane, jnp.iinfo(jnp.int32).max)
    priority = jnp.concatenate(
        [jnp.zeros(lost.size, jnp.float32), jnp.broadcast_to(replay.max_priority, lanes)]
    )
    tree = sum_tree.update(replay.tree, jnp.concatenate([lost.ravel(), whole]), priority)
    return written._replace(age=age, tree=tree)


def cut(replay: PrioritizedReplay) -> PrioritizedReplay:
    """Truncates the episodes of all lanes after the step that was added last."""
    row = (replay.num_frames - 1) % replay.action.shape[0]
    return replay._replace(truncated=replay.truncated.at[row].set(~replay.terminated[row]))


def _meets_time_limit(replay: PrioritizedReplay, row, n: int) -> Bool[Array, " lanes"]:
    """Whether a time limit falls within n steps of a row before the task ends."""
    window = (row + jnp.arange(n)) % replay.action.shape[0]
    ended = replay.terminated[window] | replay.truncated[window]
    first = jnp.argmax(ended, axis=0)
    return jnp.take_along_axis(replay.truncated[window], first[None], axis=0)[0]


def sample(
    key: PRNGKeyArray,
    replay: PrioritizedReplay,
    batch_size: int,
    *,
    n: int,
    stack: int,
    gamma: float,
) -> NStepTransitions:
    """Draws transitions in proportion to their priorities, one from each of `batch_size` strata.

    Where none can be drawn (`can_sample`), each is that of slot 0, with a probability of NaN.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from re3_jax.replay import prioritized
      >>> n_step = {"n": 2, "stack": 1}
      >>> replay = prioritized.init(10, 1, (1,), jnp.float32, **n_step)
      >>> no, zero = jnp.zeros(1, bool), jnp.zeros(1, jnp.int32)
      >>> for step in range(3):
      ...     frame, reward = jnp.full((1, 1), step, jnp.float32), jnp.ones(1)
      ...     replay = prioritized.add(replay, frame, zero, reward, no, no, zero, **n_step)
      >>> batch = prioritized.sample(jax.random.key(0), replay, 4, gamma=0.5, **n_step)
      >>> batch.reward.tolist(), batch.discount.tolist()
      ([1.5, 1.5, 1.5, 1.5], [0.25, 0.25, 0.25, 0.25])
    """
    rows, lanes = replay.action.shape
    uniform, within = jax.random.uniform(key, (2, batch_size))
    slot = sum_tree.find(replay.tree, sum_tree.stratified_shares(uniform), within)
    slot = jnp.where(can_sample(replay), slot, 0)
    probability = sum_tree.priority_of(replay.tree, slot) / sum_tree.total(replay.tree)
    row, lane = slot // lanes, slot % lanes
    window = (row[:, None] + jnp.arange(n)) % rows
    terminated = replay.terminated[window, lane[:, None]]
    ends_before = jnp.cumsum(terminated, axis=1) - terminated > 0
    factor = jnp.where(ends_before, 0.0, gamma ** jnp.arange(n))
    reward = jnp.sum(factor * replay.reward[window, lane[:, None]], axis=1)
    return NStepTransitions(
        observation=_stacks(replay, row, lane, stack),
        action=replay.action[row, lane],
        reward=reward,
        discount=jnp.where(jnp.any(terminated, axis=1), 0.0, gamma**n),
        ended=terminated[:, 0],
        following=_stacks(replay, (row + 1) % rows, lane, stack),
        next_observation=_stacks(replay, (row + n) % rows, lane, stack),
        slot=slot,
        bonus_index=replay.bonus_index[row, lane],
        probability=probability,
    )


def _stacks(
    replay: PrioritizedReplay, row: Int[Array, " batch"], lane: Int[Array, " batch"], stack: int
) -> Shaped[Array, " batch *stack"]:
    def frame_at(back: Int[Array, " batch"]) -> Shaped[Array, " batch *frame"]:
        rows, lanes = replay.action.shape
        return replay.frames.read((row - back) % rows * lanes + lane)

    return FrameStack(stack, "zeros").gather(frame_at, replay.age[row, lane])


def can_sample(replay: PrioritizedReplay) -> Bool[Array, ""]:
    """Whether any transition can be drawn."""
    return sum_tree.total(replay.tree) > 0


def update_priorities(
    replay: PrioritizedReplay, slot: Int[Array, " batch"], priority: Float[Array, " batch"]
) -> PrioritizedReplay:
    """Sets new priorities |loss|^alpha, positive and finite, for transitions that were just drawn.

    Where nothing could be drawn they must be 0, which changes nothing. Equal entries of `slot` must
    have equal priorities. Do not add steps between `sample` and this.
    """
    return replay._replace(
        tree=sum_tree.update(replay.tree, slot, priority),
        max_priority=jnp.maximum(replay.max_priority, jnp.max(priority)),
    )


def importance_weights(
    probability: Float[Array, " batch"], beta: Float[Array, ""] | float
) -> Float[Array, " batch"]:
    """(N P(i))^-beta, divided by the largest of the batch, so that N does not matter."""
    weight = (probability / jnp.min(probability)) ** -beta
    return weight / jnp.max(weight)
