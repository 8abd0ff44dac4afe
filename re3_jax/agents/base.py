"""What a loop needs of an agent: pure functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Float, PRNGKeyArray, Shaped

AgentState = Any
"""Parameters, optimiser state and whatever else the agent learns: a pytree."""

Info = dict[str, Float[Array, ""]]


class Agent(NamedTuple):
    """An agent for one task.

    init(key) -> state
    act(state, observation[batch, ...], key, explore) -> action[batch, ...]; `explore` is
      static: True samples as in training, False takes the mode.
    update(state, batch, key) -> (state, info); what `batch` holds is the agent's own.
    phases: for an agent whose updates differ in a fixed cycle (SAC's actor learns every second
      time), one update function per place in the cycle, in order. `update` finds its place in
      the state at run time; a loop that knows it calls `phases[updates % len(phases)]` and pays
      for nothing else. Each returns the same names in `info` as the others.
    """

    init: Callable[[PRNGKeyArray], AgentState]
    act: Callable[
        [AgentState, Shaped[Array, " batch *observation"], PRNGKeyArray, bool],
        Shaped[Array, " batch *action"],
    ]
    update: Callable[[AgentState, Any, PRNGKeyArray], tuple[AgentState, Info]]
    phases: tuple[Callable[[AgentState, Any, PRNGKeyArray], tuple[AgentState, Info]], ...] = ()


Memory = Any
"""What acting lanes remember of their episodes: a pytree whose leaves lead with the lane."""


class Acting(NamedTuple):
    """How an agent acts that may remember what it saw.

    begin(state, lanes) -> memory of so many lanes at the beginning of an episode
    act(state, memory, observation[lane, ...], key, explore) -> (memory, action[lane, ...])
    """

    begin: Callable[[AgentState, int], Memory]
    act: Callable[
        [AgentState, Memory, Shaped[Array, " lane *observation"], PRNGKeyArray, bool],
        tuple[Memory, Shaped[Array, " lane *action"]],
    ]


def without_memory(agent: Agent) -> Acting:
    """An agent that acts upon what it sees now."""
    return Acting(
        begin=lambda state, lanes: (),
        act=lambda state, memory, observation, key, explore: (
            memory,
            agent.act(state, observation, key, explore),
        ),
    )
