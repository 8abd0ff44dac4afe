"""An agent of your own: REINFORCE with a linear policy.

make run ENV=gymnax:CartPole-v1 AGENT=reinforce ARGS="--plugin examples/plugin_agent.py"
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from re3_jax.agents.base import LearnerState, OnPolicyLearner, acting_on, reported
from re3_jax.envs.base import Discrete
from re3_jax.intrinsic.rewarding import rollout_with_bonus
from re3_jax.replay.frame_stack import FrameStack
from re3_jax.runs import agents


@dataclass(frozen=True)
class ReinforceConfig:
    """Lanes, steps of a rollout, step size and gamma."""

    num_envs: int = 16
    rollout_length: int = 32
    learning_rate: float = 0.05
    discount: float = 0.99


def make_learner(config, spec, bonus):
    """The learner of one task."""

    def init(key, frame):
        weights = jnp.zeros((*spec.observation_shape, spec.action_space.num_actions))
        return LearnerState(weights, bonus.init(key, spec, config.num_envs), (), frame)

    def act(weights, observation, key, explore):
        logits = observation @ weights
        return jax.random.categorical(key, logits) if explore else jnp.argmax(logits, axis=1)

    def loss(weights, rollout, returns):
        log_policy = jax.nn.log_softmax(rollout.observation @ weights)
        chosen = jnp.take_along_axis(log_policy, rollout.action[..., None], axis=-1)
        return -jnp.mean(chosen[..., 0] * (returns - returns.mean()))

    def learn(state, rollout, agent_steps, key):
        rollout, intrinsic, of_bonus = rollout_with_bonus(
            bonus, state.intrinsic, rollout, agent_steps, key
        )
        reward = rollout.reward + rollout.bonus
        discount = config.discount * ~rollout.done
        returns = discounted_sums(reward, discount)
        value, gradient = jax.value_and_grad(loss)(state.agent, rollout, returns)
        weights = state.agent - config.learning_rate * gradient
        info = reported({"loss": value}, of_bonus)
        return state._replace(agent=weights, intrinsic=intrinsic), info

    return OnPolicyLearner(
        spec=spec,
        num_lanes=config.num_envs,
        rollout_length=config.rollout_length,
        acting=acting_on(act, FrameStack(1)),
        init=init,
        learn=learn,
    )


def discounted_sums(reward, discount):
    """R_t = r_t + gamma_t R_{t+1}, both [time, lane]; 0 follows the last."""

    def step(later, now):
        reward, discount = now
        return (total := reward + discount * later), total

    return jax.lax.scan(step, jnp.zeros_like(reward[0]), (reward, discount), reverse=True)[1]


agents.register(
    agents.Agent(
        name="reinforce",
        group="reinforce",
        config=ReinforceConfig,
        make=make_learner,
        actions=Discrete,
        on_policy=True,
    )
)
