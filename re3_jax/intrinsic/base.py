"""The intrinsic-reward protocol, in optax's manner: four pure functions and `chain`.

`observe` runs once for every step that is stored: RE3 encodes the observation and writes the
latent, an episodic bonus updates its memory and clears it where an episode ends. `reward` runs
each time a batch is used: RE3 searches all stored latents. `update` trains what is learned.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from re3_jax.envs.base import EnvSpec, TimeStep

IntrinsicState = Any
Info = dict[str, Float[Array, ""]]


class Step(NamedTuple):
    """One step of all lanes, as it is stored; a bonus that does not use a field accepts None.

    Attributes:
      observation: o_t.
      action: a_t.
      next_observation: o_{t+1} of the same episode, also where the episode ended.
      terminated: whether the task ended at this step.
      truncated: whether a time limit ended the episode at this step.
    """

    observation: Shaped[Array, " lane *observation"]
    action: Shaped[Array, " lane *action"] | None = None
    next_observation: Shaped[Array, " lane *observation"] | None = None
    terminated: Bool[Array, " lane"] | None = None
    truncated: Bool[Array, " lane"] | None = None

    @classmethod
    def on_device(cls, observation: Array, action: Array, timestep: TimeStep) -> "Step":
        """What `timestep` made of an observation and an action, lanes leading."""
        return cls(
            observation,
            action,
            timestep.final_observation,
            timestep.terminated,
            timestep.truncated,
        )


class IntrinsicBatch(NamedTuple):
    """A batch of transitions to be rewarded.

    Attributes:
      observation: o_t.
      action: a_t.
      next_observation: o_{t+1} of the same episode.
      bonus_index: what `observe` returned for each o_t, so that a stored latent is looked up
        instead of encoded again.
      agent_steps: agent steps taken so far (what the schedules of beta count).
    """

    observation: Shaped[Array, " batch *observation"]
    action: Shaped[Array, " batch *action"]
    next_observation: Shaped[Array, " batch *observation"]
    bonus_index: Int[Array, " batch"]
    agent_steps: Int[Array, ""]


class IntrinsicReward(NamedTuple):
    """A bonus: pure functions over an explicit state.

    init(key, spec, num_lanes) -> state
    observe(state, step) -> (state, index[lane]); the replay stores the index with the step
    reward(state, batch) -> (reward[batch] float32, state, info)
    update(state, batch, key) -> (state, info)
    in_order: whether `observe` must see the steps of a lane one after another, because it
      remembers an episode. Otherwise a whole rollout may be observed as if each of its steps had
      a lane of its own (`observe_rollout`).

    An `info` is a dict of float32 scalars, diagnostics for the log: always the same names for
    one bonus.
    """

    init: Callable[..., IntrinsicState]
    observe: Callable[[IntrinsicState, Step], tuple[IntrinsicState, Int[Array, " lane"]]]
    reward: Callable[
        [IntrinsicState, IntrinsicBatch], tuple[Float[Array, " batch"], IntrinsicState, Info]
    ]
    update: Callable[[IntrinsicState, IntrinsicBatch, PRNGKeyArray], tuple[IntrinsicState, Info]]
    in_order: bool = False


class RewardTransform(NamedTuple):
    """A map from rewards to rewards, possibly with a running statistic.

    init() -> state
    apply(state, reward[batch], agent_steps) -> (reward[batch], state)
    report(state, agent_steps) -> info; of the state that `apply` returned
    """

    init: Callable[[], Any]
    apply: Callable[
        [Any, Float[Array, " batch"], Int[Array, ""]], tuple[Float[Array, " batch"], Any]
    ]
    report: Callable[[Any, Int[Array, ""]], Info] = lambda state, agent_steps: {}


class ChainState(NamedTuple):
    """State of `chain`: the bonus's own, and one per transform."""

    bonus: IntrinsicState
    transforms: tuple[Any, ...]


def chain(bonus: IntrinsicReward, *transforms: RewardTransform) -> IntrinsicReward:
    """Passes the rewards of `bonus` through `transforms`, left to right; all report.

    `chain(re3(...), normalize_by_running_std(), log1p(), scale_by_schedule(beta))`
    """

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> ChainState:
        return ChainState(bonus.init(key, spec, num_lanes), tuple(t.init() for t in transforms))

    def observe(state: ChainState, step: Step):
        inner, index = bonus.observe(state.bonus, step)
        return state._replace(bonus=inner), index

    def reward(state: ChainState, batch: IntrinsicBatch):
        value, inner, info = bonus.reward(state.bonus, batch)
        after = []
        for transform, transform_state in zip(transforms, state.transforms, strict=True):
            value, transform_state = transform.apply(transform_state, value, batch.agent_steps)
            info = {**info, **transform.report(transform_state, batch.agent_steps)}
            after.append(transform_state)
        return value, ChainState(inner, tuple(after)), info

    def update(state: ChainState, batch: IntrinsicBatch, key: PRNGKeyArray):
        inner, info = bonus.update(state.bonus, batch, key)
        return state._replace(bonus=inner), info

    return IntrinsicReward(init, observe, reward, update, bonus.in_order)


def no_index(step: Step) -> Int[Array, " lane"]:
    """The index of a bonus that stores nothing: zeros."""
    return jnp.zeros(step.observation.shape[0], jnp.int32)


def observe_rollout(
    bonus: IntrinsicReward, state: IntrinsicState, steps: Step
) -> tuple[IntrinsicState, Int[Array, "time lane"]]:
    """Observes the steps of a rollout, whose leaves lead with time and lane.

    A bonus that needs no order sees them all at once: one large batch costs less than many
    small ones.
    """
    if bonus.in_order:
        return jax.lax.scan(bonus.observe, state, steps)
    time, lanes = steps.observation.shape[:2]
    flat = jax.tree.map(lambda leaf: leaf.reshape(time * lanes, *leaf.shape[2:]), steps)
    state, index = bonus.observe(state, flat)
    return state, index.reshape(time, lanes)


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
