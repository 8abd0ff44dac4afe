"""The device loop of Dreamer: act, store whole episodes, and learn in bursts from sequences.

As danijar/dreamer orders it: actions are random until `prefill_env_frames`; from then on, every
`env_frames_per_burst`, there are `updates_per_burst` updates, one after the other. An acting lane
carries what the world model believes, and forgets it where an episode ends.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from re3_jax.agents.base import Acting
from re3_jax.agents.dreamer.agent import Belief, Dreamer
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.envs.base import DeviceEnv
from re3_jax.intrinsic.base import IntrinsicReward, Step
from re3_jax.replay import sequence_ring
from re3_jax.training import dreamer_update
from re3_jax.training.episodes import EpisodeTotals, count_episodes
from re3_jax.training.learner import Metrics, OffPolicyState
from re3_jax.training.off_policy_chunk import train_chunk
from re3_jax.training.seeds import Program, compile_program
from re3_jax.training.train_state import Counters, Lanes


class BelievingLanes(NamedTuple):
    """The environments of one seed, and what Dreamer believes of each."""

    lanes: Lanes
    belief: Belief


def init_state(
    env: DeviceEnv,
    dreamer: Dreamer,
    bonus: IntrinsicReward,
    config: DreamerConfig,
    key: PRNGKeyArray,
) -> OffPolicyState:
    """State at env frame 0; the key decides everything that follows."""
    train_key, evaluation_key, agent_key, bonus_key, reset_key = jax.random.split(key, 5)
    lanes, agent = Lanes.begin(env, config.num_envs, reset_key), dreamer.init(agent_key)
    return OffPolicyState(
        agent=agent,
        intrinsic=bonus.init(bonus_key, env.spec, config.num_envs),
        replay=dreamer_update.new_replay(config, env.spec, dreamer.action_dim, lanes.observation),
        lanes=BelievingLanes(lanes, dreamer.begin(agent, config.num_envs)),
        counters=Counters.zero(),
        key=train_key,
        evaluation_key=evaluation_key,
    )


def train_step(
    env: DeviceEnv,
    dreamer: Dreamer,
    bonus: IntrinsicReward,
    config: DreamerConfig,
    reward_free: bool,
    state: OffPolicyState,
) -> tuple[OffPolicyState, tuple[Metrics, EpisodeTotals, Float[Array, ""]]]:
    """One step of all lanes and, where one is due, a burst of updates.

    Returns:
      The state; sums of the updates' metrics, totals of episodes, the mean reward of the step.
    """
    key, act_key, random_key, env_key, learn_key = jax.random.split(state.key, 5)
    lanes, belief = state.lanes
    before = state.counters.env_frames
    with jax.named_scope("act"):
        belief, action = dreamer.act(state.agent, belief, lanes.observation, act_key, True)
        random = jax.random.uniform(random_key, action.shape, minval=-1.0, maxval=1.0)
        action = jnp.where(before < config.prefill_env_frames, random, action)
        belief = belief._replace(action=action)
    with jax.named_scope("env"):
        env_keys = jax.random.split(env_key, config.num_envs)
        env_state, timestep = jax.vmap(env.step)(lanes.env, action, env_keys)
    done = timestep.terminated | timestep.truncated
    with jax.named_scope("encode"):
        step = Step.on_device(lanes.observation, action, timestep)
        intrinsic, index = bonus.observe(state.intrinsic, step)
    with jax.named_scope("store"):
        replay = sequence_ring.add(
            state.replay,
            action,
            timestep.reward,
            timestep.terminated,
            timestep.final_observation,
            timestep.observation,
            done,
            index,
            length=config.sequence_length,
        )
    lanes, totals = count_episodes(lanes, timestep.reward, done)
    lanes = lanes._replace(env=env_state, observation=timestep.observation)
    belief = dreamer_update.forget(belief, done)
    env_frames = before + config.num_envs * env.spec.action_repeat
    counters = state.counters._replace(
        agent_steps=state.counters.agent_steps + config.num_envs, env_frames=env_frames
    )
    is_due = dreamer_update.is_due(config, before, env_frames)
    num_updates = jnp.where(is_due, config.updates_per_burst, 0)
    agent, intrinsic, sums = dreamer_update.burst(
        dreamer,
        bonus,
        config,
        state.agent,
        intrinsic,
        replay,
        counters.agent_steps,
        num_updates,
        learn_key,
        reward_free=reward_free,
    )
    counters = counters._replace(updates=counters.updates + num_updates)
    state = OffPolicyState(
        agent,
        intrinsic,
        replay,
        BelievingLanes(lanes, belief),
        counters,
        key,
        state.evaluation_key,
    )
    return state, (sums, totals, jnp.mean(timestep.reward))


def make_dreamer_program(
    env: DeviceEnv,
    dreamer: Dreamer,
    bonus: IntrinsicReward,
    config: DreamerConfig,
    *,
    chunk_steps: int,
    eval_episodes: int,
    eval_greedy: bool,
    reward_free: bool = False,
    devices: Sequence[jax.Device] | None = None,
) -> Program:
    """Maps the loop over seeds.

    Args:
      env: a task of 64x64 frames with actions that are real numbers, whose episodes are never
        shorter than `sequence_length` agent steps.
      dreamer: the agent.
      bonus: `sequence_re3` with a ring of the replay's size, or `intrinsic.none()`.
      config: numbers of the agent and of the loop.
      chunk_steps: steps of all lanes per call of `train`; the host hears once per chunk.
      eval_episodes: episodes per evaluation.
      eval_greedy: evaluate the policy's mode; otherwise it explores.
      reward_free: whether the task's reward is withheld from the agent.
      devices: devices to spread the seeds over; the number of seeds must be a multiple of
        theirs. One device by default.

    Raises:
      ValueError: if there could be nothing to draw from.
    """
    dreamer_update.check_sizes(config, env.spec)
    return compile_program(
        env,
        Acting(dreamer.begin, dreamer.act),
        partial(init_state, env, dreamer, bonus, config),
        partial(
            train_chunk,
            partial(train_step, env, dreamer, bonus, config, reward_free),
            chunk_steps=chunk_steps,
        ),
        eval_episodes=eval_episodes,
        eval_greedy=eval_greedy,
        env_frames_per_chunk=chunk_steps * config.num_envs * env.spec.action_repeat,
        devices=devices,
    )
