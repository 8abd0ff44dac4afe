"""PPO: several epochs of minibatches over each rollout."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from re3_jax import whitening
from re3_jax.agents.base import Acting, Action, Info, Observation, acting_on
from re3_jax.agents.ppo import advantages, networks
from re3_jax.agents.ppo.advantages import RewardScales
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.losses import Minibatch, ppo_loss
from re3_jax.agents.ppo.memory import Hidden, Past, acting_with_memory, past_of
from re3_jax.agents.ppo.networks import ActorCritic
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.replay.frame_stack import FrameStack
from re3_jax.running_stats import RunningStats

CLIP = 10.0
"""CleanRL's bound on normalised observations."""


@inherits("params", "seen", "reward_scales")
class PPOState(NamedTuple):
    """What the agent learns.

    Attributes:
      params: the networks.
      opt_state: Adam's moments.
      seen: moments of each element of the observations; () unless they are normalised.
      reward_scales: what rewards are divided by.
    """

    params: ActorCritic
    opt_state: optax.OptState
    seen: RunningStats | tuple[()]
    reward_scales: RewardScales


class PPO(NamedTuple):
    """The agent for one task.

    init(key) -> state
    acting: its action is sampled, or the mode of the policy
    value(state, observation[batch, ...], past) -> V(o)[batch]; of the task's reward alone if the
      bonus has a value function of its own. A recurrent agent has values of whole sequences, after
      their `past`
    update(state, rollout, order, agent_steps) -> (state, info); `order` as of `shuffled`, and the
      agent steps taken before the rollout
    """

    init: Callable[[PRNGKeyArray], PPOState]
    acting: Acting
    value: Callable[..., Float[Array, " batch"]]
    update: Callable[
        [PPOState, Rollout, Int[Array, "update minibatch"], Int[Array, ""]], tuple[PPOState, Info]
    ]


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


def learning_rate(config: PPOConfig, agent_steps: Int[Array, ""]) -> Float[Array, ""]:
    """The step size for a rollout that begins after `agent_steps` agent steps."""
    rate = jnp.float32(config.learning_rate)
    if config.anneal_agent_steps is None:
        return rate
    return rate * jnp.maximum(0.0, 1.0 - agent_steps / config.anneal_agent_steps)


def make_ppo(config: PPOConfig, spec: EnvSpec) -> PPO:
    """Builds the agent for one task."""
    optimizer = optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm),
        optax.scale_by_adam(eps=config.adam_eps),
    )

    def init(key: PRNGKeyArray) -> PPOState:
        params = networks.init(key, config, spec)
        seen = whitening.init(spec) if config.normalize_observations else ()
        return PPOState(params, optimizer.init(params), seen, advantages.init_scales(config))

    def as_seen(
        state: PPOState, observation: Shaped[Array, " batch *observation"]
    ) -> Shaped[Array, " batch *observation"]:
        if not isinstance(state.seen, RunningStats):
            return observation
        return whitening.whiten(state.seen, observation, CLIP)

    def choose(
        state: PPOState,
        observation: Observation,
        hidden: Hidden | None,
        key: PRNGKeyArray,
        explore: bool,
    ) -> tuple[Float[Array, "lane features"], Action]:
        seen = networks.features_after(state.params, hidden, as_seen(state, observation))
        policy = networks.policy(state.params, seen)
        return seen, policy.sample(key) if explore else policy.mode()

    def act(state: PPOState, observation: Observation, key: PRNGKeyArray, explore: bool) -> Action:
        return choose(state, observation, None, key, explore)[1]

    def value(
        state: PPOState,
        observation: Shaped[Array, " batch *observation"],
        past: Past | None = None,
    ) -> Float[Array, " batch"]:
        seen = networks.features(state.params, as_seen(state, observation), past)
        return networks.values(state.params, seen)[:, 0]

    def prepare(state: PPOState, rollout: Rollout) -> tuple[Minibatch, PPOState, Info]:
        """Flattens a rollout, with what its networks say of each step; updates the moments."""
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
        batch = Minibatch(
            observation, action, log_probability, value, flat(advantage), target, past
        )
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

    def descend(
        params: ActorCritic, opt_state: optax.OptState, batch: Minibatch, rate: Float[Array, ""]
    ) -> tuple[ActorCritic, optax.OptState, Info]:
        gradient, info = jax.grad(ppo_loss, has_aux=True)(params, batch, config)
        info["gradient_norm"] = optax.tree.norm(gradient)
        updates, opt_state = optimizer.update(gradient, opt_state, params)
        updates = jax.tree.map(lambda update: -rate * update, updates)
        return optax.apply_updates(params, updates), opt_state, info

    def update(
        state: PPOState,
        rollout: Rollout,
        order: Int[Array, "update minibatch"],
        agent_steps: Int[Array, ""],
    ) -> tuple[PPOState, Info]:
        rate = learning_rate(config, agent_steps)
        ends_epoch = jnp.arange(1, len(order) + 1) % config.num_minibatches == 0

        def step(carry, minibatch):
            (params, opt_state), goes_on = carry
            steps, ends = minibatch
            *after, info = descend(params, opt_state, chosen(batch, steps), rate)
            if config.target_kl is None:
                return (tuple(after), goes_on), (info, goes_on)
            after = jax.tree.map(
                lambda new, old: jnp.where(goes_on, new, old), tuple(after), carry[0]
            )
            is_far = ends & (info["approx_kl"] > config.target_kl)
            return (after, goes_on & ~is_far), (info, goes_on)

        batch, state, of_rollout = prepare(state, rollout)
        start = (state.params, state.opt_state), jnp.ones((), bool)
        ((params, opt_state), _), (infos, made) = jax.lax.scan(step, start, (order, ends_epoch))
        info = jax.tree.map(lambda values: jnp.mean(values, where=made), infos)
        info |= {"learning_rate": rate, "epochs": jnp.sum(made) / config.num_minibatches}
        return state._replace(params=params, opt_state=opt_state), {**info, **of_rollout}

    frames = FrameStack(spec.frame_stack)
    if config.recurrent:
        acting = acting_with_memory(choose, frames, config.hidden_dim)
    else:
        acting = acting_on(act, frames)
    return PPO(init, acting, value, update)


def explained_variance(
    value: Float[Array, " step"], target: Float[Array, " step"]
) -> Float[Array, ""]:
    """1 - Var(R - V) / Var(R); NaN where all R are equal."""
    variance = jnp.var(target)
    return jnp.where(variance > 0, 1.0 - jnp.var(target - value) / variance, jnp.nan)
