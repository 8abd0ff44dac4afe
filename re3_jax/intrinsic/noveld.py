"""NovelD (Zhang et al., 2021; BeBold in an earlier version): rewards crossing into novelty.

r_t = max(N(o_{t+1}) - alpha N(o_t), 0) 1[N_e(o_{t+1}) = 1] (their Section 3): N is the novelty of
an observation, RND's prediction error, and the indicator tells whether the episode meets o_{t+1}
for the first time (their "episodic restriction on intrinsic reward").

A first visit is recognised by a fingerprint of the observation, exactly as long as the episode fits
the memory. It is stored when the step is observed; novelty is computed when a batch is rewarded, so
a replay is rewarded by the predictor as it is then.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from re3_jax import checks, fingerprint
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic import rnd, weight
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward, Step, prepared
from re3_jax.intrinsic.network_training import NetworkConfig
from re3_jax.intrinsic.rnd import RNDState
from re3_jax.replay import episode_memory, value_ring
from re3_jax.replay.episode_memory import EpisodeMemory
from re3_jax.replay.value_ring import ValueRing


@dataclass(frozen=True, kw_only=True)
class NovelDConfig(NetworkConfig):
    """Options of the bonus beta_t r_t; weight, alpha and learning rate are the authors'.

    The weight is that of their command for MiniGrid. Networks are RND's.

    Attributes:
      alpha: share of the novelty of o_t that is taken from that of o_{t+1}.
      memory_size: observations of an episode that each lane remembers at most; older ones are
        forgotten, and count as new again.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    beta: float = 0.05
    alpha: float = 0.5
    memory_size: int = 30_000

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        checks.not_negative(self, "alpha")
        checks.at_least(self, 1, "memory_size")


@inherits("rnd")
class NovelDState(NamedTuple):
    """State of the bonus.

    Attributes:
      rnd: networks of RND.
      seen: fingerprints of the observations of each lane's episode.
      is_first: whether o_{t+1} of each stored step was met for the first time in its episode.
    """

    rnd: RNDState
    seen: EpisodeMemory
    is_first: ValueRing


def noveld(config: NovelDConfig, num_stored: int) -> IntrinsicReward:
    """The bare bonus, for the newest `num_stored` steps.

    Raises:
      ValueError: if the options are of another class.
    """
    checks.made_with(NovelDConfig, config, "noveld")
    novelty = rnd.part_of(config)

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> NovelDState:
        capacity = min(config.memory_size, spec.max_agent_steps)
        return NovelDState(
            rnd=novelty.init(key, spec, num_lanes),
            seen=episode_memory.init(num_lanes, capacity, dtype=jnp.uint32),
            is_first=value_ring.init(num_stored, bool),
        )

    def fingerprints(state: NovelDState, step: Step) -> tuple[UInt32[Array, " lane"], ...]:
        del state
        return fingerprint.of(step.observation), fingerprint.of(step.required("next_observation"))

    def remember(
        state: NovelDState, step: Step, found: tuple[UInt32[Array, " lane"], ...]
    ) -> tuple[NovelDState, Int[Array, " lane"]]:
        before, after = found
        seen = episode_memory.add(state.seen, before)
        is_first = ~is_seen(seen, after)
        stored, index = value_ring.add(state.is_first, is_first)
        return NovelDState(state.rnd, episode_memory.clear(seen, step.ended), stored), index

    def reward(
        state: NovelDState, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], NovelDState, Info]:
        known = batch.with_known_next()
        # One pass over both: one large convolution costs less than two small ones.
        both = jnp.concatenate([batch.observation, known.required("next_observation")])
        errors, _, info = novelty.reward(state.rnd, batch._replace(observation=both))
        before, after = jnp.split(errors, 2)
        gain = jnp.maximum(after - config.alpha * before, 0.0)
        is_first = state.is_first.values[batch.required("bonus_index")]
        share = jnp.mean(is_first, dtype=jnp.float32)
        paid = batch.paid_for_known(jnp.where(is_first, gain, 0.0))
        return paid, state, {**info, "noveld_first_visit_share": share}

    def met(batch: IntrinsicBatch) -> IntrinsicBatch:
        return batch._replace(observation=batch.required("next_observation"))

    def targets(state: NovelDState, batch: IntrinsicBatch) -> Float[Array, "batch latent"]:
        return novelty.targets(state.rnd, met(batch))

    def update(
        state: NovelDState, batch: IntrinsicBatch, key: PRNGKeyArray
    ) -> tuple[NovelDState, Info]:
        trained, info = novelty.update(state.rnd, met(batch.with_known_next()), key)
        return state._replace(rnd=trained), info

    def restart(state: NovelDState, lanes: Bool[Array, " lane"]) -> NovelDState:
        return state._replace(seen=episode_memory.clear(state.seen, lanes))

    observe, of_rollout = prepared(fingerprints, remember)
    return IntrinsicReward(
        init,
        observe,
        reward,
        update,
        observe_rollout=of_rollout,
        targets=targets,
        restart=restart,
    )


def is_seen(seen: EpisodeMemory, fingerprints: UInt32[Array, " lane"]) -> Bool[Array, " lane"]:
    """Whether each lane's episode has met an observation with this fingerprint."""
    with jax.named_scope("first visits"):
        same = seen.rows == fingerprints[:, None]
        return jnp.any(same & episode_memory.is_stored(seen), axis=1)


def from_config(config: NovelDConfig, num_stored: int) -> IntrinsicReward:
    """The complete bonus: novelty difference, normalisation, beta_t.

    Args:
      config: options.
      num_stored: steps that an update can learn from: those of a rollout, or those of a replay.
    """
    return weight.scaled(config, noveld(config, num_stored))
