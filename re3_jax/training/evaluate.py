"""Evaluation of a policy on the device: every episode in a lane of its own."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray

from re3_jax.agents.base import Acting, AgentState
from re3_jax.envs.base import DeviceEnv


class EvalStats(NamedTuple):
    """Statistics over the episodes of one evaluation; lengths in agent steps.

    On the device, `length_mean` is NaN where an episode did not end within its task's limit.
    """

    episodes: Int[Array | np.ndarray, "*seed"]
    return_mean: Float[Array | np.ndarray, "*seed"]
    return_std: Float[Array | np.ndarray, "*seed"]
    length_mean: Float[Array | np.ndarray, "*seed"]

    @classmethod
    def of(
        cls,
        returns: Float[Array | np.ndarray, "*seed episode"],
        lengths: Num[Array | np.ndarray, "*seed episode"],
    ) -> "EvalStats":
        """The statistics of these episodes."""
        episodes = np.full(returns.shape[:-1], returns.shape[-1], np.int32)
        return cls(episodes, returns.mean(-1), returns.std(-1), lengths.mean(-1))


def evaluate(
    env: DeviceEnv,
    acting: Acting,
    state: AgentState,
    key: PRNGKeyArray,
    *,
    episodes: int,
    greedy: bool,
) -> EvalStats:
    """Plays `episodes` episodes side by side, each to its own end.

    Each lane counts its first episode only, so that short episodes are not over-represented
    (as they are when the first `episodes` to finish among few lanes are counted). One that does not
    end within the task's `max_agent_steps` is cut there, and its length is NaN: a program cannot
    raise, and Ctrl-C would wait for it.
    """
    reset_key, step_key = jax.random.split(key)
    env_state, observation = jax.vmap(env.reset)(jax.random.split(reset_key, episodes))

    def step(carry):
        env_state, memory, returns, lengths, finished, step_key = carry
        step_key, act_key, env_key = jax.random.split(step_key, 3)
        memory, action = acting.act(state, memory, act_key, not greedy)
        env_keys = jax.random.split(env_key, episodes)
        executed = env.spec.action_space.executed(action)
        env_state, timestep = jax.vmap(env.step)(env_state, executed, env_keys)
        counts, ended = ~finished, timestep.ended
        return (
            env_state,
            acting.see(memory, timestep.observation, ended),
            returns + jnp.where(counts, timestep.reward, 0.0),
            lengths + counts,
            finished | ended,
            step_key,
        )

    start = (
        env_state,
        acting.begin(state, observation),
        jnp.zeros(episodes, jnp.float32),
        jnp.zeros(episodes, jnp.int32),
        jnp.zeros(episodes, bool),
        step_key,
    )

    def goes_on(carry):
        _, _, _, lengths, finished, _ = carry
        return jnp.any(~finished & (lengths < env.spec.max_agent_steps))

    _, _, returns, lengths, finished, _ = jax.lax.while_loop(goes_on, step, start)
    return EvalStats.of(returns, jnp.where(finished, lengths, jnp.nan))
