"""Adds RE3 to a plain actor-critic loop outside this library, on gymnax's MountainCar-v0.

MountainCar pays -1 per step until the car is on the hill, and random actions hardly ever reach the
hill: a plain policy gradient has nothing to learn from. The lines marked RE3 are all that the loop
needs to reward the agent for reaching states unlike the last 2000.

    python examples/re3_in_a_plain_loop.py
"""

from functools import partial

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import optax

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import IntrinsicBatch, RE3Config, Step, from_config, none

NUM_ENVS, ROLLOUT, NUM_UPDATES, NUM_SEEDS, DISCOUNT, BINS = 16, 32, 300, 5, 0.99, 20
LAYER_SIZES = (2, 64, 64, 4)
ENV, ENV_PARAMS = gymnax.make("MountainCar-v0")
OPTIMIZER = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-3))
SPEC = EnvSpec("gymnax:MountainCar-v0", (2,), np.dtype(np.float32), Discrete(3), 200)  # RE3
RE3 = from_config(  # RE3
    RE3Config(3, 3, beta=1.0, ring_size=2000, latent_dim=16, normalize="running_std")
)


def scaled(raw):
    """Position and velocity in [-1, 1], so that neither dominates the distances."""
    low, high = jnp.array([-1.2, -0.07]), jnp.array([0.6, 0.07])
    return 2.0 * (raw - low) / (high - low) - 1.0


def init_network(key):
    """Three tanh layers."""
    keys = jax.random.split(key, len(LAYER_SIZES) - 1)
    shapes = zip(LAYER_SIZES[:-1], LAYER_SIZES[1:], strict=True)
    return [
        (jax.random.normal(k, shape) / shape[0] ** 0.5, jnp.zeros(shape[1]))
        for k, shape in zip(keys, shapes, strict=True)
    ]


def network(params, x):
    """Logits of the three actions and the value."""
    for kernel, bias in params[:-1]:
        x = jnp.tanh(x @ kernel + bias)
    x = x @ params[-1][0] + params[-1][1]
    return x[..., :3], x[..., 3]


def loss(params, observation, action, target):
    """Policy gradient with the value as baseline, and a small entropy bonus."""
    logits, value = network(params, observation)
    log_probs = jax.nn.log_softmax(logits)
    log_prob = jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]
    advantage = jax.lax.stop_gradient(target - value)
    entropy = -(jnp.exp(log_probs) * log_probs).sum(axis=-1)
    return (-log_prob * advantage + 0.5 * (target - value) ** 2 - 0.01 * entropy).mean()


def train(key, bonus, num_updates):
    """Return per episode over the last quarter, and the share of states visited overall."""
    key, net_key, env_key, bonus_key = jax.random.split(key, 4)
    params = init_network(net_key)
    raw, env_state = jax.vmap(ENV.reset, (0, None))(jax.random.split(env_key, NUM_ENVS), ENV_PARAMS)
    bonus_state = bonus.init(bonus_key, SPEC)  # RE3

    def update(carry, number):
        params, opt_state, env_state, raw, bonus_state, visited, key = carry

        def step(carry, key):
            env_state, raw = carry
            action_key, step_key = jax.random.split(key)
            action = jax.random.categorical(action_key, network(params, scaled(raw))[0])
            after, env_state, reward, terminated, truncated, _ = jax.vmap(
                ENV.step, (0, 0, 0, None)
            )(jax.random.split(step_key, NUM_ENVS), env_state, action, ENV_PARAMS)
            return (env_state, after), (scaled(raw), action, reward, terminated | truncated)

        key, rollout_key = jax.random.split(key)
        (env_state, raw), (observation, action, reward, done) = jax.lax.scan(
            step, (env_state, raw), jax.random.split(rollout_key, ROLLOUT)
        )
        flat = observation.reshape(-1, 2)
        bonus_state, index = bonus.observe(bonus_state, Step(flat))  # RE3
        batch = IntrinsicBatch(flat, action, flat, index, number * len(flat))  # RE3
        intrinsic, bonus_state, _ = bonus.reward(bonus_state, batch)  # RE3
        total = reward + intrinsic.reshape(reward.shape)  # RE3

        def discounted(later, step):
            reward, done = step
            now = reward + DISCOUNT * later * (1.0 - done)
            return now, now

        last_value = network(params, scaled(raw))[1]
        target = jax.lax.scan(discounted, last_value, (total, done), reverse=True)[1]
        gradient = jax.grad(loss)(params, observation, action, target)
        updates, opt_state = OPTIMIZER.update(gradient, opt_state)
        params = optax.apply_updates(params, updates)
        row, column = jnp.clip((flat.T + 1.0) / 2.0 * BINS, 0, BINS - 1).astype(jnp.int32)
        visited = visited.at[row, column].set(True)
        carry = params, opt_state, env_state, raw, bonus_state, visited, key
        return carry, (reward.sum(), done.sum())

    visited = jnp.zeros((BINS, BINS), bool)
    carry = params, OPTIMIZER.init(params), env_state, raw, bonus_state, visited, key
    carry, (reward, episodes) = jax.lax.scan(update, carry, jnp.arange(num_updates))
    late = slice(num_updates * 3 // 4, None)
    return reward[late].sum() / jnp.maximum(episodes[late].sum(), 1), carry[5].mean()


def main():
    """Trains with and without the bonus and prints both."""
    keys = jax.random.split(jax.random.key(0), NUM_SEEDS)
    steps = NUM_UPDATES * NUM_ENVS * ROLLOUT
    print(f"MountainCar-v0, {steps:,} steps, {NUM_SEEDS} seeds: mean (min .. max)")
    for name, bonus in (("without RE3", none()), ("with RE3", RE3)):
        run = jax.jit(jax.vmap(partial(train, bonus=bonus, num_updates=NUM_UPDATES)))
        returns, coverage = (np.asarray(result) for result in run(keys))
        print(
            f"{name:>12}: return {returns.mean():7.1f} ({returns.min():.1f} .. {returns.max():.1f})"
            f", states visited {coverage.mean():.0%} ({coverage.min():.0%} .. {coverage.max():.0%})"
        )


if __name__ == "__main__":
    main()
