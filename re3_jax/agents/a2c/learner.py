"""A2C as an `OnPolicyLearner`."""

from functools import partial

import jax
from jaxtyping import Array, Int, PRNGKeyArray

from re3_jax.agents.a2c.agent import make_a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.base import (
    Info,
    LearnerState,
    OnPolicyLearner,
    acting_on,
    on_policy_learner,
    reported,
)
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import EnvSpec
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.rewarding import rollout_with_bonus
from re3_jax.replay.frame_stack import FrameStack


def make_learner(config: A2CConfig, spec: EnvSpec, bonus: IntrinsicReward) -> OnPolicyLearner:
    """A2C for one task.

    Raises:
      ValueError: if the actions are not discrete.
    """
    agent = make_a2c(config, spec)

    def learn(
        state: LearnerState, rollout: Rollout, agent_steps: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[LearnerState, Info]:
        rollout, intrinsic, bonus_info = rollout_with_bonus(
            bonus, state.intrinsic, rollout, agent_steps, key, partial(agent.value, state.agent)
        )
        with jax.named_scope("update"):
            learned, info = agent.update(state.agent, rollout)
        return state._replace(agent=learned, intrinsic=intrinsic), reported(info, bonus_info)

    return on_policy_learner(
        spec=spec,
        bonus=bonus,
        num_lanes=config.num_envs,
        rollout_length=config.rollout_length,
        agent_init=agent.init,
        acting=acting_on(agent.act, FrameStack(spec.frame_stack)),
        learn=learn,
    )
