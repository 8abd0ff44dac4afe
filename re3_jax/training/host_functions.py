"""What the device computes in one step of the host loop, for one seed: pure functions.

`host_loop` maps them over seeds and calls them in turn with the lanes of the host.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.agents.base import Action, Info, Learner, Memory, Phase
from re3_jax.envs.base import LaneStep
from re3_jax.training import screens
from re3_jax.training.train_state import EpisodeTotals, Lanes, TrainState


class SeedFunctions:
    """What the programs compute for one seed: pure functions around a learner."""

    def __init__(self, learner: Learner):
        """`learner` is made for a task on the host."""
        self.learner = learner

    def init(self, seed: Int[Array, ""], frame: Array) -> TrainState:
        """State at env frame 0, the lanes showing `frame`."""
        is_grey = self.learner.spec.is_image and frame.shape[-1] == 1
        visited = screens.see(screens.none_seen(), frame[..., 0]) if is_grey else None
        keys = jax.random.split(jax.random.key(seed), 3)
        return TrainState.begin(self.learner, frame, {}, visited, *keys)

    def restart(self, state: TrainState, frame: Array) -> TrainState:
        """New episodes in place of those that could not be restored."""
        lanes = Lanes.begin(self.learner.num_lanes, {})
        learned = self.learner.restart(state.learner, frame)
        return state.with_learner(learned)._replace(lanes=lanes)

    def act(self, state: TrainState) -> tuple[Memory, Action]:
        """The policy's exploring actions."""
        key = step_key(state.key, state.counters.agent_steps, 0)
        return self.learner.acting.act(state.agent, state.memory, key, True)

    def act_randomly(self, state: TrainState) -> tuple[Memory, Action]:
        """Uniformly random actions."""
        key = step_key(state.key, state.counters.agent_steps, 0)
        return state.memory, self.learner.spec.action_space.sample(key, self.learner.num_lanes)

    def learn(self, phase: Phase, state: TrainState) -> tuple[TrainState, Info]:
        """One update."""
        counters = state.counters
        key = jax.random.fold_in(step_key(state.key, counters.agent_steps, 1), counters.updates)
        learned, info = phase(state.learner, counters.agent_steps, key)
        counters = counters._replace(updates=counters.updates + 1)
        return state.with_learner(learned)._replace(counters=counters), info

    def store(
        self, state: TrainState, action: Action, step: LaneStep
    ) -> tuple[TrainState, tuple[EpisodeTotals, Float[Array, ""]]]:
        """Stores a step of all lanes; also totals of episodes and the mean reward."""
        step = jax.tree.map(jnp.asarray, step)
        learned = self.learner.store(state.learner, action, step)
        lanes, totals = state.lanes.count_step(step.reward, step.ended)
        counters = state.counters.after(self.learner.num_lanes, self.learner.spec.action_repeat)
        visited = state.visited
        if visited is not None:
            visited = screens.see(visited, step.frame[..., 0])
        state = state.with_learner(learned)
        state = state._replace(lanes=lanes, counters=counters, visited=visited)
        return state, (jax.tree.map(jnp.sum, totals), jnp.mean(step.reward))


def step_key(key: PRNGKeyArray, agent_steps: Int[Array, ""], stream: int) -> PRNGKeyArray:
    """A key of its own for each step, so that no key has to pass from program to program."""
    return jax.random.fold_in(jax.random.fold_in(key, agent_steps), stream)
