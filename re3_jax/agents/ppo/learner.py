"""PPO as an `OnPolicyLearner`."""

import jax
from jaxtyping import Array, Int, PRNGKeyArray

from re3_jax.agents.base import Frame, Info, LearnerState, OnPolicyLearner, acting_on
from re3_jax.agents.ppo.agent import make_ppo, shuffled
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import EnvSpec
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.rewarding import rollout_with_bonus
from re3_jax.replay.frame_stack import FrameStack


def make_learner(config: PPOConfig, spec: EnvSpec, bonus: IntrinsicReward) -> OnPolicyLearner:
    """PPO for one task, with discrete or continuous actions."""
    agent, frames = make_ppo(config, spec), FrameStack(spec.frame_stack)

    def init(key: PRNGKeyArray, frame: Frame) -> LearnerState:
        agent_key, bonus_key = jax.random.split(key)
        return LearnerState(
            agent=agent.init(agent_key),
            intrinsic=bonus.init(bonus_key, spec, config.num_envs),
            replay=(),
            memory=frames.first(frame),
        )

    def learn(
        state: LearnerState, rollout: Rollout, agent_steps: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[LearnerState, Info]:
        bonus_key, order_key = jax.random.split(key)
        # The bonus sees what was executed; the policy's density is that of what it chose.
        executed = rollout._replace(action=spec.action_space.executed(rollout.action))
        rewarded, intrinsic, bonus_info = rollout_with_bonus(
            bonus, state.intrinsic, executed, agent_steps, bonus_key
        )
        rollout = rollout._replace(bonus=rewarded.bonus)
        with jax.named_scope("update"):
            order = shuffled(order_key, config)
            learned, info = agent.update(state.agent, rollout, order, agent_steps)
        return state._replace(agent=learned, intrinsic=intrinsic), {**info, **bonus_info}

    return OnPolicyLearner(
        spec=spec,
        num_lanes=config.num_envs,
        rollout_length=config.rollout_length,
        acting=acting_on(agent.act, frames),
        init=init,
        learn=learn,
    )
