"""Tiny environments whose solutions are known."""

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.envs.base import Box, DeviceEnv, Discrete, EnvSpec, TimeStep


def countdown(length: int = 5, truncates: bool = False) -> DeviceEnv:
    """Pays 1 for action 1 and 0 for action 0; the episode ends after `length` steps.

    Observation: one-hot of the steps taken in the episode.
    """
    spec = EnvSpec("probe:countdown", (length + 1,), np.dtype(np.float32), Discrete(2), length)

    def observe(steps):
        return jax.nn.one_hot(steps, length + 1, dtype=jnp.float32)

    def reset(key):
        del key
        steps = jnp.zeros((), jnp.int32)
        return steps, observe(steps)

    def step(steps, action, key):
        del key
        after = steps + 1
        ends = after >= length
        following = jnp.where(ends, 0, after)
        return following, TimeStep(
            observation=observe(following),
            reward=action.astype(jnp.float32),
            terminated=ends & (not truncates),
            truncated=ends & truncates,
            final_observation=observe(after),
        )

    return DeviceEnv(spec, reset, step)


def recall(num_contexts: int = 4) -> DeviceEnv:
    """One-step episodes: a random context is shown, naming it pays 1 (a contextual bandit)."""
    spec = EnvSpec("probe:recall", (num_contexts,), np.dtype(np.float32), Discrete(num_contexts), 1)

    def observe(context):
        return jax.nn.one_hot(context, num_contexts, dtype=jnp.float32)

    def reset(key):
        context = jax.random.randint(key, (), 0, num_contexts)
        return context, observe(context)

    def step(context, action, key):
        following, observation = reset(key)
        return following, TimeStep(
            observation=observation,
            reward=(action == context).astype(jnp.float32),
            terminated=jnp.ones((), bool),
            truncated=jnp.zeros((), bool),
            final_observation=observe(context),
        )

    return DeviceEnv(spec, reset, step)


def corridor(length: int) -> DeviceEnv:
    """Pays 1 at the right end only; all other steps pay 0.

    Action 1 moves right, action 0 back to the start; `length` steps in a row are needed, and
    the time limit is `4 * length` steps.
    """
    limit = 4 * length
    spec = EnvSpec("probe:corridor", (length + 1,), np.dtype(np.float32), Discrete(2), limit)

    def observe(state):
        return jax.nn.one_hot(state[0], length + 1, dtype=jnp.float32)

    def reset(key):
        del key
        state = jnp.zeros(2, jnp.int32)
        return state, observe(state)

    def step(state, action, key):
        position = jnp.where(action == 1, state[0] + 1, 0)
        after = jnp.stack([position, state[1] + 1])
        terminated = position >= length
        truncated = after[1] >= limit
        first, _ = reset(key)
        following = jnp.where(terminated | truncated, first, after)
        return following, TimeStep(
            observation=observe(following),
            reward=terminated.astype(jnp.float32),
            terminated=terminated,
            truncated=truncated,
            final_observation=observe(after),
        )

    return DeviceEnv(spec, reset, step)


def aim(length: int = 5, terminates: bool = False) -> DeviceEnv:
    """Shows a random target in [-1, 1] at every step and pays minus the squared miss.

    Episodes end after `length` steps; the best return is 0, and random actions get -2/3 per
    step on average. Observation: the target and the steps taken in the episode.
    """
    spec = EnvSpec("probe:aim", (2,), np.dtype(np.float32), Box((1,), -1.0, 1.0), length)

    def observe(state):
        return jnp.stack([state[0], state[1]])

    def reset(key):
        state = jnp.stack([jax.random.uniform(key, minval=-1.0), jnp.float32(0)])
        return state, observe(state)

    def step(state, action, key):
        fresh, _ = reset(key)
        ends = state[1] + 1 >= length
        after = fresh.at[1].set(state[1] + 1)
        following = jnp.where(ends, fresh, after)
        return following, TimeStep(
            observation=observe(following),
            reward=-jnp.sum((action - state[0]) ** 2),
            terminated=ends & terminates,
            truncated=ends & (not terminates),
            final_observation=observe(after),
        )

    return DeviceEnv(spec, reset, step)


def line(reach: int) -> DeviceEnv:
    """Pays 1 / reach for every place farther from the start than all before in the episode.

    Action 1 moves right, action 0 left, up to `reach` places either way; the episode ends after
    `2 * reach` steps. Going straight returns 1. Observation: one-hot of the place.
    """
    places, limit = 2 * reach + 1, 2 * reach
    spec = EnvSpec("probe:line", (places,), np.dtype(np.float32), Discrete(2), limit)

    def observe(state):
        return jax.nn.one_hot(state[0], places, dtype=jnp.float32)

    def reset(key):
        del key
        state = jnp.array([reach, 0, 0], jnp.int32)
        return state, observe(state)

    def step(state, action, key):
        place = jnp.clip(state[0] + 2 * action - 1, 0, places - 1)
        farthest = jnp.maximum(state[1], jnp.abs(place - reach))
        after = jnp.stack([place, farthest, state[2] + 1])
        truncated = after[2] >= limit
        first, _ = reset(key)
        following = jnp.where(truncated, first, after)
        return following, TimeStep(
            observation=observe(following),
            reward=(farthest - state[1]).astype(jnp.float32) / reach,
            terminated=jnp.zeros((), bool),
            truncated=truncated,
            final_observation=observe(after),
        )

    return DeviceEnv(spec, reset, step)
