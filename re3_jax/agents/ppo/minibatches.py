"""A rollout as what PPO's updates are made of: its steps, and the minibatches that share them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from re3_jax import whitening
from re3_jax.agents.base import Info, Observation
from re3_jax.agents.ppo import advantages, networks
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.losses import Minibatch
from re3_jax.agents.ppo.memory import Hidden, Past, past_of
from re3_jax.agents.ppo.state import PPOState, as_seen
from re3_jax.agents.rollout import Rollout
from re3_jax.running_stats import RunningStats


def shuffled(key: PRNGKeyArray, config: PPOConfig) -> Int[Array, "update minibatch"]:
    """Which steps of the flattened rollout each update sees: every step once in each epoch.

    For a recurrent agent the numbers are those of lanes instead.
    """
    size = config.num_envs if config.recurrent else config.num_envs * config.rollout_length
    keys = jax.random.split(key, config.num_epochs)
    order = jax.vmap(lambda one: jax.random.permutation(one, size))(keys)
    return order.reshape(-1, size // config.num_minibatches)


def steps_of(
    order: Int[Array, "update minibatch"], config: PPOConfig
) -> Int[Array, "update steps"]:
    """Turns the order of `shuffled` into numbers of steps.

    Only a recurrent agent's order changes: each of its lanes becomes all steps of that lane.
    """
    if not config.recurrent:
        return order
    return jax.vmap(lambda lanes: _steps_of_lanes(lanes, config.rollout_length, config.num_envs))(
        order
    )


def _steps_of_lanes(
    lanes: Int[Array, " minibatch"], time: int, num_lanes: int
) -> Int[Array, " steps"]:
    return (num_lanes * jnp.arange(time)[:, None] + lanes).reshape(-1)


def chosen(batch: Minibatch, steps: Int[Array, " minibatch"]) -> Minibatch:
    """Picks `steps` of a batch; for a recurrent agent they are lanes, each picked whole."""
    past = batch.past
    if past is not None:
        lanes, (time, num_lanes) = steps, past.begins.shape
        past = Past(past.hidden[lanes], past.begins[:, lanes])
        steps = _steps_of_lanes(lanes, time, num_lanes)
    picked = jax.tree.map(lambda leaf: leaf[steps], batch._replace(past=None))
    return picked._replace(past=past)


def prepared(
    config: PPOConfig, state: PPOState, rollout: Rollout
) -> tuple[Minibatch, PPOState, Info]:
    """A rollout's steps in one row, with what the networks say of each, and the moments after it.

    Args:
      config: numbers of the agent.
      state: as it acted in the rollout.
      rollout: [time, lane], with its bonus.

    Returns:
      All steps [time * lane], the state with new moments, and what it reports of them.
    """
    time_and_lanes, params = rollout.reward.shape, state.params

    def flat(leaf: Shaped[Array, "time lane ..."]) -> Shaped[Array, "step ..."]:
        return leaf.reshape(-1, *leaf.shape[2:])

    def values_after(
        hidden: Hidden | None, observation: Observation
    ) -> Float[Array, "batch value"]:
        seen = networks.features_after(params, hidden, as_seen(state, observation))
        return networks.values(params, seen)

    observation, action = as_seen(state, flat(rollout.observation)), flat(rollout.action)
    past = past_of(rollout) if config.recurrent else None
    features = networks.features(params, observation, past)
    policy, value = networks.policy(params, features), networks.values(params, features)
    hidden = after_step = None
    if config.recurrent:
        after_step = features
        # The last observation may be the first of its episode.
        hidden = jnp.where(rollout.done[-1][:, None], 0.0, features[-config.num_envs :])
    last_value = values_after(hidden, rollout.last_observation)
    values = jnp.concatenate([value.reshape(*time_and_lanes, -1), last_value[None]])
    final_value = None
    if config.bootstrap_truncation:
        final = values_after(after_step, flat(rollout.next_observation))
        final_value = final[:, 0].reshape(time_and_lanes)
    advantage, target, scales = advantages.estimate(
        config, rollout, values, final_value, state.reward_scales
    )
    log_probability = policy.log_probability(action)
    target = flat(target)
    batch = Minibatch(observation, action, log_probability, value, flat(advantage), target, past)
    if isinstance(state.seen, RunningStats):
        # Not before: the policy of the rollout acted with the old moments.
        state = state._replace(seen=whitening.update(state.seen, flat(rollout.observation)))
    return (
        batch,
        state._replace(reward_scales=scales),
        {
            "value_mean": jnp.mean(value[:, 0]),
            "advantage_mean": jnp.mean(advantage),
            "explained_variance": explained_variance(value[:, 0], target[:, 0]),
        },
    )


def explained_variance(
    value: Float[Array, " step"], target: Float[Array, " step"]
) -> Float[Array, ""]:
    """1 - Var(R - V) / Var(R); NaN where all R are equal."""
    variance = jnp.var(target)
    return jnp.where(variance > 0, 1.0 - jnp.var(target - value) / variance, jnp.nan)
