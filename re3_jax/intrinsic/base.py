"""The intrinsic-reward protocol: four pure functions and `chain`, in the style of optax.

`observe` runs once per stored step: RE3 encodes the observation and writes the latent; an episodic
bonus updates its memory and clears it at the end of an episode. `reward` runs each time a batch is
used: RE3 searches all stored latents. `update` trains the networks of the bonus.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from re3_jax.envs.base import EnvSpec
from re3_jax.forms import check_tuple
from re3_jax.inheritance import inherits
from re3_jax.intrinsic.rows import check_rows
from re3_jax.replay import value_ring
from re3_jax.replay.value_ring import ValueRing
from re3_jax.varying import varying_like

IntrinsicState = Any
Info = dict[str, Float[Array, ""]]

Observe = Callable[..., tuple[IntrinsicState, Int[Array, "..."]]]
"""(state, step) -> (state, index of each lane): of one step, or of a rollout with time in front."""


class Step(NamedTuple):
    """One stored step of all lanes; a bonus accepts None for fields that it does not use.

    Attributes:
      observation: o_t.
      action: a_t.
      next_observation: o_{t+1} of the same episode, even if the episode ended.
      terminated: whether the task ended at this step.
      truncated: whether a time limit ended the episode at this step.
      state_number: the number of the state in which a_t was taken, where the task numbers its
        states (`CountableStates.counted`).
      value: V(o_t) as the agent estimates it when the step is stored.
    """

    observation: Shaped[Array, " lane *observation"]
    action: Shaped[Array, " lane *action"] | None = None
    next_observation: Shaped[Array, " lane *observation"] | None = None
    terminated: Bool[Array, " lane"] | None = None
    truncated: Bool[Array, " lane"] | None = None
    state_number: Int[Array, " lane"] | None = None
    value: Float[Array, " lane"] | None = None

    def required(self, name: str) -> Array:
        """A field that a bonus cannot do without; a ValueError if it is None."""
        return _required(self, name)

    @property
    def ended(self) -> Bool[Array, " lane"]:
        """Whether the episode ended at this step.

        Raises:
          ValueError: if the step does not say, which a bonus that remembers episodes must know, or
            not as bools of one shape.
        """
        flags = self.required("terminated"), self.required("truncated")
        if flags[0].shape != flags[1].shape or {flag.dtype for flag in flags} != {jnp.dtype(bool)}:
            found = " and ".join(f"{flag.dtype}{list(flag.shape)}" for flag in flags)
            raise ValueError(f"terminated and truncated are {found}: give bools, one of each lane")
        return flags[0] | flags[1]


class IntrinsicBatch(NamedTuple):
    """A batch of transitions to reward.

    Attributes:
      observation: o_t.
      action: a_t.
      next_observation: o_{t+1} of the same episode, where `next_is_known`.
      bonus_index: the index that `observe` returned for each o_t. A bonus uses it to look up a
        stored latent instead of encoding again, so what it stores must hold as many steps as the
        replay: a row that was overwritten since is that of another observation. A sum of bonuses
        has one for each part.
      agent_steps: agent steps taken so far by all lanes together, the argument of the beta
        schedules.
      value: V(o_t) as the agent estimates it now; None for a bonus that does not use it.
      next_is_known: where `next_observation` is o_{t+1}; None if it always is. A replay that keeps
        one frame a step has that of the next episode in its place where an episode ended.
      targets: what `IntrinsicReward.targets` gave for these rows; None for an `update` that must
        compute it.
    """

    observation: Shaped[Array, " batch *observation"]
    action: Shaped[Array, " batch *action"]
    next_observation: Shaped[Array, " batch *observation"]
    bonus_index: Int[Array, " batch *index"]
    agent_steps: Int[Array, ""]
    value: Float[Array, " batch"] | None = None
    next_is_known: Bool[Array, " batch"] | None = None
    targets: Any = None

    def with_known_next(self) -> "IntrinsicBatch":
        """Returns the batch with its first row that has an o_{t+1} in place of each without one.

        If no row has one, with its first row.
        """
        known = self.next_is_known
        if known is None:
            return self
        return self.rows(jnp.where(known, jnp.arange(known.shape[0]), jnp.argmax(known)))

    def rows(self, index: Int[Array, " rows"]) -> "IntrinsicBatch":
        """Returns these rows of the batch, at the same number of agent steps."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[index] if jnp.ndim(leaf) else leaf, self)

    def paid_for_known(self, reward: Float[Array, " batch"]) -> Float[Array, " batch"]:
        """Rewards that depend on o_{t+1}: 0 where it is not known."""
        return reward if self.next_is_known is None else jnp.where(self.next_is_known, reward, 0.0)

    def required(self, name: str) -> Array:
        """A field that a bonus cannot do without; a ValueError if it is None."""
        return _required(self, name)


def _required(given: Step | IntrinsicBatch, name: str) -> Array:
    value: Array | None = getattr(given, name)
    if value is None:
        raise ValueError(f"this bonus needs {name} of every step: give it with the observation")
    return value


class IntrinsicReward(NamedTuple):
    """A bonus: pure functions over an explicit state.

    init(key, spec, num_lanes) -> state
    observe(state, step) -> (state, index[lane, *index_shape] int32); the replay stores the index
      with the step
    reward(state, batch) -> (reward[batch] float32, state, info)
    update(state, batch, key) -> (state, info)
    observe_rollout: `observe` for a rollout, whose leaves have the leading axes time and lane, of a
      bonus that must see the steps of a lane one after another, because it keeps an episodic
      memory (`one_by_one`, `prepared`); replace it together with `observe`. None for any other:
      `observe` gets the whole rollout at once, each step as a lane of its own.
    index_shape: shape of the index of one step; a replay is made for it.
    needs_stored_value: whether `observe` uses `Step.value`.
    needs_value: whether `reward` uses `IntrinsicBatch.value`.
    targets(state, batch) -> pytree [batch, ...]; what updates need of each transition and no update
      changes, such as the output of a network that never learns. Where several updates learn from
      the rows of a batch, it is computed once for all of them. By default there is nothing such.
    restart(state, lanes) -> state; forgets the present episodes of these lanes (bool[lane]): their
      environments were reset, or could not be restored.

    An `info` is a dict of float32 scalars for the log; a bonus always returns the same keys.
    """

    init: Callable[..., IntrinsicState]
    observe: Observe
    reward: Callable[
        [IntrinsicState, IntrinsicBatch], tuple[Float[Array, " batch"], IntrinsicState, Info]
    ]
    update: Callable[[IntrinsicState, IntrinsicBatch, PRNGKeyArray], tuple[IntrinsicState, Info]]
    observe_rollout: Observe | None = None
    index_shape: tuple[int, ...] = ()
    needs_stored_value: bool = False
    needs_value: bool = False
    targets: Callable[[IntrinsicState, IntrinsicBatch], Any] = lambda state, batch: None
    restart: Callable[[IntrinsicState, Bool[Array, " lane"]], IntrinsicState] = (
        lambda state, lanes: state
    )

    @property
    def in_order(self) -> bool:
        """Whether the steps of a lane must be observed one after another."""
        return self.observe_rollout is not None


class RewardTransform(NamedTuple):
    """A map from rewards to rewards, possibly with a running statistic.

    init() -> state
    apply(state, reward[batch], agent_steps) -> (reward[batch], state)
    report(state, agent_steps) -> info, from the state that `apply` returned
    """

    init: Callable[[], Any]
    apply: Callable[
        [Any, Float[Array, " batch"], Int[Array, ""]], tuple[Float[Array, " batch"], Any]
    ]
    report: Callable[[Any, Int[Array, ""]], Info] = lambda state, agent_steps: {}


@inherits("bonus", "transforms")
class ChainState(NamedTuple):
    """State of `chain`: that of the bonus, and one per transform."""

    bonus: IntrinsicState
    transforms: tuple[Any, ...]


_OBSERVE = "observe of the bonus"


def check_is_bonus(bonus: Any) -> None:
    """Refuses what is no bonus, such as the options of one, with a TypeError."""
    if not isinstance(bonus, IntrinsicReward):
        raise TypeError(
            f"bonus is a {type(bonus).__name__}: give an IntrinsicReward, such as "
            "re3_jax.intrinsic.from_config makes of a RE3Config"
        )


def chain(bonus: IntrinsicReward, *transforms: RewardTransform) -> IntrinsicReward:
    """Passes the rewards of `bonus` through `transforms`, left to right, and merges their infos.

    To whoever differentiates, the rewards of `bonus` are constants.

    Example:
      RE3 with the reward of Equation 3, and beta_t that decays:

      >>> from re3_jax.intrinsic import RE3Config, chain, log1p, re3, scale_by_schedule
      >>> from re3_jax.schedules import exponential_decay
      >>> config = RE3Config(first_neighbour=3, last_neighbour=3, count_self=False)
      >>> beta = exponential_decay(0.05, rho=1e-5)
      >>> bonus = chain(re3.re3(config), log1p(), scale_by_schedule(beta))

    Raises:
      TypeError: `bonus` is none, or one of `transforms` is something else.
    """
    check_is_bonus(bonus)
    for transform in transforms:
        if not isinstance(transform, RewardTransform):
            raise TypeError(
                f"{transform!r} is no RewardTransform: give those of "
                "re3_jax.intrinsic, such as log1p()"
            )

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> ChainState:
        return ChainState(bonus.init(key, spec, num_lanes), tuple(t.init() for t in transforms))

    def observe(state: ChainState, step: Step):
        check_rows(step, Step, axes=1)
        inner, index = check_tuple(_OBSERVE, bonus.observe(state.bonus, step), "state, index")
        return state._replace(bonus=inner), index

    def of_rollout(state: ChainState, steps: Step):
        inner, index = observe_rollout(bonus, state.bonus, steps)
        return state._replace(bonus=inner), index

    def reward(state: ChainState, batch: IntrinsicBatch):
        returned = bonus.reward(state.bonus, batch)
        value, inner, info = check_tuple("reward of the bonus", returned, "reward, state, info")
        value, after = jax.lax.stop_gradient(value), []
        for transform, transform_state in zip(transforms, state.transforms, strict=True):
            value, transform_state = transform.apply(transform_state, value, batch.agent_steps)
            info = {**info, **transform.report(transform_state, batch.agent_steps)}
            after.append(transform_state)
        return value, ChainState(inner, tuple(after)), info

    def update(state: ChainState, batch: IntrinsicBatch, key: PRNGKeyArray):
        returned = bonus.update(state.bonus, batch, key)
        inner, info = check_tuple("update of the bonus", returned, "state, info")
        return state._replace(bonus=inner), info

    def restart(state: ChainState, lanes: Bool[Array, " lane"]) -> ChainState:
        return state._replace(bonus=bonus.restart(state.bonus, lanes))

    return IntrinsicReward(
        init,
        observe,
        reward,
        update,
        observe_rollout=of_rollout if bonus.in_order else None,
        index_shape=bonus.index_shape,
        needs_stored_value=bonus.needs_stored_value,
        needs_value=bonus.needs_value,
        targets=lambda state, batch: bonus.targets(state.bonus, batch),
        restart=restart,
    )


def no_index(step: Step) -> Int[Array, " lane"]:
    """The index for a bonus that stores nothing: int32 zeros."""
    return jnp.zeros(step.observation.shape[0], jnp.int32)


def observe_rollout(
    bonus: IntrinsicReward, state: IntrinsicState, steps: Step
) -> tuple[IntrinsicState, Int[Array, "time lane *index"]]:
    """Observes a rollout, whose leaves have the leading axes time and lane.

    All steps at once if the bonus allows it: one large batch costs less than many small ones.

    Raises:
      TypeError: `bonus` is none, or `steps` is no `Step`.
      ValueError: there is no step, or a field is of other steps than the observations.
    """
    check_is_bonus(bonus)
    check_rows(steps, Step, axes=2)
    if bonus.observe_rollout is not None:
        return bonus.observe_rollout(state, steps)
    state, index = check_tuple(_OBSERVE, bonus.observe(state, _flat(steps)), "state, index")
    return state, _as_rollout(index, steps)


def one_by_one(observe: Observe) -> Observe:
    """`IntrinsicReward.observe_rollout` of a bonus that must see the steps in their order."""

    def of_rollout(state: IntrinsicState, steps: Step):
        _check_room(state, steps)
        return jax.lax.scan(observe, varying_like(state, steps), steps)

    return of_rollout


def prepared(
    prepare: Callable[[IntrinsicState, Step], Any],
    remember: Callable[[IntrinsicState, Step, Any], tuple[IntrinsicState, Int[Array, " lane"]]],
) -> tuple[Observe, Observe]:
    """`observe` and `observe_rollout` of a bonus of which only the memory depends on the order.

    Args:
      prepare: (state, step) -> what can be computed of each step for itself, such as features. Of a
        rollout it is computed in one batch, with the state before the rollout: it may only use
        what `remember` does not change.
      remember: (state, step, prepared) -> (state, index).
    """

    def observe(state: IntrinsicState, step: Step):
        return remember(state, step, prepare(state, step))

    # Defined once: outside `jit`, a loop over another function is compiled again.
    def remember_each(state: IntrinsicState, each: tuple[Step, Any]):
        return remember(state, *each)

    def of_rollout(state: IntrinsicState, steps: Step):
        _check_room(state, steps)
        found = jax.tree.map(lambda leaf: _as_rollout(leaf, steps), prepare(state, _flat(steps)))
        return jax.lax.scan(remember_each, varying_like(state, steps, found), (steps, found))

    return observe, of_rollout


def _check_room(state: IntrinsicState, steps: Step) -> None:
    """Rejects a rollout that a `ValueRing` cannot hold: adding one step at a time would hide it."""
    for leaf in jax.tree.leaves(state, is_leaf=lambda leaf: isinstance(leaf, ValueRing)):
        if isinstance(leaf, ValueRing):
            value_ring.check(leaf, math.prod(steps.observation.shape[:2]))


def _flat(steps: Step) -> Step:
    """Each step of each lane as a lane of its own."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), steps)


def _as_rollout(leaf: Array, steps: Step) -> Array:
    return leaf.reshape(*steps.observation.shape[:2], *leaf.shape[1:])


def none() -> IntrinsicReward:
    """No bonus: zero reward, empty state, nothing stored."""

    def reward(state, batch):
        return jnp.zeros(jax.tree.leaves(batch.observation)[0].shape[0], jnp.float32), state, {}

    return IntrinsicReward(
        init=lambda key, spec, num_lanes=1: (),
        observe=lambda state, step: (state, no_index(step)),
        reward=reward,
        update=lambda state, batch, key: (state, {}),
    )
