"""Rainbow: DQN with double Q, dueling, noise, distributions, priorities, n steps.

One update, as Kaixhin/Rainbow orders it: noise is drawn anew for the online and for the target
network; the online network with its noise chooses the next action, the target network with its
own says what it is worth; the gradient of the weighted mean loss is clipped and given to Adam;
every `target_every` updates the target network becomes a copy.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from re3_jax.agents.base import Info
from re3_jax.agents.rainbow import losses, networks
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.rainbow.networks import Network
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.inheritance import inherits


class RainbowBatch(NamedTuple):
    """What one update learns from.

    Attributes:
      observation: o_t.
      action: a_t.
      reward: sum of the discounted task rewards of the n steps.
      bonus: what the intrinsic reward adds to it.
      discount: gamma^n, 0 if the task ended within them.
      next_observation: o_{t+n}.
      weight: importance weight of each in the loss.
    """

    observation: Shaped[Array, " batch *observation"]
    action: Int[Array, " batch"]
    reward: Float[Array, " batch"]
    bonus: Float[Array, " batch"]
    discount: Float[Array, " batch"]
    next_observation: Shaped[Array, " batch *observation"]
    weight: Float[Array, " batch"]


@inherits("online", "target")
class RainbowState(NamedTuple):
    """All that Rainbow learns.

    Attributes:
      online: the network that acts.
      target: the one that targets are computed with.
      opt_state: Adam's.
      updates: made so far.
    """

    online: Network
    target: Network
    opt_state: optax.OptState
    updates: Int[Array, ""]


class Rainbow(NamedTuple):
    """The agent for one task.

    init(key) -> state
    act(state, observation[batch, ...], key, explore) -> action[batch]; `explore` is static: True
      acts with noise or epsilon, False takes the best action of the mean weights
    value(state, observation[batch, ...]) -> max_a E[Z(o, a)][batch] under the mean weights
    update(state, batch, key) -> (state, priority[batch], info); `priority` is loss^alpha, positive,
      or |error|^alpha without a distribution
    """

    init: Callable[[PRNGKeyArray], RainbowState]
    act: Callable[
        [RainbowState, Shaped[Array, " batch *observation"], PRNGKeyArray, bool],
        Int[Array, " batch"],
    ]
    value: Callable[[RainbowState, Shaped[Array, " batch *observation"]], Float[Array, " batch"]]
    update: Callable[
        [RainbowState, RainbowBatch, PRNGKeyArray],
        tuple[RainbowState, Float[Array, " batch"], Info],
    ]


def make_rainbow(config: RainbowConfig, spec: EnvSpec) -> Rainbow:
    """Builds the agent for one task.

    Raises:
      ValueError: if the actions are not discrete, or the torso does not fit the observations.
    """
    if not isinstance(spec.action_space, Discrete):
        raise ValueError(
            f"rainbow needs discrete actions, which {spec.task} does not have: choose another "
            "agent or a task with a list of actions"
        )
    num_actions = spec.action_space.num_actions
    support = jnp.linspace(config.v_min, config.v_max, config.num_atoms)
    atoms = support if config.distributional else None
    optimizer = optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm),
        optax.adam(config.learning_rate, eps=config.adam_eps),
    )

    def init(key: PRNGKeyArray) -> RainbowState:
        online = networks.init(key, config, spec.observation_shape, num_actions)
        return RainbowState(
            online=online,
            # A copy of its own: a donated state may not hold one buffer twice.
            target=jax.tree.map(jnp.copy, online),
            opt_state=optimizer.init(online),
            updates=jnp.int32(0),
        )

    def act(
        state: RainbowState,
        observation: Shaped[Array, " batch *observation"],
        key: PRNGKeyArray,
        explore: bool,
    ) -> Int[Array, " batch"]:
        noise_key, epsilon_key, action_key = jax.random.split(key, 3)
        noise = networks.draw_noise(noise_key, state.online) if explore else None
        outputs = networks.outputs(state.online, observation, noise, config)
        greedy = jnp.argmax(losses.mean(outputs, atoms), axis=1).astype(jnp.int32)
        if config.noisy or not explore:
            return greedy
        is_random = jax.random.uniform(epsilon_key, greedy.shape) < config.epsilon
        return jnp.where(
            is_random, jax.random.randint(action_key, greedy.shape, 0, num_actions), greedy
        )

    def value(
        state: RainbowState, observation: Shaped[Array, " batch *observation"]
    ) -> Float[Array, " batch"]:
        outputs = networks.outputs(state.online, observation, None, config)
        return jnp.max(losses.mean(outputs, atoms), axis=1)

    def target_of(state: RainbowState, batch: RainbowBatch, online_noise, key: PRNGKeyArray):
        target_noise = networks.draw_noise(key, state.target)
        outputs = networks.outputs(state.target, batch.next_observation, target_noise, config)
        choosing = outputs
        if config.double:
            choosing = networks.outputs(state.online, batch.next_observation, online_noise, config)
        action = jnp.argmax(losses.mean(choosing, atoms), axis=1)
        reward = batch.reward + batch.bonus
        if config.distributional:
            return losses.categorical_target(outputs, action, reward, batch.discount, support)
        return losses.scalar_target(outputs, action, reward, batch.discount)

    def update(
        state: RainbowState, batch: RainbowBatch, key: PRNGKeyArray
    ) -> tuple[RainbowState, Float[Array, " batch"], Info]:
        online_key, target_key = jax.random.split(key)
        noise = networks.draw_noise(online_key, state.online)
        target = target_of(state, batch, noise, target_key)

        def loss_of(online: Network):
            outputs = networks.outputs(online, batch.observation, noise, config)
            if config.distributional:
                loss = error = losses.categorical_loss(outputs, batch.action, target)
            else:
                loss, error = losses.huber_loss(outputs, batch.action, target)
            q = jnp.mean(jnp.max(losses.mean(outputs, atoms), axis=1))
            return jnp.mean(batch.weight * loss), (error, q)

        (loss, (error, q)), gradient = jax.value_and_grad(loss_of, has_aux=True)(state.online)
        change, opt_state = optimizer.update(gradient, state.opt_state)
        online = optax.apply_updates(state.online, change)
        updates = state.updates + 1
        copies = updates % config.target_every == 0
        # `cond`, not `where`: leaves the target buffer untouched between copies.
        target_network = jax.lax.cond(copies, lambda: online, lambda: state.target)
        # Keep priorities positive so every transition can be sampled again.
        priority = jnp.maximum(error, jnp.finfo(jnp.float32).tiny) ** config.priority_exponent
        state = RainbowState(online, target_network, opt_state, updates)
        info = {"loss": loss, "q_mean": q, "gradient_norm": optax.tree.norm(gradient)}
        return state, priority, info

    return Rainbow(init, act, value, update)
