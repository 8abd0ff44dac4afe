"""A2C: sample an action, take one RMSprop step per rollout."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.a2c.losses import a2c_loss
from re3_jax.agents.a2c.networks import ActorCritic, MiniGridTrunk, VectorTrunk
from re3_jax.agents.base import Info
from re3_jax.agents.rollout import Rollout
from re3_jax.distributions import Categorical
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.networks import minigrid


@inherits("params")
class A2CState(NamedTuple):
    """Parameters and RMSprop's running squares."""

    params: Any
    opt_state: optax.OptState


class A2C(NamedTuple):
    """The agent for one task.

    init(key) -> state
    act(state, observation[batch, ...], key, explore) -> action[batch]; `explore` is static: True
      samples, False takes the mode
    value(state, observation[batch, ...]) -> V(o)[batch]
    update(state, rollout) -> (state, info)
    """

    init: Callable[[PRNGKeyArray], A2CState]
    act: Callable[
        [A2CState, Shaped[Array, " batch *observation"], PRNGKeyArray, bool], Int[Array, " batch"]
    ]
    value: Callable[[A2CState, Shaped[Array, " batch *observation"]], Float[Array, " batch"]]
    update: Callable[[A2CState, Rollout], tuple[A2CState, Info]]


def make_optimizer(config: A2CConfig) -> optax.GradientTransformation:
    """Global-norm clipping, then PyTorch's RMSprop (epsilon outside the root)."""
    return optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm),
        optax.rmsprop(
            config.learning_rate,
            decay=config.rmsprop_decay,
            eps=config.rmsprop_eps,
            eps_in_sqrt=False,
        ),
    )


def make_network(config: A2CConfig, spec: EnvSpec) -> ActorCritic:
    """The paper's network for 7x7x3 views, two tanh layers for anything else.

    Raises:
      ValueError: if the actions are not discrete.
    """
    if not isinstance(spec.action_space, Discrete):
        raise ValueError(
            f"a2c needs discrete actions and {spec.task} has continuous ones: "
            "choose a task with a finite action set"
        )
    is_view = spec.observation_shape == minigrid.OBSERVATION_SHAPE
    make_trunk = MiniGridTrunk if is_view else partial(VectorTrunk, config.hidden_dim)
    return ActorCritic(make_trunk, spec.action_space.num_actions, config.hidden_dim)


def make_a2c(config: A2CConfig, spec: EnvSpec) -> A2C:
    """Builds the agent for one task.

    Raises:
      ValueError: if the actions are not discrete.
    """
    network = make_network(config, spec)
    optimizer = make_optimizer(config)

    def init(key: PRNGKeyArray) -> A2CState:
        observation = jnp.zeros((1, *spec.observation_shape), spec.observation_dtype)
        params = network.init(key, observation)
        return A2CState(params, optimizer.init(params))

    def act(
        state: A2CState,
        observation: Shaped[Array, " batch *observation"],
        key: PRNGKeyArray,
        explore: bool,
    ) -> Int[Array, " batch"]:
        logits = jnp.asarray(network.apply(state.params, observation, method="logits"))
        policy = Categorical(logits)
        return policy.sample(key) if explore else policy.mode()

    def value(
        state: A2CState, observation: Shaped[Array, " batch *observation"]
    ) -> Float[Array, " batch"]:
        return jnp.asarray(network.apply(state.params, observation, method="value"))

    def update(state: A2CState, rollout: Rollout) -> tuple[A2CState, Info]:
        gradient, info = jax.grad(a2c_loss, has_aux=True)(state.params, network, rollout, config)
        updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
        info["gradient_norm"] = optax.tree.norm(gradient)
        return A2CState(optax.apply_updates(state.params, updates), opt_state), info

    return A2C(init, act, value, update)
