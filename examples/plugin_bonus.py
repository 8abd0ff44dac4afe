"""A bonus of your own: 1 / sqrt(visits of the observation in its episode).

make run ENV=doorkey_6x6 BONUS=episodic_count ARGS="--plugin examples/plugin_bonus.py"
"""

from dataclasses import dataclass

import jax.numpy as jnp

from re3_jax import fingerprint
from re3_jax.intrinsic import IntrinsicReward, one_by_one
from re3_jax.runs import bonuses


@dataclass(frozen=True)
class EpisodicCountConfig:
    """Weight of the bonus, and number of different observations it distinguishes."""

    beta: float = 0.01
    buckets: int = 1_024


def episodic_count(config: EpisodicCountConfig, capacity: int) -> IntrinsicReward:
    """The counts of each lane, and the rewards of the newest `capacity` steps."""

    def init(key, spec, num_lanes):
        counts = jnp.zeros((num_lanes, config.buckets), jnp.int32)
        return counts, jnp.zeros(capacity), jnp.int32(0)

    def observe(state, step):
        counts, rewards, cursor = state
        lane = jnp.arange(len(counts))
        bucket = fingerprint.of(step.observation) % config.buckets
        counts = counts.at[lane, bucket].add(1)
        row = (cursor + lane) % capacity
        rewards = rewards.at[row].set(counts[lane, bucket] ** -0.5)
        counts = jnp.where((step.terminated | step.truncated)[:, None], 0, counts)
        return (counts, rewards, (cursor + len(lane)) % capacity), row

    def reward(state, batch):
        return config.beta * state[1][batch.bonus_index], state, {}

    def update(state, batch, key):
        return state, {}

    def restart(state, lanes):
        return jnp.where(lanes[:, None], 0, state[0]), *state[1:]

    return IntrinsicReward(
        init, observe, reward, update, observe_rollout=one_by_one(observe), restart=restart
    )


bonuses.register(
    bonuses.Bonus(
        name="episodic_count",
        groups=("episodic_count",),
        config=EpisodicCountConfig,
        make=lambda run, re3: episodic_count(run.episodic_count, run.stored_steps),
    )
)
