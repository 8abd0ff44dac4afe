"""What a recurrent policy remembers: the hidden state of a GRU in each lane."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from re3_jax.agents.base import Acting, Action, AgentState, Frame, Observation
from re3_jax.agents.rollout import Rollout
from re3_jax.replay.frame_stack import FrameStack

Hidden = Float[Array, "lane hidden"]


class Belief(NamedTuple):
    """The memory of acting lanes.

    Attributes:
      observation: the newest stack of frames, which the GRU has not seen yet.
      hidden: what it made of those before; zeros at the beginning of an episode.
    """

    observation: Observation
    hidden: Hidden


class Past(NamedTuple):
    """What a GRU knows before a sequence, and where it forgets.

    Attributes:
      hidden: of each lane, before its first observation.
      begins: whether an observation is the first of its episode. That of the sequence needs no
        mark, because its hidden state is 0 already.
    """

    hidden: Hidden
    begins: Bool[Array, "time lane"]


def past_of(rollout: Rollout) -> Past:
    """The past of a rollout, from what its lanes carried then."""
    before: Belief = rollout.first_memory
    first = jnp.zeros_like(rollout.done[:1])
    return Past(before.hidden, jnp.concatenate([first, rollout.done[:-1]]))


def acting_with_memory(
    act: Callable[..., tuple[Hidden, Action]],
    frames: FrameStack,
    hidden_dim: int,
) -> Acting:
    """An agent whose GRU sees each observation once, and forgets where an episode begins.

    Args:
      act: (agent, observation, hidden state, key, explore) -> (hidden state after the observation,
        action).
      frames: of an observation.
      hidden_dim: size of the hidden state.
    """

    def begin(agent: AgentState, frame: Frame) -> Belief:
        del agent
        return Belief(frames.first(frame), jnp.zeros((frame.shape[0], hidden_dim)))

    def step(
        agent: AgentState, belief: Belief, key: PRNGKeyArray, explore: bool
    ) -> tuple[Belief, Action]:
        hidden, action = act(agent, belief.observation, belief.hidden, key, explore)
        return belief._replace(hidden=hidden), action

    def see(belief: Belief, frame: Frame, begins: Bool[Array, " lane"]) -> Belief:
        observation = frames.following(belief.observation, frame, begins)
        return Belief(observation, jnp.where(begins[:, None], 0.0, belief.hidden))

    return Acting(begin, step, see)
