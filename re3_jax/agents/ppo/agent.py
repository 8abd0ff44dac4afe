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
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.losses import Minibatch, ppo_loss
from re3_jax.agents.ppo.memory import Hidden, Past, acting_with_memory
from re3_jax.agents.ppo.minibatches import chosen, prepared
from re3_jax.agents.ppo.networks import ActorCritic
from re3_jax.agents.ppo.state import PPOState, as_seen
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import EnvSpec
from re3_jax.replay.frame_stack import FrameStack


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

        batch, state, of_rollout = prepared(config, state, rollout)
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
