"""An agent of your own with a replay: TD3 (Fujimoto et al., 2018) for vectors.

make run ENV=gymnax:Pendulum-v1 AGENT=td3 ARGS="--plugin examples/plugin_off_policy_agent.py"

It learns this task in 10,000 frames: add STEPS=20000.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from re3_jax import initializers
from re3_jax.agents.base import acting_on, reported, unit_action_dim
from re3_jax.agents.off_policy import off_policy_learner, transition_storage
from re3_jax.envs.base import Box
from re3_jax.inheritance import inherits
from re3_jax.intrinsic.rewarding import with_bonus
from re3_jax.networks.mlp import kernel_shapes, mlp
from re3_jax.replay.frame_stack import FrameStack
from re3_jax.runs import agents


@dataclass(frozen=True)
class TD3Config:
    """The paper's numbers, but smaller networks, batches and replays; actions are from -1 to 1."""

    num_envs: int = 1
    batch_size: int = 64
    replay_capacity: int = 20_000
    initial_agent_steps: int = 1_000
    hidden_dim: int = 64
    learning_rate: float = 1e-3
    discount: float = 0.99
    tau: float = 0.005
    policy_every: int = 2
    exploration_noise: float = 0.1
    target_noise: float = 0.2
    noise_clip: float = 0.5


@inherits("actor", "critics", "targets")
class TD3State(NamedTuple):
    """The policy, two Q functions, the slow copies of both, and Adam's moments of both."""

    actor: Any
    critics: Any
    targets: Any
    actor_moments: Any
    critics_moments: Any


def policy(actor, observation):
    """Its action, without noise."""
    return jnp.tanh(mlp(actor, observation))


def q_values(critics, observation, action):
    """Q(o, a) [critic, batch]."""
    x = jnp.concatenate([observation, action], axis=-1)
    return jnp.stack([mlp(critic, x)[:, 0] for critic in critics])


def td_target(targets, batch, noise, gamma):
    """What both critics learn; `batch.discount` is without gamma, and 0 where the task ended."""
    actor, critics = targets
    action = jnp.clip(policy(actor, batch.next_observation) + noise, -1, 1)
    q = q_values(critics, batch.next_observation, action).min(axis=0)
    return batch.reward + batch.bonus + gamma * batch.discount * q


def make_learner(config, spec, bonus):
    """The learner of one task."""
    action_dim = unit_action_dim(spec, "td3")
    if len(spec.observation_shape) != 1:
        raise ValueError(f"td3 learns from vectors only, which {spec.task} does not show")
    frames, adam = FrameStack(spec.frame_stack), optax.adam(config.learning_rate)
    storage = transition_storage(config.replay_capacity, config.batch_size, spec, bonus.index_shape)

    def init(key):
        (inputs,), hidden = spec.observation_shape, config.hidden_dim
        of_actor = kernel_shapes(inputs, hidden, hidden, action_dim)
        of_critic = kernel_shapes(inputs + action_dim, hidden, hidden, 1)
        layers = initializers.layers("torch", key, [*of_actor, *of_critic, *of_critic])
        actor, critics = tuple(layers[:3]), (tuple(layers[3:6]), tuple(layers[6:]))
        # Copies: a loop donates the state, in which no buffer may lie twice.
        targets = jax.tree.map(jnp.copy, (actor, critics))
        return TD3State(actor, critics, targets, adam.init(actor), adam.init(critics))

    def act(agent, observation, key, explore):
        action = policy(agent.actor, observation)
        noise = config.exploration_noise * jax.random.normal(key, action.shape)
        return jnp.clip(action + noise, -1, 1) if explore else action

    def value(agent, observation):
        return q_values(agent.critics, observation, policy(agent.actor, observation)).min(axis=0)

    def learn_critics(agent, batch, key):
        def loss(critics):
            q = q_values(critics, batch.observation, batch.action)
            return jnp.sum(jnp.mean((q - target) ** 2, axis=1)), q.mean()

        noise = config.target_noise * jax.random.normal(key, batch.action.shape)
        noise = jnp.clip(noise, -config.noise_clip, config.noise_clip)
        target = td_target(agent.targets, batch, noise, config.discount)
        (error, q), gradient = jax.value_and_grad(loss, has_aux=True)(agent.critics)
        change, moments = adam.update(gradient, agent.critics_moments)
        critics = optax.apply_updates(agent.critics, change)
        return agent._replace(critics=critics, critics_moments=moments), {"td_loss": error, "q": q}

    def learn_actor(agent, batch):
        def loss(actor):
            action = policy(actor, batch.observation)
            return -q_values(agent.critics, batch.observation, action)[0].mean()

        gradient = jax.grad(loss)(agent.actor)
        change, moments = adam.update(gradient, agent.actor_moments)
        actor = optax.apply_updates(agent.actor, change)
        targets = optax.incremental_update((actor, agent.critics), agent.targets, config.tau)
        return agent._replace(actor=actor, targets=targets, actor_moments=moments)

    def phase(state, agent_steps, key, moves_actor):
        sample_key, bonus_key, noise_key = jax.random.split(key, 3)
        batch, index = storage.sample(sample_key, state.replay)
        value_of = partial(value, state.agent)
        batch, intrinsic, of_bonus = with_bonus(
            bonus, state.intrinsic, batch, index, agent_steps, bonus_key, value_of
        )
        agent, info = learn_critics(state.agent, batch, noise_key)
        agent = learn_actor(agent, batch) if moves_actor else agent
        return state._replace(agent=agent, intrinsic=intrinsic), reported(info, of_bonus)

    def updates_due(before, after):
        return (after >= config.initial_agent_steps) * (after - before)

    of_critics, of_all = (partial(phase, moves_actor=moves) for moves in (False, True))
    return off_policy_learner(
        spec,
        bonus,
        config.num_envs,
        init,
        acting_on(act, frames),
        storage,
        frames=frames,
        updates_due=updates_due,
        phases=(of_critics,) * (config.policy_every - 1) + (of_all,),
        random_agent_steps=config.initial_agent_steps,
        value=value,
    )


agents.register(
    agents.Agent(
        name="td3",
        group="td3",
        config=TD3Config,
        make=make_learner,
        actions=Box,
        networks=("hidden_dim",),
        first_update="initial_agent_steps",
        gives_value=True,
    )
)
