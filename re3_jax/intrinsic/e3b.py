"""Exploration via elliptical episodic bonuses (E3B; Henaff et al., 2022).

Within an episode, b_t = phi(o_t)^T C_{t-1}^{-1} phi(o_t), where C_{t-1} is the sum of
phi(o_i) phi(o_i)^T over the steps i < t of the episode plus lambda I (their Section 3.1). With
one-hot features this is 1 / (n + lambda) for a state visited n times before: a count for
continuous features. phi is trained alongside on inverse dynamics, so it learns what actions change.
Their Algorithm 1 updates the inverse itself (Sherman and Morrison, 1950). Here S with
C^{-1} = S S^T is updated, as in Potter's filter (Kaminski, Bryson and Schmidt, 1971), also in
O(d^2) a step: rounding cannot make a bonus negative or the inverse of large features explode.

As in the authors' code, a step is rewarded for the observation in which its action was taken, and
the first step of an episode for nothing: nothing is known yet, so its bonus would be
|phi|^2 / lambda everywhere. Their Algorithm 1 rewards a step for the observation that follows.

The bonus is computed when a step is observed, with phi and C as they are then, and stored: a replay
does not hold the episode from which it could be computed again.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from re3_jax import checks
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic import weight
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward, Step, prepared
from re3_jax.intrinsic.inverse_dynamics import InverseDynamicsState, controllable_encoder
from re3_jax.intrinsic.network_training import NetworkConfig
from re3_jax.intrinsic.weight import Normalization
from re3_jax.replay import episode_memory, value_ring
from re3_jax.replay.value_ring import ValueRing


@dataclass(frozen=True, kw_only=True)
class E3BConfig(NetworkConfig):
    """Options of the bonus beta_t b_t; weight, lambda and learning rate are the authors'.

    Two hidden layers, `hidden_dim` wide, predict the action.

    Attributes:
      ridge: lambda, the diagonal of C when an episode begins.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    beta: float = 1.0
    normalize: Normalization = "running_std"
    hidden_dim: int = 256
    ridge: float = 0.1

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        checks.positive(self, "ridge")


Root = Float[Array, "lane latent latent"]


@inherits("encoder")
class E3BState(NamedTuple):
    """State of the bonus.

    Attributes:
      encoder: phi and the head that predicts actions, with Adam's state.
      root: S of each lane's episode, where C^{-1} = S S^T.
      begins: whether the next step is the first of its episode.
      bonuses: b_t of the stored steps.
    """

    encoder: InverseDynamicsState
    root: Root
    begins: Bool[Array, " lane"]
    bonuses: ValueRing


def elliptical(
    root: Root, features: Float[Array, "lane latent"]
) -> tuple[Float[Array, " lane"], Root]:
    """The bonuses phi^T C^{-1} phi, and the roots S of the inverses of C + phi phi^T.

    With a = S^T phi the bonus is b = |a|^2, and S becomes
    S - (S a) a^T / (1 + b + sqrt(1 + b)). float32 at full matmul precision: over a thousand steps
    of random directions, errors are below 5e-6 of a bonus if features have the size of 1, and below
    5e-3 if they are a thousand times as large. Features with NaN or infinity leave S as it is.
    """
    with jax.default_matmul_precision("highest"):
        seen = jnp.einsum("lij,li->lj", root, features)
        bonus = jnp.sum(seen * seen, axis=1)
        gain = jnp.einsum("lij,lj->li", root, seen)
    gain /= (1.0 + bonus + jnp.sqrt(1.0 + bonus))[:, None]
    after = root - gain[:, :, None] * seen[:, None, :]
    return bonus, jnp.where(jnp.isfinite(bonus)[:, None, None], after, root)


def e3b(config: E3BConfig, num_stored: int) -> IntrinsicReward:
    """The bare elliptical bonus of the newest `num_stored` steps.

    Raises:
      ValueError: if the options are of another class.
    """
    checks.made_with(E3BConfig, config, "e3b")
    encoder = controllable_encoder(config)

    def empty(latent_dim: int) -> Float[Array, "latent latent"]:
        return jnp.eye(latent_dim, dtype=jnp.float32) / jnp.sqrt(jnp.float32(config.ridge))

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> E3BState:
        latent_dim = encoder.latent_dim(spec)
        return E3BState(
            encoder=encoder.init(key, spec),
            root=jnp.tile(empty(latent_dim), (num_lanes, 1, 1)),
            begins=jnp.ones(num_lanes, bool),
            bonuses=value_ring.init(num_stored),
        )

    def begun(state: E3BState, ended: Bool[Array, " lane"]) -> E3BState:
        """New episodes of the lanes whose episode has ended."""
        new = empty(state.root.shape[1])
        root = jnp.where(ended[:, None, None], new, state.root)
        return state._replace(root=root, begins=ended)

    def restart(state: E3BState, lanes: Bool[Array, " lane"]) -> E3BState:
        return begun(state, lanes)._replace(begins=state.begins | lanes)

    def encode(state: E3BState, step: Step) -> Float[Array, "lane latent"]:
        return encoder.encode(state.encoder, step.observation)

    def remember(
        state: E3BState, step: Step, features: Float[Array, "lane latent"]
    ) -> tuple[E3BState, Int[Array, " lane"]]:
        episode_memory.check_lanes(len(state.root), len(features))
        bonus, root = elliptical(state.root, features)
        bonuses, index = value_ring.add(state.bonuses, jnp.where(state.begins, 0.0, bonus))
        return begun(E3BState(state.encoder, root, state.begins, bonuses), step.ended), index

    def reward(
        state: E3BState, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], E3BState, Info]:
        return state.bonuses.values[batch.required("bonus_index")], state, {}

    def update(state: E3BState, batch: IntrinsicBatch, key: PRNGKeyArray) -> tuple[E3BState, Info]:
        with jax.named_scope("encoder update"):
            trained, info = encoder.update(state.encoder, batch, key)
        return state._replace(encoder=trained), info

    observe, of_rollout = prepared(encode, remember)
    return IntrinsicReward(
        init, observe, reward, update, observe_rollout=of_rollout, restart=restart
    )


def from_config(config: E3BConfig, num_stored: int) -> IntrinsicReward:
    """The complete bonus: elliptical bonus, normalisation, beta_t.

    Args:
      config: options.
      num_stored: steps that an update can learn from: those of a rollout, or those of a replay.
    """
    return weight.scaled(config, e3b(config, num_stored))
