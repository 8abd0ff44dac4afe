"""An on-policy agent in the host loop: its replay is the rollout that is being collected.

So storing a step, going on from a checkpoint and counting are those of every agent. Frames are kept
once and stacked when the rollout is learned from.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

from re3_jax.agents.base import Action, Frame, Info, Learner, LearnerState, Memory, OnPolicyLearner
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import LaneStep
from re3_jax.replay.frame_stack import FrameStack


class StoredRollout(NamedTuple):
    """Steps of a rollout so far; rows from `taken` on are older.

    Attributes:
      first: what the lanes carried before the first step.
      action: as the policy chose it.
      step: what followed; its leaves lead with the time.
      taken: steps stored, int32.
    """

    first: Memory
    action: Shaped[Array, "time lane *action"]
    step: LaneStep
    taken: Int[Array, ""]


def collecting(learner: OnPolicyLearner) -> Learner:
    """The agent as a `Learner`, an update of which is due with each whole rollout.

    The update is for a loop that makes it before the lanes act again: it learns from what the
    present policy did. A lost life ends the task for the agent and begins another stack of frames,
    but ends no episode of the bonus.
    """
    acting, length, lanes = learner.acting, learner.rollout_length, learner.num_lanes

    def init(key: PRNGKeyArray, frame: Frame) -> LearnerState:
        state = learner.init(key, frame)
        _, action = jax.eval_shape(
            lambda agent, memory: acting.act(agent, memory, key, True), state.agent, state.memory
        )
        action, step = jax.tree.map(
            lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype),
            (action, LaneStep.zeros(frame)),
        )
        return state._replace(replay=StoredRollout(state.memory, action, step, jnp.int32(0)))

    def restart(state: LearnerState, frame: Frame) -> LearnerState:
        stored: StoredRollout = state.replay
        memory = acting.begin(state.agent, frame)
        # A rollout that is cut goes on with the new episode, as after a time limit.
        newest, step = stored.taken - 1, stored.step
        cut = step._replace(
            frame=step.frame.at[newest].set(frame), truncated=step.truncated.at[newest].set(True)
        )
        # Agent and bonus have learned from no step of this rollout, whose first ones may go on with
        # an episode.
        (agent, intrinsic), first = jax.tree.map(
            lambda new, old: jnp.where(stored.taken == 0, new, old),
            (learner.forget(state), memory),
            ((state.agent, state.intrinsic), stored.first),
        )
        return state._replace(
            agent=agent,
            intrinsic=intrinsic,
            replay=stored._replace(first=first, step=cut),
            memory=memory,
        )

    def store(state: LearnerState, action: Action, step: LaneStep) -> LearnerState:
        stored: StoredRollout = state.replay
        rows, step_of_row = jax.tree.map(
            lambda leaf, row: leaf.at[stored.taken].set(row),
            (stored.action, stored.step),
            (action, step),
        )
        return state._replace(
            replay=StoredRollout(stored.first, rows, step_of_row, stored.taken + 1),
            memory=acting.see(state.memory, step.frame, step.done),
        )

    def updates_due(before: Any, after: Any) -> Any:
        return after // (length * lanes) - before // (length * lanes)

    def learn(
        state: LearnerState, agent_steps: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[LearnerState, Info]:
        stored: StoredRollout = state.replay
        rollout, before = whole(learner, stored), agent_steps - length * lanes
        learned, info = learner.learn(state, rollout, before, key)
        emptied = stored._replace(first=state.memory, taken=jnp.zeros_like(stored.taken))
        return learned._replace(replay=emptied), info

    return Learner(
        spec=learner.spec,
        num_lanes=lanes,
        random_agent_steps=0,
        acting=acting,
        init=init,
        restart=restart,
        store=store,
        updates_due=updates_due,
        phases=(learn,),
        learns=("agent", "intrinsic", "replay"),
        learns_while_lanes_step=False,
    )


def whole(learner: OnPolicyLearner, stored: StoredRollout) -> Rollout:
    """The rollout, its bonus zero, from as many steps as it has."""
    step, see, frames = stored.step, learner.acting.see, FrameStack(learner.spec.frame_stack)

    def show(memory: Memory, step: LaneStep) -> tuple[Memory, Shaped[Array, " lane *observation"]]:
        after = see(memory, step.frame, step.done)
        return after, learner.observed(memory)

    last, observation = jax.lax.scan(show, stored.first, step)
    return Rollout(
        observation=observation,
        action=stored.action,
        reward=step.reward,
        bonus=jnp.zeros_like(step.reward),
        terminated=step.terminated,
        truncated=step.truncated,
        next_observation=jax.vmap(frames.push)(observation, step.final_frame),
        last_observation=learner.observed(last),
        first_memory=stored.first,
        life_lost=step.task_ended & ~step.terminated,
    )
