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

from re3_jax.agents.base import Agent
from re3_jax.agents.rainbow.agent import RainbowBatch
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.envs.base import DeviceEnv
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.replay import prioritized
from re3_jax.replay.prioritized import PrioritizedReplay
from re3_jax.training.episodes import EpisodeTotals, count_episodes, episode_metrics
from re3_jax.training.learner import Metrics, OffPolicyState, learn
from re3_jax.training.off_policy_loop import ActingLanes, same_for_all_seeds
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
    env_state, observation = jax.vmap(env.reset)(jax.random.split(reset_key, config.num_envs))
    lanes = Lanes(
        env=env_state,
        observation=observation,
        episode_return=jnp.zeros(config.num_envs, jnp.float32),
        episode_length=jnp.zeros(config.num_envs, jnp.int32),
    )
    agent_state = agent.init(agent_key)
    return OffPolicyState(
        agent=agent_state,
        intrinsic=bonus.init(bonus_key, env.spec),
        replay=prioritized.init(
            config.replay_capacity // config.num_envs,
            config.num_envs,
            env.spec.observation_shape,
            env.spec.observation_dtype,
            n=config.n_steps,
            stack=1,
        ),
        lanes=ActingLanes(lanes, agent.act(agent_state, observation, act_key, True)),
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
        replay = prioritized.add(
            state.replay,
            lanes.observation,
            action,
            jnp.clip(timestep.reward, -config.reward_clip, config.reward_clip),
            timestep.terminated,
            timestep.truncated,
            n=config.n_steps,
            stack=1,
        )
        # Both rings take the same lanes in the same order: slots of the one are rows of the other.
        intrinsic, _ = bonus.observe(state.intrinsic, lanes.observation)
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
    weight = _priority_weight(config, state.counters.agent_steps)

    def one(number: Int[Array, ""], agent_state, intrinsic, replay: PrioritizedReplay):
        sample_key, learn_key = jax.random.split(jax.random.fold_in(key, number))
        drawn = prioritized.sample(
            sample_key,
            replay,
            config.batch_size,
            n=config.n_steps,
            stack=1,
            gamma=config.discount,
        )
        batch = RainbowBatch(
            observation=drawn.observation[..., 0],
            action=drawn.action,
            reward=drawn.reward,
            bonus=jnp.zeros_like(drawn.reward),
            discount=drawn.discount,
            next_observation=drawn.next_observation[..., 0],
            weight=prioritized.importance_weights(drawn.probability, weight),
        )
        agent_state, intrinsic, metrics = learn(
            agent.update,
            bonus,
            agent_state,
            intrinsic,
            lambda _: (batch, drawn.slot),
            state.counters.agent_steps,
            learn_key,
        )
        if config.prioritized:
            replay = prioritized.update_priorities(replay, drawn.slot, agent_state.priority)
        return agent_state, intrinsic, replay, metrics

    def step(number: Int[Array, ""], carry):
        *parts, sums = carry
        *parts, metrics = one(number, *parts)
        return *parts, jax.tree.map(jnp.add, sums, metrics)

    parts = state.agent, state.intrinsic, state.replay
    metrics = jax.eval_shape(one, jnp.int32(0), *parts)[-1]
    zeros = jax.tree.map(lambda metric: jnp.zeros(metric.shape, metric.dtype), metrics)
    agent_state, intrinsic, replay, sums = jax.lax.fori_loop(0, num_updates, step, (*parts, zeros))
    counters = state.counters._replace(updates=state.counters.updates + num_updates)
    state = state._replace(agent=agent_state, intrinsic=intrinsic, replay=replay, counters=counters)
    return state, sums


def _priority_weight(
    config: RainbowConfig, agent_steps: Int[Array, ""]
) -> Float[Array, ""] | float:
    """Beta of the importance weights: linear from the first update to the end of the run."""
    if not config.prioritized:
        return 0.0
    length = max(config.anneal_agent_steps - config.initial_agent_steps, 1)
    done = jnp.clip((agent_steps - config.initial_agent_steps) / length, 0.0, 1.0)
    return config.priority_weight + (1.0 - config.priority_weight) * done


def train_chunk(
    env: DeviceEnv,
    agent: Agent,
    bonus: IntrinsicReward,
    config: RainbowConfig,
    state: OffPolicyState,
    *,
    chunk_steps: int,
) -> tuple[OffPolicyState, Metrics]:
    """`chunk_steps` steps of all lanes.

    Metrics of updates are means over those of the chunk, NaN if there were none; episode
    statistics over the episodes that ended in it, likewise.
    """
    counters = Counters(*(same_for_all_seeds(counter) for counter in state.counters))

    def step(state: OffPolicyState, _):
        return train_step(env, agent, bonus, config, state)

    state, (sums, totals, reward) = jax.lax.scan(
        step, state._replace(counters=counters), length=chunk_steps
    )
    num_updates = state.counters.updates - counters.updates
    metrics = jax.tree.map(lambda total: jnp.sum(total) / num_updates, sums)
    return state, {**metrics, "reward_mean": jnp.mean(reward), **episode_metrics(totals)}


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
    if config.replay_capacity % config.num_envs:
        raise ValueError(
            f"a replay of {config.replay_capacity} agent steps is not a whole number of steps of "
            f"{config.num_envs} lanes: make replay_capacity a multiple of num_envs"
        )
    window = config.num_envs * config.n_steps
    if config.initial_agent_steps <= window:
        raise ValueError(
            f"initial_agent_steps is {config.initial_agent_steps}, but the first transition of "
            f"{config.n_steps} steps of {config.num_envs} lanes is whole after {window}: raise it"
        )
    # Windows that a time limit cuts are never drawn: what is stored must reach beyond one.
    if config.replay_capacity < 2 * (window + config.num_envs):
        raise ValueError(
            f"a replay of {config.replay_capacity} agent steps can be without a transition of "
            f"{config.n_steps} steps: raise replay_capacity to "
            f"{2 * (window + config.num_envs)} or more"
        )
    if env.spec.max_agent_steps <= config.n_steps:
        raise ValueError(
            f"episodes of {env.spec.task} end after {env.spec.max_agent_steps} agent steps, which "
            f"leaves no transition of {config.n_steps}: lower n_steps"
        )
    return compile_program(
        env,
        agent,
        partial(init_state, env, agent, bonus, config),
        partial(train_chunk, env, agent, bonus, config, chunk_steps=chunk_steps),
        eval_episodes=eval_episodes,
        eval_greedy=eval_greedy,
        env_frames_per_chunk=chunk_steps * config.num_envs * env.spec.action_repeat,
        devices=devices,
    )
