"""Unsupervised pre-training: r = r_int, the task reward withheld (paper, Section 3.3).

Loops record task rewards and returns all the same.
"""

from typing import TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from re3_jax.agents.base import Action, Info, Learner, LearnerState, OnPolicyLearner
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import LaneStep

AnyLearner = TypeVar("AnyLearner", bound=Learner | OnPolicyLearner)


def reward_free(learner: AnyLearner) -> AnyLearner:
    """Returns a learner that works like `learner`, but is shown 0 for every task reward."""
    if isinstance(learner, OnPolicyLearner):

        def learn(
            state: LearnerState, rollout: Rollout, agent_steps: Int[Array, ""], key: PRNGKeyArray
        ) -> tuple[LearnerState, Info]:
            rollout = rollout._replace(reward=jnp.zeros_like(rollout.reward))
            return learner.learn(state, rollout, agent_steps, key)

        return learner._replace(learn=learn)

    def store(state: LearnerState, action: Action, step: LaneStep) -> LearnerState:
        return learner.store(state, action, step._replace(reward=jnp.zeros_like(step.reward)))

    return learner._replace(store=store)
