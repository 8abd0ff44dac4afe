"""Dreamer as a `Learner`: whole episodes are stored and learned from in bursts of updates.

As danijar/dreamer orders it: random actions until `prefill_env_frames`; from then on, every
`env_frames_per_burst`, `updates_per_burst` updates on sequences sampled from whole episodes.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt8

from re3_jax import batch_split
from re3_jax.agents.base import Acting, Action, Info, Learner, LearnerState, reported
from re3_jax.agents.dreamer.agent import Belief, Dreamer, DreamerState, SequenceBatch
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.off_policy import Storage, off_policy_learner, where_drawn
from re3_jax.envs.base import EnvSpec, LaneStep
from re3_jax.intrinsic.base import IntrinsicBatch, IntrinsicReward, IntrinsicState
from re3_jax.intrinsic.rewarding import reward_batch
from re3_jax.replay import sequence_ring
from re3_jax.replay.frame_stack import FrameStack
from re3_jax.replay.sequence_ring import SequenceReplay, Sequences

Frames = UInt8[Array, "lane 64 64 channels"]

SINGLE = FrameStack(1)
"""Dreamer remembers; it is shown one frame at a time."""


class Memory(NamedTuple):
    """What acting lanes carry.

    Attributes:
      belief: the world model's state and the last action.
      frame: what the lanes show now.
    """

    belief: Belief
    frame: Frames


def make_learner(config: DreamerConfig, spec: EnvSpec, bonus: IntrinsicReward) -> Learner:
    """Dreamer for one task of 64x64 frames with real-valued actions.

    Args:
      config: numbers of the agent.
      spec: the task; episodes shorter than `sequence_length` agent steps are never drawn.
      bonus: rewards it for exploring; RE3's `ring_size` must be `replay_capacity`.

    Raises:
      ValueError: the agent cannot act in the task, or there could be nothing to sample when the
        first update is due.
    """
    dreamer, lanes, length = Dreamer(config, spec), config.num_envs, config.sequence_length
    check_sizes(config, spec)

    def started(frame: Frames) -> SequenceReplay:
        empty = sequence_ring.init(
            config.replay_capacity // lanes,
            lanes,
            spec.frame_shape,
            dreamer.action_dim,
            length,
            bonus.index_shape,
        )
        return sequence_ring.begin(empty, frame)

    def add(
        replay: SequenceReplay,
        frame: Frames,
        action: Action,
        step: LaneStep,
        index: Int[Array, " lane *index"],
    ) -> SequenceReplay:
        del frame
        return sequence_ring.add(
            replay,
            action,
            step.reward,
            step.task_ended,
            step.frame,
            step.final_frame,
            step.done,
            index,
            length=length,
        )

    storage = Storage(
        init=started,
        cut=sequence_ring.begin,
        add=add,
        sample=lambda key, replay: sequence_ring.sample(key, replay, config.batch_size, length),
    )

    def begin(agent: DreamerState, frame: Frames) -> Memory:
        return Memory(dreamer.begin(agent, frame.shape[0]), frame)

    def act(agent: DreamerState, memory: Memory, key: PRNGKeyArray, explore: bool):
        belief, action = dreamer.act(agent, memory.belief, memory.frame, key, explore)
        return memory._replace(belief=belief), action

    def update(
        state: LearnerState, agent_steps: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[LearnerState, Info]:
        sample_key, bonus_key, update_key = jax.random.split(key, 3)
        with jax.named_scope("sample"):
            drawn = batch_split.split(storage.sample(sample_key, state.replay))
        batch, intrinsic, bonus_info = reward_sequences(
            bonus, state.intrinsic, drawn, agent_steps, bonus_key
        )
        with jax.named_scope("update"):
            agent, info = dreamer.update(state.agent, batch, update_key)
        # Without a finished episode as long as a sequence the draw is of nothing.
        return where_drawn(
            sequence_ring.can_sample(state.replay),
            state,
            state._replace(agent=agent, intrinsic=intrinsic),
            reported(info, bonus_info),
        )

    def updates_due(before: Any, after: Any) -> Any:
        every, repeat = config.env_frames_per_burst, spec.action_repeat
        crossed = after * repeat // every - before * repeat // every
        return (after * repeat >= config.prefill_env_frames) * crossed * config.updates_per_burst

    return off_policy_learner(
        spec,
        bonus,
        lanes,
        dreamer.init,
        Acting(begin, act, see),
        storage,
        frames=SINGLE,
        updates_due=updates_due,
        phases=(update,),
        random_agent_steps=-(-config.prefill_env_frames // spec.action_repeat),
        observed=lambda memory: memory.frame,
    )


def see(memory: Memory, frame: Frames, begins: Bool[Array, " lane"]) -> Memory:
    """Takes in the next frame; zeroes the belief of lanes where an episode begins with it."""
    belief = jax.tree.map(lambda leaf: jnp.where(begins[:, None], 0.0, leaf), memory.belief)
    return Memory(belief, frame)


def reward_sequences(
    bonus: IntrinsicReward,
    state: IntrinsicState,
    drawn: Sequences,
    agent_steps: Int[Array, ""],
    key: PRNGKeyArray,
) -> tuple[SequenceBatch, IntrinsicState, Info]:
    """Sequences with the bonus of every frame added to the reward that came with the frame.

    A frame's bonus is that of the step that it was acted on with, as for the other agents. First
    frames of episodes are rewarded as all others are. Reports what `reward_batch` does.
    """
    batch = SequenceBatch.of(drawn)

    def flat(leaf: Array) -> Array:
        return leaf.reshape(-1, *leaf.shape[2:])

    steps = IntrinsicBatch(
        observation=flat(batch.frames),
        action=flat(drawn.action[:, 1:]),
        next_observation=flat(drawn.frames[:, 1:]),
        bonus_index=flat(drawn.bonus_index),
        agent_steps=agent_steps,
    )
    reward, state, info = reward_batch(bonus, state, steps, key)
    batch = batch._replace(reward=batch.reward + reward.reshape(batch.reward.shape))
    return batch, state, info


def check_sizes(config: DreamerConfig, spec: EnvSpec) -> None:
    """Refuses a replay from which nothing could be drawn when an update is due.

    Raises:
      ValueError: if every episode is shorter than a sequence, or the random actions do not fill
        one, or the replay does not keep one until the next is whole.
    """
    length, steps = config.sequence_length, spec.max_agent_steps
    if steps < length:
        raise ValueError(
            f"episodes of {spec.task} end after {steps} agent steps, which holds no sequence of "
            f"{length} frames and a beginning: lower sequence_length"
        )
    # A whole episode, and all of the next but its last frame.
    least = config.num_envs * (2 * steps + 1)
    if config.replay_capacity < least:
        raise ValueError(
            f"a replay of {config.replay_capacity} frames does not keep an episode of {steps} "
            f"agent steps in each of {config.num_envs} lanes until the next is whole: raise "
            f"replay_capacity to {least} or more"
        )
    needed = config.num_envs * steps * spec.action_repeat
    if config.prefill_env_frames < needed:
        raise ValueError(
            f"after {config.prefill_env_frames} env frames no lane has finished an episode: raise "
            f"prefill_env_frames to {needed} or more"
        )
