"""Any bonus for loops that keep NumPy arrays: an object with a state behind the pure functions.

The programs are those of `re3_jax.intrinsic`, compiled, so the numbers are the same. A loop takes
one of two ways:

- on-policy (Algorithm 2): `reward_rollout` once for every rollout;
- off-policy (Algorithm 1): `observe` for every step that a replay stores, with the index that it
  returns; `reward` and `update` for every batch that the replay returns.

Each new number of rows is compiled once, so keep the sizes of rollouts and batches.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float32, Int32, PRNGKeyArray

from re3_jax import checks, compilation
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.interop import state_file
from re3_jax.intrinsic import rewarding
from re3_jax.intrinsic.base import IntrinsicBatch, IntrinsicReward, IntrinsicState, Step
from re3_jax.intrinsic.checking import validated

Info = dict[str, float]
"""The scalars of a bonus's `info`."""


class NumpyBonusState(NamedTuple):
    """All that `NumpyBonus.save` writes.

    Attributes:
      intrinsic: state of the bonus.
      key: random stream of its updates; each takes the second half of a split and leaves the first.
      agent_steps: steps observed so far, int64, summed over lanes.
      num_indices: the largest index that `observe` has returned, plus 1, int64; at first 1, because
        a bonus that uses no index is given zeros.
    """

    intrinsic: IntrinsicState
    key: PRNGKeyArray
    agent_steps: Any
    num_indices: Any


class NumpyBonus:
    """A bonus, its state and its random stream.

    Arrays are copied when they are passed, so a loop may reuse its buffers at once. They are cast
    to the dtypes of the task's `EnvSpec` where NumPy calls that a cast of the same kind, such as
    float64 to float32. Every method that gets an array of another shape or kind, NaN, infinity or
    an action that the task does not have raises a ValueError and leaves the state as it was.

    Use it from one thread at a time. `save` and `restore` keep its state, not pickle or
    `copy.copy`.

    Attributes:
      spec: the task.
      num_lanes: number of environments (lanes).

    Example:
      >>> import numpy as np
      >>> from re3_jax.envs.base import Discrete, EnvSpec
      >>> from re3_jax.intrinsic import RE3Config, Step, from_config
      >>> from re3_jax.interop.numpy_bonus import NumpyBonus
      >>> spec = EnvSpec("car", (2,), np.dtype(np.float32), Discrete(3), max_agent_steps=200)
      >>> bonus = NumpyBonus(from_config(RE3Config(ring_size=64, beta=0.1)), spec, num_lanes=2)
      >>> observations = np.random.default_rng(0).normal(size=(8, 2, 2))  # [time, lane, ...]
      >>> reward, info = bonus.reward_rollout(Step(observations))
      >>> reward.shape, bonus.agent_steps
      ((8, 2), 16)
    """

    def __init__(self, bonus: IntrinsicReward, spec: EnvSpec, num_lanes: int, seed: int = 0):
        """Draws the initial state.

        Args:
          bonus: such as `re3_jax.intrinsic.from_config(RE3Config(beta=0.01))`.
          spec: the task.
          num_lanes: number of environments; at least 1.
          seed: decides the random encoder, and the random streams of a bonus that learns.

        Raises:
          TypeError: if it is no bonus, such as the options of one.
          ValueError: if the bonus does not suit the task, or there is no lane.
        """
        bonus = validated(bonus)
        self.spec, self.num_lanes, self._in_order = spec, num_lanes, bonus.in_order
        checks.at_least(self, 1, "num_lanes")
        self._index_shape = bonus.index_shape

        def init(key: PRNGKeyArray) -> tuple[IntrinsicState, PRNGKeyArray]:
            init_key, stream = jax.random.split(key)
            return bonus.init(init_key, spec, num_lanes), stream

        def update(intrinsic: IntrinsicState, stream: PRNGKeyArray, batch: IntrinsicBatch):
            stream, key = jax.random.split(stream)
            return *bonus.update(intrinsic, batch, key), stream

        def reward_rollout(
            intrinsic: IntrinsicState, stream: PRNGKeyArray, steps: Step, agent_steps: Array
        ):
            stream, key = jax.random.split(stream)
            return *rewarding.reward_rollout(bonus, intrinsic, steps, agent_steps, key), stream

        intrinsic, stream = compilation.jit(init)(jax.random.key(seed))
        self._state = NumpyBonusState(intrinsic, stream, np.int64(0), np.int64(1))
        self._observe = compilation.jit(bonus.observe, donate_argnums=0)
        self._restart = compilation.jit(bonus.restart, donate_argnums=0)
        self._reward = compilation.jit(bonus.reward, donate_argnums=0)
        self._update = compilation.jit(update, donate_argnums=0)
        self._reward_rollout = compilation.jit(reward_rollout, donate_argnums=0)

    def restart(self, lanes: Any = None) -> None:
        """Forgets the present episodes, because environments were reset before they had ended.

        Args:
          lanes: which, bool [lane]; by default all.

        Raises:
          ValueError: if it is no array of that kind.
        """
        which = np.ones(self.num_lanes, bool) if lanes is None else np.array(lanes)
        if which.dtype != bool or which.shape != (self.num_lanes,):
            raise ValueError(
                f"lanes is {which.dtype} {list(which.shape)}: give bool [{self.num_lanes}], True "
                "where an environment was reset"
            )
        intrinsic = self._restart(self._state.intrinsic, which)
        self._state = self._state._replace(intrinsic=intrinsic)

    @property
    def agent_steps(self) -> int:
        """Steps observed so far, summed over lanes: the t of beta_t."""
        return int(self._state.agent_steps)

    def observe(
        self,
        observation: Any,
        action: Any = None,
        next_observation: Any = None,
        terminated: Any = None,
        truncated: Any = None,
        state_number: Any = None,
        value: Any = None,
    ) -> Int32[np.ndarray, " lane *index"]:
        """Observes one step of every lane; a replay stores the index with the transition.

        A bonus accepts None for what it does not use; RE3 uses the observation only. One that does
        not remember episodes (`IntrinsicReward.in_order`) takes any number of rows, such as a
        whole data set.

        Args:
          observation: o_t [lane, ...].
          action: a_t [lane, ...].
          next_observation: o_{t+1} of the same episode, even if the episode ended [lane, ...].
          terminated: whether the task ended at this step, bool [lane].
          truncated: whether a time limit ended the episode at this step, bool [lane].
          state_number: the number of the state in which a_t was taken, where the task numbers its
            states, int32 [lane].
          value: the agent's V(o_t), float32 [lane].

        Returns:
          The index, int32 [lane]; of a sum of bonuses, [lane, parts].

        Raises:
          TypeError: if it is a whole `Step`.
          ValueError: if there is no step.
        """
        if isinstance(observation, Step):
            raise TypeError("observation is a Step: give its fields, observe(*step)")
        if len(observation) < 1:
            raise ValueError("there is no step to observe: give observations [lane, ...]")
        ends = terminated, truncated
        given = Step(observation, action, next_observation, *ends, state_number, value)
        step = self._checked(given, (self._lanes(len(observation)),))
        intrinsic, index = self._observe(self._state.intrinsic, step)
        self._advance(step.observation.shape[0], intrinsic)
        found = np.array(index)
        num_indices = np.int64(max(self._state.num_indices, int(found.max()) + 1))
        self._state = self._state._replace(num_indices=num_indices)
        return found

    def reward(self, batch: IntrinsicBatch) -> tuple[Float32[np.ndarray, " batch"], Info]:
        """Rewards a batch with beta_t r_i, against all that was observed so far.

        Args:
          batch: NumPy arrays; `bonus_index` as `observe` returned it, at most as many steps ago as
            the bonus stores, and `agent_steps` is usually this object's.

        Returns:
          The rewards, float32 [batch], and the info.

        Raises:
          ValueError: if the batch is empty, or an index is none that `observe` has returned.
        """
        value, intrinsic, info = self._reward(self._state.intrinsic, self._checked_batch(batch))
        self._state = self._state._replace(intrinsic=intrinsic)
        return np.array(value), _floats(info)

    def update(self, batch: IntrinsicBatch) -> Info:
        """Trains what the bonus learns on a batch; RE3 learns nothing."""
        intrinsic, info, stream = self._update(*self._state[:2], self._checked_batch(batch))
        self._state = self._state._replace(intrinsic=intrinsic, key=stream)
        return _floats(info)

    def reward_rollout(self, steps: Step) -> tuple[Float32[np.ndarray, "time lane"], Info]:
        """Observes a rollout, rewards it and trains the bonus on it.

        Args:
          steps: NumPy arrays as in `observe`, with a leading axis of time.

        Returns:
          The rewards beta_t r_i, float32 [time, lane], and the info. t is `agent_steps` before the
          rollout.

        Raises:
          TypeError: if it is no `Step`.
          ValueError: if there is no step.
        """
        value, intrinsic, info, stream = self._reward_rollout(
            *self._state[:2], *self._rollout(steps)
        )
        self._state = self._state._replace(key=stream)
        self._advance(value.size, intrinsic)
        return np.array(value), _floats(info)

    def check_rollout(self, time: int, lanes: int) -> None:
        """Whether `reward_rollout` takes so many steps without numbers of states or values.

        It runs nothing.

        Raises:
          ValueError: as `reward_rollout` would.
        """
        rows, space = (time, lanes), self.spec.action_space
        seen = np.zeros((*rows, *self.spec.observation_shape), self.spec.observation_dtype)
        action, flag = np.zeros((*rows, *space.shape), space.dtype), np.zeros(rows, bool)
        steps: list[Any] = [seen, action, seen, flag, flag]
        jax.eval_shape(self._reward_rollout, *self._state[:2], *self._rollout(Step(*steps)))

    def save(self, path: str | Path) -> None:
        """Writes the whole state into one file (io), as `state_file.save` does."""
        state_file.save(path, self._state)

    def restore(self, path: str | Path) -> None:
        """Goes on from a saved state exactly as if there had been no stop (io).

        This object must have been made with the same bonus, task and number of lanes.

        Raises:
          ValueError: if the file is missing or damaged, or if its state has another form than this
            bonus's; the state is then left as it was.
        """
        self._state = state_file.restore(path, self._state)

    def _advance(self, steps: int, intrinsic: IntrinsicState) -> None:
        agent_steps = np.int64(self.agent_steps + steps)
        self._state = self._state._replace(intrinsic=intrinsic, agent_steps=agent_steps)

    def _rollout(self, steps: Step) -> tuple[Step, np.int32]:
        if not isinstance(steps, Step):
            raise TypeError(
                f"a rollout is a Step of arrays, not a {type(steps).__name__}: give "
                "Step(observation, ...)"
            )
        shape = np.shape(steps.observation)
        if len(shape) < 2:
            raise ValueError(
                f"observations of shape {shape} have no axes for time and lane: give arrays of "
                "[time, lane, ...]"
            )
        time, lanes = shape[:2]
        if min(time, lanes) < 1:
            raise ValueError(f"a rollout of {time} steps of {lanes} lanes has nothing to reward")
        return self._checked(steps, (time, self._lanes(lanes))), _as_int32(self.agent_steps)

    def _lanes(self, given: int) -> int:
        """The length that the lane axis must have."""
        return self.num_lanes if self._in_order else given

    def _checked(self, step: Step, rows: tuple[int, ...]) -> Step:
        observations = rows, self.spec.observation_shape, self.spec.observation_dtype
        space = self.spec.action_space
        flags = rows, (), np.dtype(bool)
        checked = Step(
            _array("observation", step.observation, *observations),
            _array("action", step.action, rows, space.shape, space.dtype),
            _array("next_observation", step.next_observation, *observations),
            _array("terminated", step.terminated, *flags),
            _array("truncated", step.truncated, *flags),
            _array("state_number", step.state_number, rows, (), np.dtype(np.int32)),
            _array("value", step.value, rows, (), np.dtype(np.float32)),
        )
        if isinstance(space, Discrete) and checked.action is not None:
            _check_range("action", np.asarray(checked.action), space.num_actions)
        if self.spec.num_states is not None and checked.state_number is not None:
            _check_range("state_number", np.asarray(checked.state_number), self.spec.num_states)
        return checked

    def _checked_batch(self, batch: IntrinsicBatch) -> IntrinsicBatch:
        rows = (len(batch.observation),)
        if rows[0] < 1:
            raise ValueError("the batch has no transition: leave out a reward or update of none")
        step: Any = self._checked(Step(*batch[:3], value=batch.value), rows)
        index = _array(
            "bonus_index", batch.bonus_index, rows, self._index_shape, np.dtype(np.int32)
        )
        if index is not None:
            _check_range("bonus_index", index, int(self._state.num_indices))
        known = _array("next_is_known", batch.next_is_known, rows, (), np.dtype(bool))
        agent_steps: Any = _as_int32(batch.agent_steps)
        seen = step.observation, step.action, step.next_observation
        return IntrinsicBatch(*seen, index, agent_steps, step.value, known)


def _array(
    name: str, value: Any, rows: tuple[int, ...], shape: tuple[int, ...], dtype: np.dtype
) -> Any:
    """A copy of `value`: a compiled program may read its arguments after the call returned.

    Raises:
      ValueError: if it has not the shape [*rows, *shape] or not a dtype of the kind of `dtype`, or
        if it holds what is not finite or no number of JAX's 32 bits.
    """
    if value is None:
        return None
    given = np.asarray(value)
    wanted = (*rows, *shape)
    if given.shape != wanted or not np.can_cast(given.dtype, dtype, "same_kind"):
        leading = " (a rollout leads with time and lane)" * (len(rows) > 1)
        raise ValueError(
            f"{name} must be {dtype}{list(wanted)}{leading}, but it is "
            f"{given.dtype}{list(given.shape)}"
        )
    array = np.array(given, dtype, order="C")
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        raise ValueError(
            f"{name} holds NaN or infinity, first at {place}: a bonus cannot tell how far it is "
            "from others, so mend or leave out the step"
        )
    narrow = jax.dtypes.canonicalize_dtype(array.dtype)
    if np.issubdtype(narrow, np.integer) and (given != array.astype(narrow)).any():
        raise ValueError(
            f"{name} holds whole numbers that {np.dtype(narrow)} does not: make them real numbers, "
            "float32, in the specification, too"
        )
    return array


def _check_range(name: str, numbers: Int32[np.ndarray, "..."], count: int) -> None:
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    if wrong.size:
        raise ValueError(f"{name} holds {wrong[0]}: give numbers from 0 to {count - 1}")


def _floats(info: Any) -> Info:
    return {name: float(value) for name, value in jax.device_get(info).items()}


def _as_int32(agent_steps: Any) -> np.int32:
    """Agent steps as programs count them, int32: more than the largest int32 count as that.

    Raises:
      ValueError: if it is no whole number of at least 0.
    """
    if not np.issubdtype(np.asarray(agent_steps).dtype, np.integer) or np.shape(agent_steps):
        raise ValueError(f"agent_steps is {agent_steps!r}: give one whole number")
    if agent_steps < 0:
        raise ValueError(f"agent_steps is {agent_steps}: give a number of at least 0")
    return np.int32(min(int(agent_steps), np.iinfo(np.int32).max))
