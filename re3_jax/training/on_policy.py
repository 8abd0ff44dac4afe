"""The on-policy device loop: one rollout, then one update, in a `lax.scan`."""

from functools import partial
from typing import Unpack

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from re3_jax.agents.base import OnPolicyLearner
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import DeviceEnv
from re3_jax.training import coverage
from re3_jax.training.device_program import DeviceProgram
from re3_jax.training.seeds import ProgramOptions
from re3_jax.training.train_state import EpisodeTotals, Metrics, TrainState


def init_state(env: DeviceEnv, learner: OnPolicyLearner, key: PRNGKeyArray) -> TrainState:
    """State at env frame 0; the key decides everything that follows."""
    *keys, reset_key = jax.random.split(key, 4)
    env_state, frame = jax.vmap(env.reset)(jax.random.split(reset_key, learner.num_lanes))
    return TrainState.begin(learner, frame, env_state, coverage.none_visited(env), *keys)


def roll_out(
    env: DeviceEnv, learner: OnPolicyLearner, state: TrainState, key: PRNGKeyArray
) -> tuple[TrainState, Rollout, EpisodeTotals]:
    """Steps all lanes `rollout_length` times with sampled actions; the bonus is zero."""
    length, acting = learner.rollout_length, learner.acting
    act_key, env_key = jax.random.split(key)
    act_keys = jax.random.split(act_key, length)
    env_keys = jax.random.split(env_key, (length, learner.num_lanes))

    def step(carry, keys):
        memory, lanes = carry
        with jax.named_scope("act"):
            memory, action = acting.act(state.agent, memory, keys[0], True)
        number = coverage.number(env, lanes.env), coverage.counted(env, lanes.env)
        with jax.named_scope("env"):
            executed = env.spec.action_space.executed(action)
            env_state, timestep = jax.vmap(env.step)(lanes.env, executed, keys[1])
        done = timestep.ended
        lanes, totals = lanes.count_step(timestep.reward, done)
        after = acting.see(memory, timestep.observation, done)
        lanes, observation = lanes._replace(env=env_state), learner.observed(memory)
        return (after, lanes), (observation, action, timestep, totals, number)

    (memory, lanes), (observation, action, timestep, totals, (numbers, counted)) = jax.lax.scan(
        step, (state.memory, state.lanes), (act_keys, env_keys)
    )
    rollout = Rollout(
        observation=observation,
        action=action,
        reward=timestep.reward,
        bonus=jnp.zeros_like(timestep.reward),
        terminated=timestep.terminated,
        truncated=timestep.truncated,
        next_observation=timestep.final_observation,
        last_observation=learner.observed(memory),
        state_number=counted,
        first_memory=state.memory,
    )
    visited = coverage.visit(state.visited, numbers)
    state = state._replace(memory=memory, lanes=lanes, visited=visited)
    return state, rollout, jax.tree.map(jnp.sum, totals)


def train_update(
    env: DeviceEnv, learner: OnPolicyLearner, state: TrainState
) -> tuple[TrainState, tuple[Metrics, EpisodeTotals]]:
    """One rollout and one update."""
    key, rollout_key, learn_key = jax.random.split(state.key, 3)
    state, rollout, totals = roll_out(env, learner, state, rollout_key)
    learned, info = learner.learn(state.learner, rollout, state.counters.agent_steps, learn_key)
    counters = state.counters.after(rollout.reward.size, env.spec.action_repeat)
    counters = counters._replace(updates=counters.updates + 1)
    state = state.with_learner(learned)._replace(key=key, counters=counters)
    return state, ({**info, "reward_mean": jnp.mean(rollout.reward)}, totals)


def train_chunk(
    env: DeviceEnv, learner: OnPolicyLearner, chunk_updates: int, state: TrainState
) -> tuple[TrainState, Metrics]:
    """`chunk_updates` updates; metrics are means over them.

    Episode statistics are means over the episodes that ended in the chunk, NaN if none did.
    `state_coverage` and `state_entropy` as in `coverage`.
    """
    state, (metrics, totals) = jax.lax.scan(
        lambda state, _: train_update(env, learner, state), state, length=chunk_updates
    )
    return state, {
        **jax.tree.map(jnp.mean, metrics),
        **totals.metrics(),
        **coverage.metrics(env, state.visited),
    }


def make_on_policy_program(
    env: DeviceEnv,
    learner: OnPolicyLearner,
    *,
    chunk_updates: int,
    **options: Unpack[ProgramOptions],
) -> DeviceProgram:
    """Maps the loop over seeds; one call of `train` makes `chunk_updates` updates."""
    init = partial(init_state, env, learner)
    train = partial(train_chunk, env, learner, chunk_updates)
    agent_steps = chunk_updates * learner.rollout_length * learner.num_lanes
    env_frames = agent_steps * env.spec.action_repeat
    return DeviceProgram(env, learner.acting, init, train, env_frames, **options)
