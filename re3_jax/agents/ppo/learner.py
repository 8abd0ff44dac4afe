"""PPO as an `OnPolicyLearner`."""

from functools import partial

import jax
from jaxtyping import Array, Int, PRNGKeyArray

from re3_jax.agents.base import Info, LearnerState, OnPolicyLearner, on_policy_learner, reported
from re3_jax.agents.ppo.advantages import forget_episodes
from re3_jax.agents.ppo.agent import make_ppo
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.memory import past_of
from re3_jax.agents.ppo.minibatches import shuffled, steps_of
from re3_jax.agents.ppo.state import PPOState
from re3_jax.agents.rollout import Rollout
from re3_jax.cpu.by_platform import in_turn
from re3_jax.envs.base import EnvSpec
from re3_jax.intrinsic.base import IntrinsicReward, IntrinsicState
from re3_jax.intrinsic.rewarding import rollout_with_bonus


def make_learner(config: PPOConfig, spec: EnvSpec, bonus: IntrinsicReward) -> OnPolicyLearner:
    """PPO for one task, with discrete or continuous actions."""
    agent, recurrent = make_ppo(config, spec), config.recurrent

    def learn_from(
        learned: PPOState,
        intrinsic: IntrinsicState,
        rollout: Rollout,
        agent_steps: Int[Array, ""],
        key: PRNGKeyArray,
    ) -> tuple[PPOState, IntrinsicState, Info]:
        bonus_key, order_key = jax.random.split(key)
        order = shuffled(order_key, config)
        # The bonus sees what was executed; the policy's density is that of what it chose.
        executed = rollout._replace(action=spec.action_space.executed(rollout.action))
        rewarded, intrinsic, bonus_info = rollout_with_bonus(
            bonus,
            intrinsic,
            executed,
            agent_steps,
            bonus_key,
            partial(agent.value, learned, past=past_of(rollout) if recurrent else None),
            # As RND's authors do: what the bonus learns, it learns from the agent's minibatches.
            steps_of(order, config),
        )
        rollout = rollout._replace(bonus=rewarded.bonus)
        with jax.named_scope("update"):
            learned, info = agent.update(learned, rollout, order, agent_steps)
        return learned, intrinsic, reported(info, bonus_info)

    # Vectors pass through layers so small that seeds together are as fast.
    in_its_turn = in_turn(learn_from) if spec.is_spatial else learn_from

    def learn(
        state: LearnerState, rollout: Rollout, agent_steps: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[LearnerState, Info]:
        # What an update leaves as it is does not pass through `in_turn`, which would copy it.
        learned, intrinsic, info = in_its_turn(
            state.agent, state.intrinsic, rollout, agent_steps, key
        )
        return state._replace(agent=learned, intrinsic=intrinsic), info

    learner = on_policy_learner(
        spec=spec,
        bonus=bonus,
        num_lanes=config.num_envs,
        rollout_length=config.rollout_length,
        agent_init=agent.init,
        acting=agent.acting,
        learn=learn,
        agent_forget=lambda state: state._replace(
            reward_scales=forget_episodes(state.reward_scales)
        ),
    )
    return learner._replace(observed=lambda belief: belief.observation) if recurrent else learner
