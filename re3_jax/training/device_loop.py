"""The on-policy device loop: act, step, observe, reward and update in one `lax.scan`.

Everything here is for one seed and pure; `seeds.make_program` maps it over seeds and
compiles it.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.agents.base import Agent, AgentState
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import DeviceEnv
from re3_jax.intrinsic.base import IntrinsicBatch, IntrinsicReward, Step, observe_rollout
from re3_jax.intrinsic.rewarding import reward_batch
from re3_jax.training.episodes import EpisodeTotals, count_episodes, episode_metrics
from re3_jax.training.train_state import Counters, Lanes, TrainState

Metrics = dict[str, Float[Array, ""]]


def init_train_state(
    env: DeviceEnv, agent: Agent, bonus: IntrinsicReward, num_envs: int, key: PRNGKeyArray
) -> TrainState:
    """State at env frame 0; the key decides everything that follows."""
    train_key, evaluation_key, agent_key, bonus_key, reset_key = jax.random.split(key, 5)
    return TrainState(
        agent=agent.init(agent_key),
        intrinsic=bonus.init(bonus_key, env.spec, num_envs),
        lanes=Lanes.begin(env, num_envs, reset_key),
        counters=Counters.zero(),
        key=train_key,
        evaluation_key=evaluation_key,
        visited=None if env.states is None else jnp.zeros(env.states.num_states, bool),
    )


def roll_out(
    env: DeviceEnv,
    agent: Agent,
    agent_state: AgentState,
    lanes: Lanes,
    key: PRNGKeyArray,
    rollout_length: int,
) -> tuple[Lanes, Rollout, EpisodeTotals, Int[Array, "time lane"] | None]:
    """Steps all lanes `rollout_length` times with sampled actions; the bonus is zero.

    Returns:
      The lanes; the rollout; totals of the episodes that ended; the number of each state in
      which an action was taken, None where they cannot be counted.
    """
    num_envs = lanes.episode_length.shape[0]
    act_key, env_key = jax.random.split(key)
    act_keys = jax.random.split(act_key, rollout_length)
    env_keys = jax.random.split(env_key, (rollout_length, num_envs))

    def step(lanes: Lanes, keys):
        with jax.named_scope("act"):
            action = agent.act(agent_state, lanes.observation, keys[0], True)
        with jax.named_scope("env"):
            env_state, timestep = jax.vmap(env.step)(lanes.env, action, keys[1])
        after, totals = count_episodes(
            lanes, timestep.reward, timestep.terminated | timestep.truncated
        )
        after = after._replace(env=env_state, observation=timestep.observation)
        number = None if env.states is None else jax.vmap(env.states.number)(lanes.env)
        return after, (lanes.observation, action, timestep, totals, number)

    lanes, (observation, action, timestep, totals, numbers) = jax.lax.scan(
        step, lanes, (act_keys, env_keys)
    )
    rollout = Rollout(
        observation=observation,
        action=action,
        reward=timestep.reward,
        bonus=jnp.zeros_like(timestep.reward),
        terminated=timestep.terminated,
        truncated=timestep.truncated,
        next_observation=timestep.final_observation,
        last_observation=lanes.observation,
    )
    return lanes, rollout, jax.tree.map(jnp.sum, totals), numbers


def train_update(
    env: DeviceEnv,
    agent: Agent,
    bonus: IntrinsicReward,
    state: TrainState,
    rollout_length: int,
) -> tuple[TrainState, tuple[Metrics, EpisodeTotals]]:
    """One rollout, its intrinsic rewards, one update (the order of Algorithm 2).

    Every frame of the rollout is observed before any is rewarded, so each finds itself and
    its rollout among its neighbours.
    """
    key, rollout_key, bonus_key, agent_key = jax.random.split(state.key, 4)
    lanes, rollout, totals, numbers = roll_out(
        env, agent, state.agent, state.lanes, rollout_key, rollout_length
    )

    def flat(x):
        return x.reshape(-1, *x.shape[2:])

    num_frames = rollout.reward.size
    steps = Step(
        rollout.observation,
        rollout.action,
        rollout.next_observation,
        rollout.terminated,
        rollout.truncated,
    )
    with jax.named_scope("bonus"):
        intrinsic, bonus_index = observe_rollout(bonus, state.intrinsic, steps)
    batch = IntrinsicBatch(
        observation=flat(rollout.observation),
        action=flat(rollout.action),
        next_observation=flat(rollout.next_observation),
        bonus_index=flat(bonus_index),
        agent_steps=state.counters.agent_steps,
    )
    reward, intrinsic, bonus_info = reward_batch(bonus, intrinsic, batch, bonus_key)
    with jax.named_scope("update"):
        rollout = rollout._replace(bonus=reward.reshape(rollout.reward.shape))
        agent_state, info = agent.update(state.agent, rollout, agent_key)

    counters = Counters(
        agent_steps=state.counters.agent_steps + num_frames,
        env_frames=state.counters.env_frames + num_frames * env.spec.action_repeat,
        updates=state.counters.updates + 1,
    )
    metrics = {
        **info,
        **bonus_info,
        "reward_mean": jnp.mean(rollout.reward),
    }
    visited = state.visited
    if visited is not None and numbers is not None:
        visited = visited.at[flat(numbers)].set(True)
    after = TrainState(agent_state, intrinsic, lanes, counters, key, state.evaluation_key, visited)
    return after, (metrics, totals)


def train_chunk(
    env: DeviceEnv,
    agent: Agent,
    bonus: IntrinsicReward,
    state: TrainState,
    *,
    rollout_length: int,
    chunk_updates: int,
) -> tuple[TrainState, Metrics]:
    """`chunk_updates` updates; metrics are means over them.

    Episode statistics are means over the episodes that ended in the chunk, NaN if none did.
    `state_coverage`, where states can be counted, is the share of all reachable ones in which
    an action was taken in the run so far.
    """

    def step(state: TrainState, _):
        return train_update(env, agent, bonus, state, rollout_length)

    state, (metrics, totals) = jax.lax.scan(step, state, length=chunk_updates)
    metrics = {**jax.tree.map(jnp.mean, metrics), **episode_metrics(totals)}
    if env.states is not None and state.visited is not None:
        metrics["state_coverage"] = jnp.sum(state.visited) / env.states.num_reachable
    return state, metrics
