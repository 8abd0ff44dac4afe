"""Unsupervised pre-training: r = r_int, the task reward withheld (paper, Section 3.3)."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from re3_jax.agents.base import Agent, AgentState, Info

Update = Callable[[AgentState, Any, PRNGKeyArray], tuple[AgentState, Info]]


def reward_free(agent: Agent) -> Agent:
    """The same agent, which finds every task reward of what it learns from to be 0.

    Loops record task rewards and returns all the same. What the agent learns from
    (`Rollout`, `Transitions`) has the task reward under the name `reward`, and the bonus apart
    from it.
    """

    def withheld(update: Update) -> Update:
        def blind(state: AgentState, batch: Any, key: PRNGKeyArray) -> tuple[AgentState, Info]:
            return update(state, batch._replace(reward=jnp.zeros_like(batch.reward)), key)

        return blind

    return agent._replace(
        update=withheld(agent.update), phases=tuple(withheld(phase) for phase in agent.phases)
    )
