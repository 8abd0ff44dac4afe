"""Adds RE3 to a PPO that is one jitted JAX function, in the manner of PureJaxRL, on MountainCar-v0.

MountainCar pays -1 per step until the car is on the hill, which random actions hardly ever reach.
The state of the bonus is one more part of the carry. The lines marked RE3, and their imports, are
all that is added.

    python examples/purejaxrl_ppo.py
"""

from functools import partial
from typing import NamedTuple

import flax.linen as nn
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import optax

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import RE3Config, Step, from_config, none, reward_rollout

NUM_ENVS, ROLLOUT, NUM_UPDATES, NUM_SEEDS = 16, 64, 100, 5
EPOCHS, MINIBATCHES, DISCOUNT, TRACE, CLIP = 4, 4, 0.99, 0.95, 0.2
ENV, ENV_PARAMS = gymnax.make("MountainCar-v0")
OPTIMIZER = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4, eps=1e-5))
SPEC = EnvSpec("gymnax:MountainCar-v0", (2,), np.dtype(np.float32), Discrete(3), 200)  # RE3
CONFIG = RE3Config(3, 3, beta=1.0, ring_size=2000, latent_dim=16, normalize="running_std")  # RE3
RE3 = from_config(CONFIG)  # RE3


class ActorCritic(nn.Module):
    """Logits of the three actions, and the value."""

    @nn.compact
    def __call__(self, x):
        """Two towers of tanh layers."""
        logits, value = (
            nn.Dense(outputs)(nn.tanh(nn.Dense(64)(nn.tanh(nn.Dense(64)(x))))) for outputs in (3, 1)
        )
        return logits, value[..., 0]


class Transition(NamedTuple):
    """One step of all lanes."""

    observation: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array


NETWORK = ActorCritic()


def scaled(raw):
    """Position and velocity in [-1, 1], so that neither dominates the distances."""
    low, high = jnp.array([-1.2, -0.07]), jnp.array([0.6, 0.07])
    return 2.0 * (raw - low) / (high - low) - 1.0


def log_prob_of(logits, action):
    """Log probability of the action that was taken."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]


def loss(params, batch, advantage, target):
    """PPO's clipped loss."""
    logits, value = NETWORK.apply(params, batch.observation)
    ratio = jnp.exp(log_prob_of(logits, batch.action) - batch.log_prob)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage).mean()
    entropy = -(jax.nn.softmax(logits) * jax.nn.log_softmax(logits)).sum(axis=-1).mean()
    return 0.5 * jnp.square(value - target).mean() - gain - 0.01 * entropy


def advantages_of(rollout, value):
    """Generalised advantage estimates; `value` is that of the observation after the rollout."""

    def backwards(carry, step):
        advantage, following = carry
        keep = DISCOUNT * (1.0 - step.done)
        error = step.reward + keep * following - step.value
        advantage = error + keep * TRACE * advantage
        return (advantage, step.value), advantage

    return jax.lax.scan(backwards, (jnp.zeros_like(value), value), rollout, reverse=True)[1]


def train(key, bonus, num_updates):
    """Return per episode over the last quarter of training, without the bonus."""
    key, net_key, env_key, bonus_key = jax.random.split(key, 4)  # RE3
    params = NETWORK.init(net_key, jnp.zeros(2))
    raw, env_state = jax.vmap(ENV.reset, (0, None))(jax.random.split(env_key, NUM_ENVS), ENV_PARAMS)
    bonus_state = bonus.init(bonus_key, SPEC, NUM_ENVS)  # RE3

    def update(carry, number):
        params, opt_state, env_state, raw, key, bonus_state = carry  # RE3

        def step(carry, key):
            env_state, raw = carry
            action_key, step_key = jax.random.split(key)
            logits, value = NETWORK.apply(params, scaled(raw))
            action = jax.random.categorical(action_key, logits)
            after, env_state, reward, terminated, truncated, _ = jax.vmap(
                ENV.step, (0, 0, 0, None)
            )(jax.random.split(step_key, NUM_ENVS), env_state, action, ENV_PARAMS)
            done = terminated | truncated
            taken = scaled(raw), action, log_prob_of(logits, action), value, reward, done
            return (env_state, after), Transition(*taken)

        key, rollout_key, bonus_key, epoch_key = jax.random.split(key, 4)  # RE3
        (env_state, raw), rollout = jax.lax.scan(
            step, (env_state, raw), jax.random.split(rollout_key, ROLLOUT)
        )
        task_reward = rollout.reward
        agent_steps = number * task_reward.size  # RE3
        given = bonus_state, Step(rollout.observation), agent_steps, bonus_key  # RE3
        paid, bonus_state, _ = reward_rollout(bonus, *given)  # RE3
        rollout = rollout._replace(reward=task_reward + paid)  # RE3
        advantage = advantages_of(rollout, NETWORK.apply(params, scaled(raw))[1])
        examples = jax.tree.map(
            lambda leaf: leaf.reshape(-1, *leaf.shape[2:]),
            (rollout, advantage, advantage + rollout.value),
        )

        def learn(carry, rows):
            params, opt_state = carry
            gradient = jax.grad(loss)(params, *jax.tree.map(lambda leaf: leaf[rows], examples))
            updates, opt_state = OPTIMIZER.update(gradient, opt_state)
            return (optax.apply_updates(params, updates), opt_state), None

        def shuffled(key):
            return jax.random.permutation(key, task_reward.size).reshape(MINIBATCHES, -1)

        rows = jax.vmap(shuffled)(jax.random.split(epoch_key, EPOCHS))
        (params, opt_state), _ = jax.lax.scan(
            learn, (params, opt_state), rows.reshape(EPOCHS * MINIBATCHES, -1)
        )
        carry = params, opt_state, env_state, raw, key, bonus_state  # RE3
        return carry, (task_reward.sum(), rollout.done.sum())

    carry = params, OPTIMIZER.init(params), env_state, raw, key, bonus_state  # RE3
    _, (reward, episodes) = jax.lax.scan(update, carry, jnp.arange(num_updates))
    late = slice(num_updates * 3 // 4, None)
    return reward[late].sum() / jnp.maximum(episodes[late].sum(), 1)


def main():
    """Trains with and without the bonus and prints both."""
    print(f"MountainCar-v0, {NUM_UPDATES * ROLLOUT * NUM_ENVS:,} steps, {NUM_SEEDS} seeds")
    keys = jax.random.split(jax.random.key(0), NUM_SEEDS)
    for name, bonus in (("without RE3", none()), ("with RE3", RE3)):
        run = jax.jit(jax.vmap(partial(train, bonus=bonus, num_updates=NUM_UPDATES)))
        returns = np.asarray(run(keys))
        print(f"{name:>12}: return " + ", ".join(f"{value:.1f}" for value in returns), flush=True)


if __name__ == "__main__":
    main()
