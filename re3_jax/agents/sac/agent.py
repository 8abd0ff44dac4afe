"""SAC: RAD and DrQ from pixels, plain SAC from flat observations.

One update, as the released code orders it: the critic learns from y = r_e + beta_t r_i + ...;
every `actor_every`-th time actor and temperature follow, on the same augmented images but with
the critic's new weights; every `target_every`-th time the target critic moves. The update with
number 0 does all of it.

Passes through the convolutions per update, the whole cost of it at the paper's size: forward
over o' with the critic's and with the target's weights, forward and backward over o, and where
the actor learns one more forward over o, with the new weights. The released code, which encodes
in every loss anew and for actor and critic apart, makes two more forward passes there.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from re3_jax import augment
from re3_jax.agents.base import Info, unit_action_dim
from re3_jax.agents.sac import losses, networks
from re3_jax.agents.sac.config import SACConfig
from re3_jax.agents.sac.networks import Actor, Critic
from re3_jax.cpu import flat_random
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.replay.transitions import Transitions


class ActorInfo(NamedTuple):
    """What the newest update of the actor reported; updates without one repeat it."""

    loss: Float[Array, ""]
    entropy: Float[Array, ""]


@inherits("actor", "critic", "target")
class SACState(NamedTuple):
    """All that SAC learns."""

    actor: Actor
    critic: Critic
    target: Critic
    log_alpha: Float[Array, ""]
    actor_opt_state: optax.OptState
    critic_opt_state: optax.OptState
    temperature_opt_state: optax.OptState
    actor_info: ActorInfo


Update = Callable[[SACState, Transitions, PRNGKeyArray], tuple[SACState, Info]]


class SAC(NamedTuple):
    """The agent for one task.

    init(key) -> state
    act(state, observation[batch, ...], key, explore) -> action[batch, action] in [-1, 1];
      `explore` is static: True samples, False takes the mode
    value(state, observation[batch, ...]) -> min(Q1, Q2)(o, a)[batch] of the policy's mode a
    phases: updates that follow each other in a cycle, in which the critic always learns and the
      actor and the target network now and then: update number i is phase i modulo their number.
      Each is (state, batch, key) -> (state, info), with the same names in `info`.
    action_dim: length of an action.
    """

    init: Callable[[PRNGKeyArray], SACState]
    act: Callable[
        [SACState, Shaped[Array, " batch *observation"], PRNGKeyArray, bool],
        Float[Array, "batch actions"],
    ]
    value: Callable[[SACState, Shaped[Array, " batch *observation"]], Float[Array, " batch"]]
    phases: tuple[Update, ...]
    action_dim: int


class Draws(NamedTuple):
    """All that is random in one update, `copies` augmented copies one after the other."""

    observation: Shaped[Array, " copies_batch *image"]
    next_observation: Shaped[Array, " copies_batch *image"]
    next_noise: Float[Array, "copies_batch actions"]
    noise: Float[Array, "batch actions"]


def draw(key: PRNGKeyArray, batch: Transitions, config: SACConfig) -> Draws:
    """Augments o and o', each image by an offset of its own, and draws the policy's noise."""
    keys = jax.random.split(key, 4)
    size, action_dim = batch.action.shape
    copies = config.num_augmentations if batch.observation.ndim == 4 else 1

    def augmented(key, images):
        if copies == 1:
            return _augment(key, images, config)
        each = [_augment(k, images, config) for k in jax.random.split(key, copies)]
        return jnp.concatenate(each)

    return Draws(
        augmented(keys[0], batch.observation),
        augmented(keys[1], batch.last_observation),
        flat_random.normal(keys[2], (copies * size, action_dim)),
        flat_random.normal(keys[3], (size, action_dim)),
    )


def make_sac(config: SACConfig, spec: EnvSpec) -> SAC:
    """Builds the agent for one task; its actions are in [-1, 1].

    Raises:
      ValueError: if the actions are not one vector of real numbers, the observations neither
        images nor flat, or the images too small.
    """
    action_dim = unit_action_dim(spec, "rad or drq")
    seen_shape = _seen_shape(config, spec)
    actor_optimizer = optax.adam(config.actor_learning_rate)
    critic_optimizer = optax.adam(config.critic_learning_rate)
    temperature_optimizer = optax.adam(config.temperature_learning_rate)

    def init(key: PRNGKeyArray) -> SACState:
        actor, critic = networks.init(key, config, seen_shape, action_dim, spec.frame_stack)
        log_alpha = jnp.float32(math.log(config.init_temperature))
        return SACState(
            actor,
            critic,
            # A copy of its own: a donated state may not hold one buffer twice.
            jax.tree.map(jnp.copy, critic),
            log_alpha,
            actor_optimizer.init(actor),
            critic_optimizer.init(critic),
            temperature_optimizer.init(log_alpha),
            ActorInfo(jnp.float32(0), jnp.float32(0)),
        )

    def seen_features(
        state: SACState, observation: Shaped[Array, " batch *observation"]
    ) -> Float[Array, "batch flat"]:
        if spec.is_image and config.augmentation == "crop":
            observation = augment.centre_crop(observation, config.crop_size)
        return networks.features(state.critic.convs, observation)

    def value(
        state: SACState, observation: Shaped[Array, " batch *observation"]
    ) -> Float[Array, " batch"]:
        flat = seen_features(state, observation)
        mean, _ = networks.policy(state.actor, flat, config)
        return jnp.minimum(*networks.q_values(state.critic, flat, jnp.tanh(mean)))

    def act(
        state: SACState,
        observation: Shaped[Array, " batch *observation"],
        key: PRNGKeyArray,
        explore: bool,
    ) -> Float[Array, "batch actions"]:
        mean, log_std = networks.policy(state.actor, seen_features(state, observation), config)
        if not explore:
            return jnp.tanh(mean)
        noise = flat_random.normal(key, mean.shape)
        return jnp.tanh(mean + jnp.exp(log_std) * noise)

    def learn_critic(state: SACState, batch: Transitions, draws: Draws) -> tuple[SACState, Info]:
        target = losses.td_target(
            state.actor,
            state.critic,
            state.target,
            jnp.exp(state.log_alpha),
            draws.next_observation,
            draws.next_noise,
            batch.reward + batch.bonuses,
            batch.discount,
            config,
        )
        (loss, q_mean), gradient = jax.value_and_grad(losses.critic_loss, has_aux=True)(
            state.critic, draws.observation, batch.action, target
        )
        updates, opt_state = critic_optimizer.update(gradient, state.critic_opt_state)
        critic = optax.apply_updates(state.critic, updates)
        state = state._replace(critic=critic, critic_opt_state=opt_state)
        return state, {"critic_loss": loss, "q_mean": q_mean, "target_mean": jnp.mean(target)}

    def learn_actor(state: SACState, draws: Draws) -> SACState:
        observation = draws.observation[: draws.noise.shape[0]]
        flat = networks.features(state.critic.convs, observation)
        (loss, log_probability), gradient = jax.value_and_grad(losses.actor_loss, has_aux=True)(
            state.actor, state.critic, jnp.exp(state.log_alpha), flat, draws.noise, config
        )
        updates, actor_opt_state = actor_optimizer.update(gradient, state.actor_opt_state)
        alpha_gradient = jax.grad(losses.temperature_loss)(
            state.log_alpha, log_probability, action_dim
        )
        alpha_update, temperature_opt_state = temperature_optimizer.update(
            alpha_gradient, state.temperature_opt_state
        )
        return state._replace(
            actor=optax.apply_updates(state.actor, updates),
            actor_opt_state=actor_opt_state,
            log_alpha=state.log_alpha + alpha_update,
            temperature_opt_state=temperature_opt_state,
            actor_info=ActorInfo(loss, -log_probability),
        )

    def move_target(state: SACState) -> SACState:
        critic, target, move = state.critic, state.target, optax.incremental_update
        moved = Critic(
            move(critic.convs, target.convs, config.encoder_tau),
            move(critic.head, target.head, config.encoder_tau),
            move(critic.q, target.q, config.critic_tau),
        )
        return state._replace(target=moved)

    def make_phase(learns_actor: bool, moves_target: bool) -> Update:
        def phase(state: SACState, batch: Transitions, key: PRNGKeyArray) -> tuple[SACState, Info]:
            with jax.named_scope("augment"):
                draws = draw(key, batch, config)
            with jax.named_scope("critic"):
                state, info = learn_critic(state, batch, draws)
            if learns_actor:
                with jax.named_scope("actor"):
                    state = learn_actor(state, draws)
            if moves_target:
                with jax.named_scope("target"):
                    state = move_target(state)
            info["actor_loss"] = state.actor_info.loss
            info["entropy"] = state.actor_info.entropy
            info["temperature"] = jnp.exp(state.log_alpha)
            return state, info

        return phase

    cycle = range(math.lcm(config.actor_every, config.target_every))
    kinds = [(i % config.actor_every == 0, i % config.target_every == 0) for i in cycle]
    made = {kind: make_phase(*kind) for kind in dict.fromkeys(kinds)}
    return SAC(init, act, value, tuple(made[kind] for kind in kinds), action_dim)


def _augment(key: PRNGKeyArray, images: Array, config: SACConfig) -> Array:
    if images.ndim != 4 or config.augmentation == "none":
        return images
    if config.augmentation == "crop":
        return augment.random_crop(key, images, config.crop_size)
    return augment.random_shift(key, images, config.shift_pad)


def _seen_shape(config: SACConfig, spec: EnvSpec) -> tuple[int, ...]:
    """Shape of an observation as the networks see it."""
    shape = spec.observation_shape
    if len(shape) == 1:
        return shape
    if not spec.is_image:
        raise ValueError(
            f"rad and drq need images of bytes or flat observations, but those of {spec.task} are "
            f"{spec.observation_dtype}{list(shape)}: choose another task or another agent"
        )
    if config.augmentation == "shift":
        augment.check_shift(shape[0], shape[1], config.shift_pad)
    if config.augmentation != "crop":
        return shape
    augment.check_crop(shape[0], shape[1], config.crop_size)
    return (config.crop_size, config.crop_size, shape[2])
