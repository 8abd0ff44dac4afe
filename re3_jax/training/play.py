"""Steps of an agent on the device that are only looked at: nothing is stored or learned."""

from typing import NamedTuple

import jax
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

from re3_jax.agents.base import Acting, AgentState
from re3_jax.envs.base import DeviceEnv
from re3_jax.training import coverage


class Played(NamedTuple):
    """What an agent saw before each action.

    Attributes:
      observation: of the environment; also of a next episode, which begins by itself.
      number: of the state (`DeviceEnv.states`), None where states cannot be counted.
    """

    observation: Shaped[Array, " step lane *observation"]
    number: Int[Array, "step lane"] | None


def play(
    env: DeviceEnv, acting: Acting, agent: AgentState, key: PRNGKeyArray, *, lanes: int, steps: int
) -> Played:
    """Plays `steps` steps in each of `lanes` environments, with the actions of training."""
    reset_key, key = jax.random.split(key)
    states, first = jax.vmap(env.reset)(jax.random.split(reset_key, lanes))

    def step(carry, key):
        states, observation, memory = carry
        act_key, env_key = jax.random.split(key)
        memory, action = acting.act(agent, memory, act_key, True)
        executed = env.spec.action_space.executed(action)
        following, timestep = jax.vmap(env.step)(states, executed, jax.random.split(env_key, lanes))
        ended = timestep.terminated | timestep.truncated
        memory = acting.see(memory, timestep.observation, ended)
        seen = Played(observation, coverage.number(env, states))
        return (following, timestep.observation, memory), seen

    start = (states, first, acting.begin(agent, first))
    _, played = jax.lax.scan(step, start, jax.random.split(key, steps))
    return played
