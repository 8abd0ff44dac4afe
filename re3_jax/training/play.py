"""Steps of an agent on the device that are only looked at: nothing is stored or learned."""

from collections.abc import Callable
from typing import NamedTuple

import jax
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

from re3_jax.agents.base import Acting, AgentState
from re3_jax.envs.base import DeviceEnv, EnvState


class Played(NamedTuple):
    """What an agent saw before each action.

    Attributes:
      observation: of the environment; also of a next episode, which begins by itself.
      place: where the agent was, None where nobody asked.
    """

    observation: Shaped[Array, " step lane *observation"]
    place: Int[Array, "step lane"] | None


def play(
    env: DeviceEnv,
    acting: Acting,
    agent: AgentState,
    key: PRNGKeyArray,
    *,
    lanes: int,
    steps: int,
    place: Callable[[EnvState], Int[Array, ""]] | None = None,
) -> Played:
    """Plays `steps` steps in each of `lanes` environments, with the actions of training.

    `place` numbers the agent's place in a state.
    """
    reset_key, key = jax.random.split(key)
    states, first = jax.vmap(env.reset)(jax.random.split(reset_key, lanes))

    def step(carry, key):
        states, observation, memory = carry
        act_key, env_key = jax.random.split(key)
        memory, action = acting.act(agent, memory, act_key, True)
        executed = env.spec.action_space.executed(action)
        following, timestep = jax.vmap(env.step)(states, executed, jax.random.split(env_key, lanes))
        ended = timestep.ended
        memory = acting.see(memory, timestep.observation, ended)
        at = None if place is None else jax.vmap(place)(states)
        return (following, timestep.observation, memory), Played(observation, at)

    start = (states, first, acting.begin(agent, first))
    _, played = jax.lax.scan(step, start, jax.random.split(key, steps))
    return played
