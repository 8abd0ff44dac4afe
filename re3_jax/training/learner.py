"""One off-policy update with its intrinsic rewards: what the device and the host loop share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.agents.base import AgentState, Info
from re3_jax.intrinsic.base import IntrinsicBatch, IntrinsicReward, IntrinsicState
from re3_jax.intrinsic.rewarding import reward_batch
from re3_jax.training.train_state import Counters

Metrics = dict[str, Float[Array, ""]]


class OffPolicyState(NamedTuple):
    """State of one seed; a program over seeds gives every leaf a leading axis `seed`.

    Attributes:
      replay: what was stored, each transition with the index that the bonus gave it.
      lanes: what the loop must know of its environments.
      key: the random stream that training consumes.
      evaluation_key: root of the streams of evaluations, each folded in by its frame count.
    """

    agent: AgentState
    intrinsic: IntrinsicState
    replay: Any
    lanes: Any
    counters: Counters
    key: PRNGKeyArray
    evaluation_key: PRNGKeyArray


Batch = Any
"""What an agent learns from: a NamedTuple with `Transitions`' observation, action, next_observation
and bonus, and whatever else it needs."""


def learn(
    agent_update: Callable[[AgentState, Batch, PRNGKeyArray], tuple[AgentState, Info]],
    bonus: IntrinsicReward,
    agent_state: AgentState,
    intrinsic: IntrinsicState,
    sample: Callable[[PRNGKeyArray], tuple[Batch, Int[Array, " batch"]]],
    agent_steps: Int[Array, ""],
    key: PRNGKeyArray,
) -> tuple[AgentState, IntrinsicState, Metrics]:
    """Samples a batch, rewards it and updates the bonus and the agent (Algorithm 1).

    Rewards are computed anew for each batch, against all latents stored by now.

    Args:
      agent_update: one of `Agent.phases`, or `Agent.update`.
      bonus: the intrinsic reward.
      agent_state: the agent's state.
      intrinsic: the bonus's state.
      sample: key -> (batch, index stored with each transition).
      agent_steps: agent steps taken so far (what beta's schedule counts).
      key: decides the batch and all that is random in the updates.

    Returns:
      The agent's state, the bonus's state and metrics: what both report, and
      `diagnostics.of_rewards` of the batch.
    """
    sample_key, bonus_key, agent_key = jax.random.split(key, 3)
    with jax.named_scope("sample"):
        transitions, index = sample(sample_key)
    batch = IntrinsicBatch(
        observation=transitions.observation,
        action=transitions.action,
        next_observation=transitions.next_observation,
        bonus_index=index,
        agent_steps=agent_steps,
    )
    reward, intrinsic, bonus_info = reward_batch(bonus, intrinsic, batch, bonus_key)
    with jax.named_scope("update"):
        agent_state, info = agent_update(agent_state, transitions._replace(bonus=reward), agent_key)
    return agent_state, intrinsic, {**info, **bonus_info}
