"""The device loop of agents that learn from prioritised n-step transitions (Rainbow).

As in `off_policy_loop` one turn of the scan takes the actions chosen in the turn before, stores
what came of them, chooses the next ones, and learns. Actions come from the policy from the
start, as Kaixhin/Rainbow has it: its noise explores, or epsilon does. Nothing is learned before
`initial_agent_steps`.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.agents.base import Agent, without_memory
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.envs.base import DeviceEnv
from re3_jax.intrinsic.base import IntrinsicReward, Step
from re3_jax.replay import prioritized
from re3_jax.replay.prioritized import PrioritizedReplay
from re3_jax.training import prioritized_update
from re3_jax.training.episodes import EpisodeTotals, count_episodes
from re3_jax.training.learner import Metrics, OffPolicyState
from re3_jax.training.off_policy_chunk import ActingLanes, repeat_updates, train_chunk
from re3_jax.training.seeds import Program, compile_program
from re3_jax.training.train_state import Counters, Lanes


def init_state(
    env: DeviceEnv,
    agent: Agent,
    bonus: IntrinsicReward,
    config: RainbowConfig,
    key: PRNGKeyArray,
) -> OffPolicyState:
    """State at env frame 0; the key decides everything that follows."""
    keys = jax.random.split(key, 6)
    train_key, evaluation_key, agent_key, bonus_key, reset_key, act_key = keys
    lanes = Lanes.begin(env, config.num_envs, reset_key)
    agent_state = agent.init(agent_key)
    return OffPolicyState(
        agent=agent_state,
        intrinsic=bonus.init(bonus_key, env.spec, config.num_envs),
        replay=prioritized.init(
            config.replay_capacity // config.num_envs,
            config.num_envs,
            env.spec.observation_shape,
            env.spec.observation_dtype,
            n=config.n_steps,
            stack=1,
        ),
        lanes=ActingLanes(lanes, agent.act(agent_state, lanes.observation, act_key, True)),
        counters=Counters.zero(),
        key=train_key,
        evaluation_key=evaluation_key,
    )


def train_step(
    env: DeviceEnv,
    agent: Agent,
    bonus: IntrinsicReward,
    config: RainbowConfig,
    state: OffPolicyState,
) -> tuple[OffPolicyState, tuple[Metrics, EpisodeTotals, Float[Array, ""]]]:
    """One step of all lanes, the choice of the next actions, and the updates that go with it.

    Returns:
      The state; sums of the updates' metrics, totals of episodes, the mean reward of the step.
    """
    key, env_key, act_key, learn_key = jax.random.split(state.key, 4)
    lanes, action = state.lanes
    with jax.named_scope("env"):
        env_keys = jax.random.split(env_key, config.num_envs)
        env_state, timestep = jax.vmap(env.step)(lanes.env, action, env_keys)
    with jax.named_scope("store"):
        step = Step.on_device(lanes.observation, action, timestep)
        intrinsic, index = bonus.observe(state.intrinsic, step)
        replay = prioritized.add(
            state.replay,
            lanes.observation,
            action,
            jnp.clip(timestep.reward, -config.reward_clip, config.reward_clip),
            timestep.terminated,
            timestep.truncated,
            index,
            n=config.n_steps,
            stack=1,
        )
    lanes, totals = count_episodes(lanes, timestep.reward, timestep.terminated | timestep.truncated)
    lanes = lanes._replace(env=env_state, observation=timestep.observation)
    before = state.counters.agent_steps
    agent_steps = before + config.num_envs
    counters = Counters(
        agent_steps=agent_steps,
        env_frames=state.counters.env_frames + config.num_envs * env.spec.action_repeat,
        updates=state.counters.updates,
    )
    with jax.named_scope("act"):
        action = agent.act(state.agent, lanes.observation, act_key, True)
    state = state._replace(
        intrinsic=intrinsic,
        replay=replay,
        lanes=ActingLanes(lanes, action),
        counters=counters,
        key=key,
    )
    due = agent_steps // config.agent_steps_per_update - before // config.agent_steps_per_update
    due = jnp.where(agent_steps >= config.initial_agent_steps, due, 0)
    state, sums = _learn(agent, bonus, config, state, due, learn_key)
    return state, (sums, totals, jnp.mean(timestep.reward))


def _learn(
    agent: Agent,
    bonus: IntrinsicReward,
    config: RainbowConfig,
    state: OffPolicyState,
    num_updates: Int[Array, ""],
    key: PRNGKeyArray,
) -> tuple[OffPolicyState, Metrics]:
    """`num_updates` updates; also the sums of their metrics."""

    def one(number: Int[Array, ""], agent_state, intrinsic, replay: PrioritizedReplay):
        return prioritized_update.update(
            agent.update,
            bonus,
            config,
            agent_state,
            intrinsic,
            replay,
            state.counters.agent_steps,
            jax.random.fold_in(key, number),
            stack=1,
        )

    parts = state.agent, state.intrinsic, state.replay
    agent_state, intrinsic, replay, sums = repeat_updates(one, num_updates, parts)
    counters = state.counters._replace(updates=state.counters.updates + num_updates)
    state = state._replace(agent=agent_state, intrinsic=intrinsic, replay=replay, counters=counters)
    return state, sums


def make_prioritized_program(
    env: DeviceEnv,
    agent: Agent,
    bonus: IntrinsicReward,
    config: RainbowConfig,
    *,
    chunk_steps: int,
    eval_episodes: int,
    eval_greedy: bool,
    devices: Sequence[jax.Device] | None = None,
) -> Program:
    """Maps the loop over seeds.

    Args:
      env: the task, with discrete actions.
      agent: Rainbow.
      bonus: rewards it for exploring; `intrinsic.none()` for no bonus. RE3's `ring_size` must be
        `replay_capacity`.
      config: numbers of the agent and of the loop.
      chunk_steps: steps of all lanes per call of `train`; the host hears once per chunk.
      eval_episodes: episodes per evaluation.
      eval_greedy: evaluate the best action of the mean weights; otherwise it explores.
      devices: devices to spread the seeds over; the number of seeds must be a multiple of
        theirs. One device by default.

    Raises:
      ValueError: if the capacity is no multiple of the number of lanes, or there could be nothing
        to draw from.
    """
    prioritized_update.check_sizes(config, env.spec)
    return compile_program(
        env,
        without_memory(agent),
        partial(init_state, env, agent, bonus, config),
        partial(
            train_chunk, partial(train_step, env, agent, bonus, config), chunk_steps=chunk_steps
        ),
        eval_episodes=eval_episodes,
        eval_greedy=eval_greedy,
        env_frames_per_chunk=chunk_steps * config.num_envs * env.spec.action_repeat,
        devices=devices,
    )
