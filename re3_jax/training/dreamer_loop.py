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
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.agents.base import Acting
from re3_jax.agents.dreamer.agent import Belief, Dreamer, SequenceBatch
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.dreamer.state_entropy import reward_sequences
from re3_jax.envs.base import DeviceEnv, EnvSpec
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.replay import sequence_ring
from re3_jax.replay.sequence_ring import SequenceReplay
from re3_jax.training.episodes import EpisodeTotals, count_episodes
from re3_jax.training.learner import Metrics, OffPolicyState
from re3_jax.training.off_policy_chunk import train_chunk
from re3_jax.training.seeds import Program, compile_program
from re3_jax.training.train_state import Counters, Lanes


class BelievingLanes(NamedTuple):
    """The environments of one seed, and what Dreamer believes of each."""

    lanes: Lanes
    belief: Belief


def check_sizes(config: DreamerConfig, spec: EnvSpec) -> None:
    """Refuses a replay from which nothing could be drawn when the first update is due.

    Raises:
      ValueError: if episodes are no longer than a sequence, or the random actions do not fill
        one, or the replay does not hold one.
    """
    length, steps = config.sequence_length, spec.max_agent_steps
    if steps < length:
        raise ValueError(
            f"episodes of {spec.task} end after {steps} agent steps, which holds no sequence of "
            f"{length} frames and a beginning: lower sequence_length"
        )
    if config.replay_frames < config.num_envs * (steps + 1):
        raise ValueError(
            f"a replay of {config.replay_frames} frames holds no whole episode of {steps} agent "
            f"steps in each of {config.num_envs} lanes: raise replay_frames to "
            f"{config.num_envs * (steps + 1)} or more"
        )
    needed = config.num_envs * steps * spec.action_repeat
    if config.prefill_env_frames < needed:
        raise ValueError(
            f"after {config.prefill_env_frames} env frames no lane has finished an episode: raise "
            f"prefill_env_frames to {needed} or more"
        )


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
    height, width, channels = env.spec.observation_shape
    replay = sequence_ring.init(
        config.replay_frames // config.num_envs,
        config.num_envs,
        (height, width, channels),
        dreamer.action_dim,
        config.sequence_length,
    )
    return OffPolicyState(
        agent=agent,
        intrinsic=bonus.init(bonus_key, env.spec),
        replay=sequence_ring.begin(replay, lanes.observation),
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
    with jax.named_scope("store"):
        replay = sequence_ring.add(
            state.replay,
            action,
            timestep.reward,
            timestep.terminated,
            timestep.final_observation,
            timestep.observation,
            done,
            length=config.sequence_length,
        )
    lanes, totals = count_episodes(lanes, timestep.reward, done)
    lanes = lanes._replace(env=env_state, observation=timestep.observation)
    nothing = dreamer.begin(state.agent, config.num_envs)
    belief = jax.tree.map(lambda new, now: jnp.where(done[:, None], new, now), nothing, belief)
    env_frames = before + config.num_envs * env.spec.action_repeat
    counters = state.counters._replace(
        agent_steps=state.counters.agent_steps + config.num_envs, env_frames=env_frames
    )
    state = state._replace(
        replay=replay, lanes=BelievingLanes(lanes, belief), counters=counters, key=key
    )
    every = config.env_frames_per_burst
    is_due = (env_frames >= config.prefill_env_frames) & (env_frames // every > before // every)
    num_updates = jnp.where(is_due, config.updates_per_burst, 0)
    state, sums = _learn(dreamer, bonus, config, state, num_updates, learn_key)
    return state, (sums, totals, jnp.mean(timestep.reward))


def _learn(
    dreamer: Dreamer,
    bonus: IntrinsicReward,
    config: DreamerConfig,
    state: OffPolicyState,
    num_updates: Int[Array, ""],
    key: PRNGKeyArray,
) -> tuple[OffPolicyState, Metrics]:
    """A burst; also the sums of its updates' metrics."""
    replay: SequenceReplay = state.replay

    def one(number: Int[Array, ""], agent, intrinsic):
        sample_key, update_key = jax.random.split(jax.random.fold_in(key, number))
        with jax.named_scope("sample"):
            drawn = sequence_ring.sample(
                sample_key, replay, config.batch_size, config.sequence_length
            )
        with jax.named_scope("bonus"):
            batch, intrinsic, reward_info = reward_sequences(
                bonus, intrinsic, SequenceBatch(*drawn), state.counters.agent_steps
            )
        with jax.named_scope("update"):
            agent, info = dreamer.update(agent, batch, update_key)
        return agent, intrinsic, {**info, **reward_info}

    def step(number: Int[Array, ""], carry):
        agent, intrinsic, sums = carry
        agent, intrinsic, metrics = one(number, agent, intrinsic)
        return agent, intrinsic, jax.tree.map(jnp.add, sums, metrics)

    metrics = jax.eval_shape(one, jnp.int32(0), state.agent, state.intrinsic)[-1]
    zeros = jax.tree.map(lambda metric: jnp.zeros(metric.shape, metric.dtype), metrics)
    agent, intrinsic, sums = jax.lax.fori_loop(
        0, num_updates, step, (state.agent, state.intrinsic, zeros)
    )
    counters = state.counters._replace(updates=state.counters.updates + num_updates)
    return state._replace(agent=agent, intrinsic=intrinsic, counters=counters), sums


def make_dreamer_program(
    env: DeviceEnv,
    dreamer: Dreamer,
    bonus: IntrinsicReward,
    config: DreamerConfig,
    *,
    chunk_steps: int,
    eval_episodes: int,
    eval_greedy: bool,
    devices: Sequence[jax.Device] | None = None,
) -> Program:
    """Maps the loop over seeds.

    Args:
      env: a task of 64x64 frames with actions that are real numbers, whose episodes are never
        shorter than `sequence_length` agent steps.
      dreamer: the agent.
      bonus: `minibatch_re3`, or `intrinsic.none()`.
      config: numbers of the agent and of the loop.
      chunk_steps: steps of all lanes per call of `train`; the host hears once per chunk.
      eval_episodes: episodes per evaluation.
      eval_greedy: evaluate the policy's mode; otherwise it explores.
      devices: devices to spread the seeds over; the number of seeds must be a multiple of
        theirs. One device by default.

    Raises:
      ValueError: if there could be nothing to draw from.
    """
    check_sizes(config, env.spec)
    return compile_program(
        env,
        Acting(dreamer.begin, dreamer.act),
        partial(init_state, env, dreamer, bonus, config),
        partial(
            train_chunk, partial(train_step, env, dreamer, bonus, config), chunk_steps=chunk_steps
        ),
        eval_episodes=eval_episodes,
        eval_greedy=eval_greedy,
        env_frames_per_chunk=chunk_steps * config.num_envs * env.spec.action_repeat,
        devices=devices,
    )
