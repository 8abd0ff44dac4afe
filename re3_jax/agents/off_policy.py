"""What the learners of all agents with a replay have in common: how they begin and store."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from re3_jax.agents.base import (
    Acting,
    Action,
    AgentState,
    Frame,
    Info,
    Learner,
    LearnerState,
    Memory,
    Observation,
    Phase,
    beginning,
)
from re3_jax.envs.base import EnvSpec, LaneStep
from re3_jax.intrinsic.base import IntrinsicReward, IntrinsicState, Step
from re3_jax.intrinsic.rewarding import ValueOf, value_if
from re3_jax.replay import transition_ring
from re3_jax.replay.frame_stack import FrameStack
from re3_jax.replay.transition_ring import TransitionRing

Replay = Any
"""What is kept of the steps: a pytree."""


class Storage(NamedTuple):
    """A replay and how it is used.

    init: frame[lane] -> replay; episodes of all lanes begin with `frame`
    cut: (replay, frame[lane]) -> replay; the episodes under way end, others begin with `frame`
    add: (replay, observation[lane], action[lane], step, bonus_index[lane]) -> replay
    sample: (key, replay) -> what an update is made of
    """

    init: Callable[[Frame], Replay]
    cut: Callable[[Replay, Frame], Replay]
    add: Callable[[Replay, Observation, Action, LaneStep, Int[Array, " lane *index"]], Replay]
    sample: Callable[[PRNGKeyArray, Replay], Any]


def transition_storage(
    capacity: int, batch_size: int, spec: EnvSpec, index_shape: tuple[int, ...]
) -> Storage:
    """Stores whole transitions of observations that are single frames, such as vectors.

    It samples `Transitions` and their bonus_index [batch, ...].

    Args:
      capacity: transitions of all lanes together, of which new ones overwrite the oldest.
      batch_size: transitions of one sample.
      spec: the task.
      index_shape: of the bonus, whose index is stored with each transition.
    """

    def add(
        replay: TransitionRing,
        observation: Observation,
        action: Action,
        step: LaneStep,
        index: Int[Array, " lane *index"],
    ) -> TransitionRing:
        return transition_ring.add(
            replay,
            observation,
            action,
            step.reward,
            1.0 - step.task_ended.astype(jnp.float32),
            step.final_frame,
            index,
        )

    return Storage(
        init=lambda frame: transition_ring.init(capacity, spec, index_shape),
        cut=lambda replay, frame: replay,
        add=add,
        sample=lambda key, replay: transition_ring.sample(key, replay, batch_size),
    )


def off_policy_learner(
    spec: EnvSpec,
    bonus: IntrinsicReward,
    num_lanes: int,
    agent_init: Callable[[PRNGKeyArray], AgentState],
    acting: Acting,
    storage: Storage,
    *,
    frames: FrameStack,
    updates_due: Callable[[Any, Any], Any],
    phases: tuple[Phase, ...],
    random_agent_steps: int = 0,
    learns: tuple[str, ...] = ("agent", "intrinsic"),
    observed: Callable[[Memory], Observation] = lambda memory: memory,
    value: Callable[[AgentState, Observation], Float[Array, " lane"]] | None = None,
) -> Learner:
    """The learner of an agent with a replay.

    Args:
      spec: the task.
      bonus: the intrinsic reward.
      num_lanes: environments stepped together.
      agent_init: key -> the agent's state.
      acting: how it acts.
      storage: its replay.
      frames: how observations are stacks of frames.
      updates_due: as of `Learner`, and so are the next three.
      phases: updates that follow each other in a cycle.
      random_agent_steps: actions, summed over lanes, that are uniformly random at first.
      learns: the fields of the state that a phase changes.
      observed: memory of the acting lanes -> the observation in it, by default all of it.
      value: (agent, observation[lane]) -> V(o), for bonuses that store it.
    """
    begin = beginning(spec, bonus, num_lanes, agent_init, acting)

    def init(key: PRNGKeyArray, frame: Frame) -> LearnerState:
        return begin(key, frame)._replace(replay=storage.init(frame))

    def restart(state: LearnerState, frame: Frame) -> LearnerState:
        return state._replace(
            intrinsic=bonus.restart(state.intrinsic, jnp.ones(num_lanes, bool)),
            replay=storage.cut(state.replay, frame),
            memory=acting.begin(state.agent, frame),
        )

    def store(state: LearnerState, action: Action, step: LaneStep) -> LearnerState:
        observation = observed(state.memory)
        value_of = value and partial(value, state.agent)
        intrinsic, index = observe(
            bonus, state.intrinsic, frames, observation, action, step, value_of
        )
        return state._replace(
            intrinsic=intrinsic,
            replay=storage.add(state.replay, observation, action, step, index),
            memory=acting.see(state.memory, step.frame, step.done),
        )

    return Learner(
        spec=spec,
        num_lanes=num_lanes,
        random_agent_steps=random_agent_steps,
        acting=acting,
        init=init,
        restart=restart,
        store=store,
        updates_due=updates_due,
        phases=phases,
        learns=learns,
    )


def where_drawn(
    is_drawn: Bool[Array, ""], before: LearnerState, after: LearnerState, info: Info
) -> tuple[LearnerState, Info]:
    """The state after an update and its info; that before it, and NaN, where nothing was drawn."""
    agent, intrinsic = if_drawn(
        is_drawn, (after.agent, after.intrinsic), (before.agent, before.intrinsic)
    )
    return after._replace(agent=agent, intrinsic=intrinsic), info_if_drawn(is_drawn, info)


def if_drawn(is_drawn: Bool[Array, ""], new: Any, old: Any) -> Any:
    """What an update computed, or what was there before it where nothing was drawn.

    What no update changes, such as a ring of latents, stays the same array: it is not copied.
    """
    return jax.tree.map(
        lambda one, other: one if one is other else jnp.where(is_drawn, one, other), new, old
    )


def info_if_drawn(is_drawn: Bool[Array, ""], info: Info) -> Info:
    """The info of an update, NaN where nothing was drawn."""
    return {name: jnp.where(is_drawn, value, jnp.nan) for name, value in info.items()}


def observe(
    bonus: IntrinsicReward,
    intrinsic: IntrinsicState,
    frames: FrameStack,
    observation: Observation,
    action: Action,
    step: LaneStep,
    value_of: ValueOf | None = None,
) -> tuple[IntrinsicState, Int[Array, " lane *index"]]:
    """Shows the bonus a step that is being stored; the index to store with it.

    An episode ends for the bonus with the game's, not with a life. `value_of` are the agent's
    values, called only if the bonus needs them.
    """
    value = value_if(bonus.needs_stored_value, value_of, observation)
    with jax.named_scope("encode"):
        following = frames.push(observation, step.final_frame)
        ends = step.terminated, step.truncated
        seen = Step(observation, action, following, *ends, step.state_number, value)
        return bonus.observe(intrinsic, seen)
