"""The off-policy device loop: step, store, act and update in one `lax.scan`.

The order of the released code: an action is chosen, the agent learns from what is stored so
far, then the action is taken and the transition stored. Before `initial_agent_steps` actions
are uniformly random and nothing is learned. One turn of the scan begins with taking the action
chosen in the turn before: written first and read afterwards, the replay and the latents stay
where they are, whereas XLA copies both in every turn that reads them first.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.agents.base import Agent, AgentState, without_memory
from re3_jax.envs.base import Box, DeviceEnv, EnvSpec
from re3_jax.intrinsic.base import IntrinsicReward, IntrinsicState, Step
from re3_jax.replay import transition_ring
from re3_jax.replay.transition_ring import TransitionRing
from re3_jax.training.episodes import EpisodeTotals, count_episodes
from re3_jax.training.learner import Metrics, OffPolicyState, learn
from re3_jax.training.off_policy_chunk import ActingLanes, repeat_updates, train_chunk
from re3_jax.training.seeds import Program, compile_program
from re3_jax.training.train_state import Counters, Lanes


class OffPolicyConfig(NamedTuple):
    """Numbers of the loop.

    Attributes:
      num_envs: lanes per seed.
      batch_size: transitions per update.
      replay_capacity: transitions kept per seed; also what RE3's ring must hold.
      initial_agent_steps: uniformly random actions, summed over lanes, before the first update.
      updates_per_step: updates per step of all lanes.
    """

    num_envs: int
    batch_size: int
    replay_capacity: int
    initial_agent_steps: int
    updates_per_step: int


def init_off_policy_state(
    env: DeviceEnv, agent: Agent, bonus: IntrinsicReward, config: OffPolicyConfig, key: PRNGKeyArray
) -> OffPolicyState:
    """State at env frame 0; the key decides everything that follows."""
    keys = jax.random.split(key, 6)
    train_key, evaluation_key, agent_key, bonus_key, reset_key, act_key = keys
    return OffPolicyState(
        agent=agent.init(agent_key),
        intrinsic=bonus.init(bonus_key, env.spec, config.num_envs),
        replay=transition_ring.init(config.replay_capacity, env.spec),
        lanes=ActingLanes(
            Lanes.begin(env, config.num_envs, reset_key),
            _random_action(act_key, env.spec, config.num_envs),
        ),
        counters=Counters.zero(),
        key=train_key,
        evaluation_key=evaluation_key,
    )


def train_step(
    env: DeviceEnv,
    agent: Agent,
    bonus: IntrinsicReward,
    config: OffPolicyConfig,
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
        replay = transition_ring.add(
            state.replay,
            lanes.observation,
            action,
            timestep.reward,
            1.0 - timestep.terminated.astype(jnp.float32),
            timestep.final_observation,
            index,
        )
    lanes, totals = count_episodes(lanes, timestep.reward, timestep.terminated | timestep.truncated)
    lanes = lanes._replace(env=env_state, observation=timestep.observation)

    agent_steps = state.counters.agent_steps + config.num_envs
    learns = agent_steps >= config.initial_agent_steps
    with jax.named_scope("act"):
        action = jax.lax.cond(
            learns,
            lambda: agent.act(state.agent, lanes.observation, act_key, True),
            lambda: _random_action(act_key, env.spec, config.num_envs),
        )
    num_updates = jnp.where(learns, config.updates_per_step, 0)
    counters = Counters(
        agent_steps=agent_steps,
        env_frames=state.counters.env_frames + config.num_envs * env.spec.action_repeat,
        updates=state.counters.updates,
    )
    agent_state, intrinsic, sums = _learn_from(
        replay, agent, bonus, config, state.agent, intrinsic, counters, num_updates, learn_key
    )
    counters = counters._replace(updates=counters.updates + num_updates)
    lanes = ActingLanes(lanes, action)
    following = OffPolicyState(
        agent_state, intrinsic, replay, lanes, counters, key, state.evaluation_key
    )
    return following, (sums, totals, jnp.mean(timestep.reward))


def _learn_from(
    replay: TransitionRing,
    agent: Agent,
    bonus: IntrinsicReward,
    config: OffPolicyConfig,
    agent_state: AgentState,
    intrinsic: IntrinsicState,
    counters: Counters,
    num_updates: Int[Array, ""],
    key: PRNGKeyArray,
) -> tuple[AgentState, IntrinsicState, Metrics]:
    """`num_updates` updates from `replay`; also the sums of their metrics."""
    phases = agent.phases or (agent.update,)

    def one(number: Int[Array, ""], agent_state: AgentState, intrinsic: IntrinsicState):
        def update(state: AgentState, batch: Any, key: PRNGKeyArray):
            return jax.lax.switch(
                (counters.updates + number) % len(phases), phases, state, batch, key
            )

        return learn(
            update,
            bonus,
            agent_state,
            intrinsic,
            lambda key: transition_ring.sample(key, replay, config.batch_size),
            counters.agent_steps,
            jax.random.fold_in(key, number),
        )

    return repeat_updates(one, num_updates, (agent_state, intrinsic))


def _random_action(key: PRNGKeyArray, spec: EnvSpec, num_envs: int) -> Float[Array, "lane action"]:
    space = spec.action_space
    assert isinstance(space, Box)
    return jax.random.uniform(key, (num_envs, *space.shape), jnp.float32, space.low, space.high)


def make_off_policy_program(
    env: DeviceEnv,
    agent: Agent,
    bonus: IntrinsicReward,
    *,
    num_envs: int,
    batch_size: int,
    replay_capacity: int,
    initial_agent_steps: int,
    updates_per_step: int,
    chunk_steps: int,
    eval_episodes: int,
    eval_greedy: bool,
    devices: Sequence[jax.Device] | None = None,
) -> Program:
    """Maps the off-policy device loop over seeds.

    Args:
      env: the task; its actions are real numbers.
      agent: learns it.
      bonus: rewards it for exploring; `intrinsic.none()` for no bonus. RE3's `ring_size` must be
        `replay_capacity`.
      num_envs: lanes per seed.
      batch_size: transitions per update.
      replay_capacity: transitions kept per seed.
      initial_agent_steps: uniformly random actions, summed over lanes, before the first update.
      updates_per_step: updates per step of all lanes.
      chunk_steps: steps of all lanes per call of `train`; the host hears once per chunk.
      eval_episodes: episodes per evaluation.
      eval_greedy: evaluate the mode of the policy; otherwise actions are sampled.
      devices: devices to spread the seeds over; the number of seeds must be a multiple of
        theirs. One device by default.

    Raises:
      ValueError: if the actions are not real numbers, nothing is stored before the first
        update, or the replay is smaller than one step of all lanes.
    """
    if not isinstance(env.spec.action_space, Box):
        raise ValueError(
            f"the off-policy loop needs actions that are real numbers, which {env.spec.task} does "
            "not have: choose another agent"
        )
    if initial_agent_steps < 1:
        raise ValueError(
            "initial_agent_steps must be at least 1, because the first update needs a stored "
            f"transition, but it is {initial_agent_steps}"
        )
    if replay_capacity < num_envs:
        raise ValueError(
            f"a replay of {replay_capacity} transitions does not hold one step of {num_envs} "
            "lanes: raise replay_capacity or lower num_envs"
        )
    config = OffPolicyConfig(
        num_envs, batch_size, replay_capacity, initial_agent_steps, updates_per_step
    )
    return compile_program(
        env,
        without_memory(agent),
        partial(init_off_policy_state, env, agent, bonus, config),
        partial(
            train_chunk, partial(train_step, env, agent, bonus, config), chunk_steps=chunk_steps
        ),
        eval_episodes=eval_episodes,
        eval_greedy=eval_greedy,
        env_frames_per_chunk=chunk_steps * num_envs * env.spec.action_repeat,
        devices=devices,
    )
