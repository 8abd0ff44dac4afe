"""The off-policy device loop, for every agent: step, store, act and learn in one `lax.scan`.

The order of the released code: an action is chosen, the agent learns from what is stored so
far, then the action is taken and the transition stored. Each iteration of the scan first executes
the action that the iteration before chose: writing before reading lets XLA update the replay and
the latents in place.
"""

from functools import partial
from typing import Any, Unpack

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.agents.base import Action, Learner, LearnerState, Memory, Phase
from re3_jax.envs.base import DeviceEnv, LaneStep
from re3_jax.training import coverage
from re3_jax.training.device_program import DeviceProgram
from re3_jax.training.seeds import ProgramOptions
from re3_jax.training.train_state import Counters, EpisodeTotals, Metrics, TrainState


def init_state(env: DeviceEnv, learner: Learner, key: PRNGKeyArray) -> TrainState:
    """State at env frame 0; the key decides everything that follows."""
    *keys, reset_key, act_key = jax.random.split(key, 5)
    env_state, frame = jax.vmap(env.reset)(jax.random.split(reset_key, learner.num_lanes))
    state = TrainState.begin(learner, frame, env_state, coverage.none_visited(env), *keys)
    memory, action = choose(learner, state.learner, jnp.int32(0), act_key)
    return state._replace(memory=memory, lanes=state.lanes._replace(action=action))


def train_step(
    env: DeviceEnv, learner: Learner, state: TrainState
) -> tuple[TrainState, tuple[Metrics, EpisodeTotals, Float[Array, ""]]]:
    """One step of all lanes, the choice of the next actions, and the updates that are due.

    Returns:
      The state; sums of the updates' metrics, totals of episodes, the mean reward of the step.
    """
    key, env_key, act_key, learn_key = jax.random.split(state.key, 4)
    lanes, before = state.lanes, state.counters
    assert lanes.action is not None
    with jax.named_scope("env"):
        env_keys = jax.random.split(env_key, learner.num_lanes)
        executed = env.spec.action_space.executed(lanes.action)
        env_state, timestep = jax.vmap(env.step)(lanes.env, executed, env_keys)
    with jax.named_scope("store"):
        step = LaneStep.of_device(timestep, coverage.counted(env, lanes.env))
        learned = learner.store(state.learner, lanes.action, step)
        visited = coverage.visit(state.visited, coverage.number(env, lanes.env))
    counters = before.after(learner.num_lanes, env.spec.action_repeat)
    lanes, totals = lanes.count_step(timestep.reward, timestep.ended)
    with jax.named_scope("act"):
        memory, action = choose(learner, learned, counters.agent_steps, act_key)
    learned = learned._replace(memory=memory)
    num_updates = learner.updates_due(before.agent_steps, counters.agent_steps)
    learned, sums = _learn(learner, learned, counters, num_updates, learn_key)
    following = state.with_learner(learned)._replace(
        lanes=lanes._replace(env=env_state, action=action),
        counters=counters._replace(updates=counters.updates + num_updates),
        key=key,
        visited=visited,
    )
    return following, (sums, totals, jnp.mean(timestep.reward))


def choose(
    learner: Learner, state: LearnerState, agent_steps: Int[Array, ""], key: PRNGKeyArray
) -> tuple[Memory, Action]:
    """The next actions of all lanes, uniformly random at first."""

    def act() -> tuple[Memory, Action]:
        return learner.acting.act(state.agent, state.memory, key, True)

    if learner.random_agent_steps == 0:
        return act()
    return jax.lax.cond(
        agent_steps < learner.random_agent_steps,
        lambda: (state.memory, learner.spec.action_space.sample(key, learner.num_lanes)),
        act,
    )


def _learn(
    learner: Learner,
    state: LearnerState,
    counters: Counters,
    num_updates: Int[Array, ""],
    key: PRNGKeyArray,
) -> tuple[LearnerState, Metrics]:
    """`num_updates` updates; also the sums of their metrics."""
    # A cycle of many phases has few that differ, and each branch is compiled.
    different = list(dict.fromkeys(learner.phases))

    def update(number: Int[Array, ""], carry: tuple[Any, Metrics]) -> tuple[Any, Metrics]:
        parts, sums = carry

        def run(phase: Phase, key: PRNGKeyArray) -> tuple[dict[str, Any], Metrics]:
            after, info = phase(state._replace(**parts), counters.agent_steps, key)
            return {name: getattr(after, name) for name in learner.learns}, info

        place = (counters.updates + number) % len(learner.phases)
        which = jnp.asarray([different.index(phase) for phase in learner.phases])[place]
        phases = [partial(run, phase) for phase in different]
        after, info = jax.lax.switch(which, phases, jax.random.fold_in(key, number))
        return after, jax.tree.map(jnp.add, sums, info)

    # Only what learning changes goes through loop and branches: XLA may copy the rest there.
    parts = {name: getattr(state, name) for name in learner.learns}
    _, info = jax.eval_shape(learner.phases[0], state, counters.agent_steps, key)
    zeros = jax.tree.map(lambda metric: jnp.zeros(metric.shape, metric.dtype), info)
    parts, sums = jax.lax.fori_loop(0, num_updates, update, (parts, zeros))
    return state._replace(**parts), sums


def train_chunk(
    env: DeviceEnv, learner: Learner, chunk_steps: int, state: TrainState
) -> tuple[TrainState, Metrics]:
    """`chunk_steps` steps of all lanes.

    Metrics of updates are means over those of the chunk, NaN if there were none or one of them
    found nothing to draw; episode statistics over the episodes that ended in it, NaN if none did.
    `state_coverage` and `state_entropy` as in `coverage`.
    """
    # Counters agree across seeds; unbatched, `cond` and `switch` stay branches under `vmap`.
    counters = Counters(*(same_for_all_seeds(counter) for counter in state.counters))
    state, (sums, totals, reward) = jax.lax.scan(
        lambda state, _: train_step(env, learner, state),
        state._replace(counters=counters),
        length=chunk_steps,
    )
    num_updates = state.counters.updates - counters.updates
    metrics = jax.tree.map(lambda total: jnp.sum(total) / num_updates, sums)
    return state, {
        **metrics,
        "reward_mean": jnp.mean(reward),
        **totals.metrics(),
        **coverage.metrics(env, state.visited),
    }


@custom_vmap
def same_for_all_seeds(counter: Int[Array, ""]) -> Int[Array, ""]:
    """The counter; under `vmap` the first seed's, unbatched."""
    return counter


@same_for_all_seeds.def_vmap
def _first_of_all(_axis_size: int, in_batched: list[bool], counter: Int[Array, "..."]):
    return (counter[0] if in_batched[0] else counter), False


def make_off_policy_program(
    env: DeviceEnv, learner: Learner, *, chunk_steps: int, **options: Unpack[ProgramOptions]
) -> DeviceProgram:
    """Maps the loop over seeds; one call of `train` makes `chunk_steps` steps of all lanes."""
    init, train = partial(init_state, env, learner), partial(train_chunk, env, learner, chunk_steps)
    env_frames = chunk_steps * learner.num_lanes * env.spec.action_repeat
    return DeviceProgram(env, learner.acting, init, train, env_frames, **options)
