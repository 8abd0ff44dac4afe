"""The seam between agents and loops: what a loop calls, and the state that it passes along.

A loop knows no agent and an agent no loop. A learner is the agent, its replay and its bonus in one:
pure functions for one seed over a `LearnerState`, made by a factory in the agent's room. Arrays of
lanes always lead with the lane.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import Box, EnvSpec, LaneStep
from re3_jax.intrinsic.base import IntrinsicReward, IntrinsicState
from re3_jax.replay.frame_stack import FrameStack

AgentState = Any
"""Parameters, optimiser state and whatever else the agent learns: a pytree."""

Memory = Any
"""What acting lanes carry: the observation, or what the agent remembers of the episode."""

Info = dict[str, Float[Array, ""]]

Observation = Shaped[Array, " lane *observation"]
Frame = Shaped[Array, " lane *frame"]
Action = Shaped[Array, " lane *action"]


class LearnerState(NamedTuple):
    """What a learner carries from step to step.

    Attributes:
      agent: parameters and optimisers.
      intrinsic: of the bonus.
      replay: what was stored; () for an agent that keeps nothing.
      memory: of the lanes that act.
    """

    agent: AgentState
    intrinsic: IntrinsicState
    replay: Any
    memory: Memory


class Acting(NamedTuple):
    """How an agent acts, in training and in evaluation.

    begin(agent, frame[lane]) -> memory of lanes at the beginning of an episode
    act(agent, memory, key, explore) -> (memory, action[lane]); `explore` is static: True acts as
      in training, False takes the mode of the policy. Actions outside of a `Box` are stored as
      they were chosen, and clipped for the environment
    see(memory, frame[lane], begins[lane]) -> memory; `begins` where the frame is an episode's first
    """

    begin: Callable[[AgentState, Frame], Memory]
    act: Callable[[AgentState, Memory, PRNGKeyArray, bool], tuple[Memory, Action]]
    see: Callable[[Memory, Frame, Bool[Array, " lane"]], Memory]


Phase = Callable[
    [LearnerState, Int[Array, ""], PRNGKeyArray],
    tuple[LearnerState, Info],
]
"""(state, agent steps taken, key) -> (state, info): one update of bonus and agent."""


class Learner(NamedTuple):
    """An agent that learns from a replay.

    Attributes:
      spec: the task.
      num_lanes: environments stepped together.
      random_agent_steps: actions, summed over lanes, that are uniformly random at first.
      acting: how it acts.
      init: (key, frame[lane]) -> state; the lanes begin with `frame`.
      restart: (state, frame[lane]) -> state; restarts episodes that could not be restored.
      store: (state, action[lane], step) -> state; the bonus observes the step (of arrays, not
        NumPy's), the replay stores it with the index that the bonus returned, and the memory takes
        in the new frame. The agent stays as it is.
      updates_due: (before, after) -> updates that go with the step that took the number of agent
        steps from `before` to `after`; for integers and traced arrays. It counts steps and does
        not look into the replay: the options must let it hold something to sample by then.
      phases: updates that follow each other in a cycle; update number i takes place i modulo
        their number. All return the same names in `info`.
      learns: the fields of the state that a phase changes.
      learns_while_lanes_step: whether a loop on the host may send the lanes their next actions
        before it makes the updates that are due, so that both take place at once.
    """

    spec: EnvSpec
    num_lanes: int
    random_agent_steps: int
    acting: Acting
    init: Callable[[PRNGKeyArray, Frame], LearnerState]
    restart: Callable[[LearnerState, Frame], LearnerState]
    store: Callable[[LearnerState, Action, LaneStep], LearnerState]
    updates_due: Callable[[Any, Any], Any]
    phases: tuple[Phase, ...]
    learns: tuple[str, ...] = ("agent", "intrinsic")
    learns_while_lanes_step: bool = True


class OnPolicyLearner(NamedTuple):
    """An agent that learns from a rollout and forgets it.

    Attributes:
      spec: the task.
      num_lanes: environments stepped together.
      rollout_length: agent steps per lane and update.
      acting: how it acts.
      init: (key, frame[lane]) -> state.
      learn: (state, rollout, agent_steps, key) -> (state, info); agent steps taken before it.
      forget: state -> (agent, bonus) without episodes that could not be restored.
      observed: memory of the acting lanes -> the observation in it, by default all of it.
    """

    spec: EnvSpec
    num_lanes: int
    rollout_length: int
    acting: Acting
    init: Callable[[PRNGKeyArray, Frame], LearnerState]
    learn: Callable[
        [LearnerState, Rollout, Int[Array, ""], PRNGKeyArray], tuple[LearnerState, Info]
    ]
    forget: Callable[[LearnerState], tuple[AgentState, IntrinsicState]] = lambda state: (
        state.agent,
        state.intrinsic,
    )
    observed: Callable[[Memory], Observation] = lambda memory: memory


def acting_on(
    act: Callable[[AgentState, Observation, PRNGKeyArray, bool], Action], frames: FrameStack
) -> Acting:
    """An agent that acts upon the newest stack of frames, which is all of its memory."""
    return Acting(
        begin=lambda agent, frame: frames.first(frame),
        act=lambda agent, stack, key, explore: (stack, act(agent, stack, key, explore)),
        see=frames.following,
    )


def beginning(
    spec: EnvSpec,
    bonus: IntrinsicReward,
    num_lanes: int,
    agent_init: Callable[[PRNGKeyArray], AgentState],
    acting: Acting,
) -> Callable[[PRNGKeyArray, Frame], LearnerState]:
    """The `init` of a learner, still without a replay."""

    def init(key: PRNGKeyArray, frame: Frame) -> LearnerState:
        agent_key, bonus_key = jax.random.split(key)
        agent = agent_init(agent_key)
        return LearnerState(
            agent=agent,
            intrinsic=bonus.init(bonus_key, spec, num_lanes),
            replay=(),
            memory=acting.begin(agent, frame),
        )

    return init


def on_policy_learner(
    spec: EnvSpec,
    bonus: IntrinsicReward,
    num_lanes: int,
    rollout_length: int,
    agent_init: Callable[[PRNGKeyArray], AgentState],
    acting: Acting,
    learn: Callable[..., tuple[LearnerState, Info]],
    agent_forget: Callable[[AgentState], AgentState] = lambda agent: agent,
) -> OnPolicyLearner:
    """The learner of an agent that keeps no replay.

    Args:
      spec: the task.
      bonus: the intrinsic reward.
      num_lanes: environments stepped together.
      rollout_length: agent steps of each in a rollout.
      agent_init: key -> the agent's state.
      acting: how it acts.
      learn: as of `OnPolicyLearner`.
      agent_forget: the agent's state -> the same without episodes that could not be restored.
    """
    return OnPolicyLearner(
        spec=spec,
        num_lanes=num_lanes,
        rollout_length=rollout_length,
        acting=acting,
        init=beginning(spec, bonus, num_lanes, agent_init, acting),
        learn=learn,
        forget=lambda state: (
            agent_forget(state.agent),
            bonus.restart(state.intrinsic, jnp.ones(num_lanes, bool)),
        ),
    )


OF_THE_LOOP = frozenset(
    {
        *("seed", "env_frames", "wall_seconds"),
        *("state_coverage", "state_entropy", "screens_seen"),
        *("reward_mean", "episodes", "episode_return_mean", "episode_length_mean"),
    }
)
"""Names of what the loops measure, and of columns that every table has."""


def reported(by_agent: Info, by_bonus: Info) -> Info:
    """Merges what the agent and the bonus report of an update.

    Raises:
      ValueError: if both report something of the same name, or one what the loop does.
    """
    taken = {"agent": OF_THE_LOOP, "bonus": OF_THE_LOOP | by_agent.keys()}
    for who, names in (("agent", by_agent.keys()), ("bonus", by_bonus.keys())):
        if both := names & taken[who]:
            others = "the loop" if both <= OF_THE_LOOP else "the agent"
            raise ValueError(
                f"the {who} reports {', '.join(sorted(both))}, as {others} does: give it another "
                "name"
            )
    return {**by_agent, **by_bonus}


def unit_action_dim(spec: EnvSpec, agent: str) -> int:
    """Length of the task's actions, for an agent whose policy ends in a tanh.

    Raises:
      ValueError: they are not vectors of real numbers from -1 to 1.
    """
    space = spec.action_space
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise ValueError(
            f"{agent} needs actions that are a vector of real numbers, which {spec.task} does not "
            "have: choose a task of continuous control, or another agent"
        )
    if (space.low, space.high) != (-1.0, 1.0):
        raise ValueError(
            f"{agent} acts from -1 to 1, but the actions of {spec.task} reach from {space.low:g} "
            f"to {space.high:g}: scale them in the environment, whose action space is then "
            f"Box({space.shape}, -1.0, 1.0)"
        )
    return space.shape[0]
