"""What Dreamer's device and host loop share: its replay, its bursts of updates, what is forgotten.

As danijar/dreamer has it: random actions first; then, whenever so many env frames have passed, a
burst of updates on sequences drawn from whole episodes.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt8

from re3_jax.agents.dreamer.agent import Belief, Dreamer, DreamerState, SequenceBatch
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.dreamer.state_entropy import reward_sequences
from re3_jax.envs.base import EnvSpec
from re3_jax.intrinsic.base import IntrinsicReward, IntrinsicState
from re3_jax.replay import sequence_ring
from re3_jax.replay.sequence_ring import SequenceReplay
from re3_jax.training.learner import Metrics
from re3_jax.training.off_policy_chunk import repeat_updates


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
    if config.replay_capacity < config.num_envs * (steps + 1):
        raise ValueError(
            f"a replay of {config.replay_capacity} frames holds no whole episode of {steps} agent "
            f"steps in each of {config.num_envs} lanes: raise replay_capacity to "
            f"{config.num_envs * (steps + 1)} or more"
        )
    needed = config.num_envs * steps * spec.action_repeat
    if config.prefill_env_frames < needed:
        raise ValueError(
            f"after {config.prefill_env_frames} env frames no lane has finished an episode: raise "
            f"prefill_env_frames to {needed} or more"
        )


def new_replay(
    config: DreamerConfig,
    spec: EnvSpec,
    action_dim: int,
    frame: UInt8[Array, "lane height width channels"],
) -> SequenceReplay:
    """A replay in which the lanes' first episodes begin with `frame`."""
    height, width, channels = spec.observation_shape
    replay = sequence_ring.init(
        config.replay_capacity // config.num_envs,
        config.num_envs,
        (height, width, channels),
        action_dim,
        config.sequence_length,
    )
    return sequence_ring.begin(replay, frame)


def forget(belief: Belief, done: Bool[Array, " lane"]) -> Belief:
    """What is believed of lanes whose episode goes on; nothing, which is zeros, of others."""
    return jax.tree.map(lambda leaf: jnp.where(done[:, None], 0.0, leaf), belief)


def is_due(config: DreamerConfig, before, env_frames):
    """Whether a burst goes with the step that ended at `env_frames` and began at `before`."""
    every = config.env_frames_per_burst
    return (env_frames >= config.prefill_env_frames) & (env_frames // every > before // every)


def burst(
    dreamer: Dreamer,
    bonus: IntrinsicReward,
    config: DreamerConfig,
    agent: DreamerState,
    intrinsic: IntrinsicState,
    replay: SequenceReplay,
    agent_steps: Int[Array, ""],
    num_updates: Int[Array, ""],
    key: PRNGKeyArray,
    *,
    reward_free: bool,
) -> tuple[DreamerState, IntrinsicState, Metrics]:
    """`num_updates` updates; also the sums of their metrics.

    Where it is `reward_free`, the bonus is all the reward there is (paper, Section 3.3).
    """

    def one(number: Int[Array, ""], agent: DreamerState, intrinsic: IntrinsicState):
        sample_key, bonus_key, update_key = jax.random.split(jax.random.fold_in(key, number), 3)
        with jax.named_scope("sample"):
            *drawn, index = sequence_ring.sample(
                sample_key, replay, config.batch_size, config.sequence_length
            )
            batch = SequenceBatch(*drawn)
        if reward_free:
            batch = batch._replace(reward=jnp.zeros_like(batch.reward))
        batch, intrinsic, reward_info = reward_sequences(
            bonus, intrinsic, batch, index, agent_steps, bonus_key
        )
        with jax.named_scope("update"):
            agent, info = dreamer.update(agent, batch, update_key)
        return agent, intrinsic, {**info, **reward_info}

    agent, intrinsic, sums = repeat_updates(one, num_updates, (agent, intrinsic))
    return agent, intrinsic, sums
