"""Never Give Up's intrinsic reward (NGU; Badia et al., 2020), without the rest of their agent.

r_t = r_t^episodic min(max(alpha_t, 1), L) (their Equation 1). The episodic part is an inverse
square root of pseudo-counts over the k nearest embeddings of the episode (Equations 2 and 3; step
by step in their Algorithm 1), whose encoder f is trained alongside on inverse dynamics. The
lifelong part is RND's squared error, normalised: alpha_t = 1 + (err(o_t) - mean) / std.

The episodic part is computed when a step is observed, with f as it is then, and stored: a replay
does not hold the episode. The lifelong part is computed when a batch is rewarded.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from re3_jax import checks, running_stats
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic import rnd, weight
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward, Step
from re3_jax.intrinsic.inverse_dynamics import InverseDynamicsState, controllable_encoder
from re3_jax.intrinsic.network_training import NetworkConfig
from re3_jax.intrinsic.rnd import RNDState
from re3_jax.knn import scores
from re3_jax.replay import episode_memory, value_ring
from re3_jax.replay.episode_memory import EpisodeMemory
from re3_jax.replay.value_ring import ValueRing
from re3_jax.running_stats import MOST_BATCHES, RunningStats
from re3_jax.varying import varying_like


@dataclass(frozen=True, kw_only=True)
class NGUConfig(NetworkConfig):
    """Options of the bonus beta_t r_t; numbers are those of the authors' Table 6.

    Adam's learning rate is that of both f and RND. The hidden layers that predict the action, and
    those of RND's predictor, are `hidden_dim` wide.

    Attributes:
      neighbours: k, the nearest embeddings of the episode that count.
      kernel_epsilon: epsilon of the kernel. (The authors' text has 1e-3, their Table 6 1e-4.)
      cluster_distance: xi; normalised squared distances below it count as 0.
      pseudo_count: c, added to the root of the pseudo-count.
      max_similarity: s_m; a more familiar observation is not rewarded.
      max_modulation: L, the largest lifelong factor.
      memory_size: embeddings of an episode that each lane keeps at most; older ones are
        overwritten.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    beta: float = 0.3
    learning_rate: float = 5e-4
    hidden_dim: int = 128
    latent_dim: int = 32
    neighbours: int = 10
    kernel_epsilon: float = 1e-4
    cluster_distance: float = 0.008
    pseudo_count: float = 1e-3
    max_similarity: float = 8.0
    max_modulation: float = 5.0
    memory_size: int = 30_000

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        checks.at_least(self, 1, "neighbours", "memory_size")
        checks.not_below(self, 1, "max_modulation")
        checks.positive(self, "kernel_epsilon", "pseudo_count", "max_similarity")
        checks.not_negative(self, "cluster_distance")
        if self.memory_size < self.neighbours:
            raise ValueError(
                f"a memory of {self.memory_size} embeddings has no neighbour of rank "
                f"{self.neighbours}: raise memory_size or lower neighbours"
            )


class Mean(NamedTuple):
    """A running mean, float32: d_m^2, over all neighbours of all lanes."""

    mean: Float[Array, ""]
    num_values: Float[Array, ""]


@inherits("encoder", "distance", "rnd", "errors")
class NGUState(NamedTuple):
    """State of the bonus.

    Attributes:
      encoder: f and the head that predicts actions, with Adam's state.
      memory: embeddings of each lane's episode.
      distance: d_m^2, the running mean of squared distances to neighbours.
      episodic: r_t^episodic of the stored steps.
      rnd: networks of RND.
      errors: running moments of RND's squared error.
    """

    encoder: InverseDynamicsState
    memory: EpisodeMemory
    distance: Mean
    episodic: ValueRing
    rnd: RNDState
    errors: RunningStats


def episodic_reward(
    config: NGUConfig,
    squared: Float[Array, "lane stored"],
    num_stored: Int[Array, " lane"],
    distance: Mean,
) -> tuple[Float[Array, " lane"], Mean]:
    """Algorithm 1 for one step of all lanes; d_m^2 is updated with all lanes' neighbours first.

    0 for a lane whose episode has fewer than `neighbours` embeddings.

    Args:
      config: options.
      squared: squared distances to the embeddings of the lane's episode; +inf for other rows.
      num_stored: embeddings of the episode.
      distance: the running mean so far.
    """
    nearest, _ = scores.top_k(-squared, config.neighbours)
    nearest, is_full = -nearest, num_stored >= config.neighbours
    distance = _merge(distance, jnp.where(is_full[:, None], nearest, 0.0), is_full)
    scale = jnp.where(distance.mean > 0, distance.mean, 1.0)
    normalized = jnp.maximum(nearest / scale - config.cluster_distance, 0.0)
    kernel = config.kernel_epsilon / (normalized + config.kernel_epsilon)
    similarity = jnp.sqrt(jnp.sum(kernel, axis=1)) + config.pseudo_count
    is_rewarded = is_full & (similarity <= config.max_similarity)
    return jnp.where(is_rewarded, 1.0 / similarity, 0.0), distance


# Outside `jit`, a loop whose body is made anew by each call would be compiled by each call.
@partial(jax.jit, static_argnames="config", inline=True)
def _episodic_rewards(
    config: NGUConfig,
    memory: EpisodeMemory,
    distance: Mean,
    embedding: Float[Array, "time lane latent"],
    ended: Bool[Array, "time lane"],
) -> tuple[Mean, Float[Array, "time lane"]]:
    """`episodic_reward` of each step of a rollout that follows `memory`."""
    length, by_lane = len(embedding), jnp.swapaxes(embedding, 0, 1)

    def step(distance: Mean, each) -> tuple[Mean, Float[Array, " lane"]]:
        time, first, embedding = each
        # The memory is only read here: a loop that also wrote it would copy it at each step.
        stored = episode_memory.is_stored_at(memory, time, first, length)
        squared = [
            jnp.where(is_stored, _squared_distances(rows, embedding), jnp.inf)
            for is_stored, rows in zip(stored, (memory.rows, by_lane), strict=True)
        ]
        num_stored = episode_memory.num_before(memory, time, first)
        value, distance = episodic_reward(
            config, jnp.concatenate(squared, axis=1), num_stored, distance
        )
        return distance, value

    times = jnp.arange(length, dtype=jnp.int32)
    each = times, episode_memory.first_steps(ended), embedding
    return jax.lax.scan(step, varying_like(distance, memory, each), each)


def ngu(config: NGUConfig, num_stored: int) -> IntrinsicReward:
    """The bare bonus, for the newest `num_stored` steps.

    Raises:
      ValueError: if the options are of another class.
    """
    checks.made_with(NGUConfig, config, "ngu")
    encoder, lifelong = controllable_encoder(config), rnd.part_of(config)

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> NGUState:
        encoder_key, rnd_key = jax.random.split(key)
        capacity = max(config.neighbours, min(config.memory_size, spec.max_agent_steps))
        latent_dim = encoder.latent_dim(spec)
        return NGUState(
            encoder=encoder.init(encoder_key, spec),
            memory=episode_memory.init(num_lanes, capacity, (latent_dim,)),
            distance=Mean(*(jnp.zeros((), jnp.float32) for _ in range(2))),
            episodic=value_ring.init(num_stored),
            rnd=lifelong.init(rnd_key, spec, num_lanes),
            errors=running_stats.init(),
        )

    def observe_rollout(state: NGUState, steps: Step) -> tuple[NGUState, Int[Array, "time lane"]]:
        length, lanes = steps.observation.shape[:2]
        episode_memory.check_lanes(len(state.memory.rows), lanes)
        flat = steps.observation.reshape(length * lanes, *steps.observation.shape[2:])
        embedding = encoder.encode(state.encoder, flat).reshape(length, lanes, -1)
        with jax.named_scope("knn"):
            distance, values = _episodic_rewards(
                config, state.memory, state.distance, embedding, steps.ended
            )
        episodic, index = value_ring.add(state.episodic, values.reshape(-1))
        memory = episode_memory.add_rollout(state.memory, embedding, steps.ended)
        state = state._replace(memory=memory, distance=distance, episodic=episodic)
        return state, index.reshape(length, lanes)

    def observe(state: NGUState, step: Step) -> tuple[NGUState, Int[Array, " lane"]]:
        state, index = observe_rollout(state, jax.tree.map(lambda leaf: leaf[None], step))
        return state, index[0]

    def reward(
        state: NGUState, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], NGUState, Info]:
        error, _, info = lifelong.reward(state.rnd, batch)
        error = jnp.square(error)
        errors = running_stats.update(state.errors, error)
        std = running_stats.std(errors)
        novelty = 1.0 + (error - errors.mean) / jnp.where(std > 0, std, 1.0)
        modulation = jnp.clip(novelty, 1.0, config.max_modulation)
        episodic = state.episodic.values[batch.required("bonus_index")]
        info = {
            **info,
            "ngu_episodic_mean": jnp.mean(episodic),
            "ngu_modulation_mean": jnp.mean(modulation),
        }
        return episodic * modulation, state._replace(errors=errors), info

    def update(state: NGUState, batch: IntrinsicBatch, key: PRNGKeyArray) -> tuple[NGUState, Info]:
        encoder_key, rnd_key = jax.random.split(key)
        with jax.named_scope("encoder update"):
            trained, info = encoder.update(state.encoder, batch, encoder_key)
        predictor, more = lifelong.update(state.rnd, batch, rnd_key)
        return state._replace(encoder=trained, rnd=predictor), {**info, **more}

    def targets(state: NGUState, batch: IntrinsicBatch) -> Float[Array, "batch latent"]:
        return lifelong.targets(state.rnd, batch)

    def restart(state: NGUState, lanes: Bool[Array, " lane"]) -> NGUState:
        return state._replace(memory=episode_memory.clear(state.memory, lanes))

    return IntrinsicReward(
        init,
        observe,
        reward,
        update,
        observe_rollout=observe_rollout,
        targets=targets,
        restart=restart,
    )


def from_config(config: NGUConfig, num_stored: int) -> IntrinsicReward:
    """The complete bonus: modulated episodic reward, normalisation, beta_t.

    Args:
      config: options.
      num_stored: steps that an update can learn from: those of a rollout, or those of a replay.
    """
    return weight.scaled(config, ngu(config, num_stored))


def _squared_distances(
    rows: Float[Array, "lane stored latent"], embedding: Float[Array, "lane latent"]
) -> Float[Array, "lane stored"]:
    """Squared distances of each lane's stored rows to its embedding.

    They are sums over differences: |a|^2 - 2 a b + |b|^2 would lose the 0 of an observation seen
    again. What is not finite is infinitely far: on a CPU `top_k` takes a NaN whose sign bit is set,
    as that of inf - inf is, for the nearest.
    """
    squared = jnp.sum(jnp.square(rows - embedding[:, None]), axis=2)
    return jnp.where(jnp.isfinite(squared), squared, jnp.inf)


def _merge(mean: Mean, values: Float[Array, "lane rank"], counts: Bool[Array, " lane"]) -> Mean:
    """Merges the rows that count into a running mean; the others must be 0.

    Values that are not finite change nothing: one would make all later means NaN. Of more than
    `MOST_BATCHES` steps it is an average in which the old fade (see `running_stats`).
    """
    added = jnp.sum(counts, dtype=jnp.float32) * values.shape[1]
    total = jnp.minimum(mean.num_values + added, MOST_BATCHES * values.size)
    moved = (jnp.sum(values) - added * mean.mean) / jnp.maximum(total, 1.0)
    is_finite = jnp.isfinite(moved)
    return Mean(
        jnp.where(is_finite, mean.mean + moved, mean.mean),
        jnp.where(is_finite, total, mean.num_values),
    )
