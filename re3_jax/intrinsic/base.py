"""The intrinsic-reward protocol, in optax's manner: four pure functions and `chain`.

RE3 needs two moments that other bonuses merge: what happens once for every frame that
is stored (`observe`: encode it, write the latent) and what happens each time a batch is
used (`reward`: k-NN against all that was stored). `update` trains what is learned.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from re3_jax.envs.base import EnvSpec

IntrinsicState = Any
Info = dict[str, Float[Array, ""]]


class IntrinsicBatch(NamedTuple):
    """A batch of transitions to be rewarded.

    Attributes:
      observation: o_t.
      action: a_t.
      next_observation: o_{t+1} of the same episode.
      ring_index: row of each o_t in the latent ring that `observe` wrote, so that a stored
        latent is looked up and not encoded again.
      agent_steps: agent steps taken so far (what the schedules of beta count).
    """

    observation: Shaped[Array, " batch *observation"]
    action: Shaped[Array, " batch *action"]
    next_observation: Shaped[Array, " batch *observation"]
    ring_index: Int[Array, " batch"]
    agent_steps: Int[Array, ""]


class IntrinsicReward(NamedTuple):
    """A bonus: pure functions over an explicit state.

    init(key, spec) -> state
    observe(state, observation[batch, ...]) -> (state, index[batch])
    reward(state, batch) -> (reward[batch] float32, state, info)
    update(state, batch, key) -> (state, info)

    An `info` is a dict of float32 scalars, diagnostics for the log: always the same names for
    one bonus.
    """

    init: Callable[[PRNGKeyArray, EnvSpec], IntrinsicState]
    observe: Callable[
        [IntrinsicState, Shaped[Array, " batch *observation"]],
        tuple[IntrinsicState, Int[Array, " batch"]],
    ]
    reward: Callable[
        [IntrinsicState, IntrinsicBatch], tuple[Float[Array, " batch"], IntrinsicState, Info]
    ]
    update: Callable[[IntrinsicState, IntrinsicBatch, PRNGKeyArray], tuple[IntrinsicState, Info]]


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

    def init(key: PRNGKeyArray, spec: EnvSpec) -> ChainState:
        return ChainState(bonus.init(key, spec), tuple(t.init() for t in transforms))

    def observe(state: ChainState, observation):
        inner, index = bonus.observe(state.bonus, observation)
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

    return IntrinsicReward(init, observe, reward, update)


def none() -> IntrinsicReward:
    """No bonus: zero reward, empty state, nothing stored."""

    def observe(state, observation):
        return state, jnp.zeros(observation.shape[0], jnp.int32)

    def reward(state, batch):
        return jnp.zeros(jax.tree.leaves(batch.observation)[0].shape[0], jnp.float32), state, {}

    return IntrinsicReward(
        init=lambda key, spec: (),
        observe=observe,
        reward=reward,
        update=lambda state, batch, key: (state, {}),
    )
