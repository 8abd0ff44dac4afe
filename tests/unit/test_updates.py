"""Updates of the loops: what each is given, whose turn it is, and what is reported of them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.base import Acting, Learner, LearnerState
from re3_jax.envs.base import LaneStep
from re3_jax.training.host_functions import SeedFunctions
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.off_policy import init_state, make_off_policy_program, train_step
from tests.probe_envs import aim
from tests.probe_host_env import EPISODE, DotLanes, spec

PHASES, CHUNK, SEEDS = 4, 4, [1, 2]


def phase(place):
    """An update that reports its number, and whether it is the turn of this phase."""

    def update(state, agent_steps, key):
        number = state.agent
        info = {"number": number, "in_turn": number % PHASES == place}
        info = {name: value.astype(jnp.float32) for name, value in info.items()}
        return state._replace(agent=number + 1), info

    return update


def counting(task):
    """A learner of which all that is learned is the number of updates."""
    still = Acting(
        begin=lambda agent, frame: frame,
        act=lambda agent, memory, key, explore: (memory, jnp.zeros((1, 1))),
        see=lambda memory, frame, begins: memory,
    )
    return Learner(
        spec=task,
        num_lanes=1,
        random_agent_steps=0,
        acting=still,
        init=lambda key, frame: LearnerState(jnp.int32(0), (), (), frame),
        restart=lambda state, frame: state,
        store=lambda state, action, step: state,
        updates_due=lambda before, after: after % 4,
        phases=tuple(phase(place) for place in range(PHASES)),
        learns=("agent",),
    )


def on_host():
    program = HostProgram(
        counting(spec()),
        DotLanes,
        seeds=SEEDS,
        chunk_agent_steps=CHUNK,
        eval_episodes=1,
        eval_greedy=True,
    )
    state = program.init(jnp.asarray(SEEDS, jnp.int32))
    program.compile(state)
    return program, state


def on_device():
    env = aim()
    program = make_off_policy_program(
        env, counting(env.spec), chunk_steps=CHUNK, eval_episodes=1, eval_greedy=True
    )
    return program, program.init(jnp.asarray(SEEDS, jnp.int32))


@pytest.mark.parametrize("begin", [on_host, on_device])
def test_metrics_are_means_over_the_updates_of_a_chunk(begin):
    """Its steps come with 1, 2, 3 and no updates: a mean over steps would be another number."""
    program, state = begin()
    for numbers in (range(6), range(6, 12)):
        state, metrics = program.train(state)
        np.testing.assert_allclose(metrics["number"], [np.mean(numbers)] * len(SEEDS))
        np.testing.assert_array_equal(metrics["in_turn"], [1.0] * len(SEEDS))


def test_on_the_host_each_update_has_its_own_key_and_is_told_the_agent_steps():
    """Two updates go with each of three steps, of two env frames."""

    def reporting(state, agent_steps, key):
        return state, {"agent_steps": agent_steps, "key": jax.random.key_data(key)}

    learner = counting(spec())
    functions, frame = SeedFunctions(learner), jnp.zeros((1, *learner.spec.frame_shape), jnp.uint8)
    state, keys = functions.init(jnp.int32(7), frame), set()
    for agent_steps in (1, 2, 3):
        state, _ = functions.store(state, jnp.zeros((1, 1)), LaneStep.zeros(frame))
        for _ in range(2):
            state, info = functions.learn(reporting, state)
            assert int(info["agent_steps"]) == agent_steps
            keys.add(tuple(np.asarray(info["key"]).tolist()))
    assert len(keys) == int(state.counters.updates) == 6
    assert int(state.counters.env_frames) == 6


def test_on_the_host_so_many_first_actions_are_random():
    sent = []
    program = HostProgram(
        counting(spec())._replace(random_agent_steps=6), DotLanes, seeds=SEEDS,
        chunk_agent_steps=CHUNK, eval_episodes=1, eval_greedy=True,
    )  # fmt: skip
    state = program.init(jnp.asarray(SEEDS, jnp.int32))
    program.compile(state)
    lanes = program.lanes()
    lanes.send = lambda action: (sent.append(np.array(action)), DotLanes.send(lanes, action))[1]
    for _ in range(2):
        state, _ = program.train(state)
    # The policy's own actions are zeros.
    assert [bool(np.all(action)) for action in sent] == 6 * [True] + 2 * [False]
    assert np.unique(sent[:6]).size == 6 * len(SEEDS)


def test_on_the_host_every_step_of_an_evaluation_has_noise_of_its_own():
    sent = []

    class NotedLanes(DotLanes):
        def send(self, action):
            sent.append(np.array(action))
            super().send(action)

    learner = counting(spec())
    noisy = learner.acting._replace(
        act=lambda agent, memory, key, explore: (
            memory,
            jax.random.uniform(key, (len(memory), 1)),
        )
    )
    program = HostProgram(
        learner._replace(acting=noisy), NotedLanes, seeds=SEEDS,
        chunk_agent_steps=CHUNK, eval_episodes=3, eval_greedy=False,
    )  # fmt: skip
    program.start_evaluation(program.init(jnp.asarray(SEEDS, jnp.int32)))()
    assert np.unique(sent).size == EPISODE * len(SEEDS) * 3


def test_on_the_device_each_update_is_told_the_agent_steps():
    """Not the env frames, of which a step has two here."""
    env = aim()
    env = env._replace(spec=dataclasses.replace(env.spec, action_repeat=2))

    def reporting(state, agent_steps, key):
        return state, {"told": agent_steps.astype(jnp.float32)}

    learner = counting(env.spec)._replace(phases=(reporting,))
    program = make_off_policy_program(
        env, learner, chunk_steps=CHUNK, eval_episodes=1, eval_greedy=True
    )
    _, metrics = program.train(program.init(jnp.asarray(SEEDS, jnp.int32)))
    np.testing.assert_allclose(metrics["told"], [np.mean([1, 2, 2, 3, 3, 3])] * len(SEEDS))


def played(env, learner, steps):
    """Targets [step, lane] that the lanes of `aim` showed, and the actions chosen then."""
    states = [init_state(env, learner, jax.random.key(0))]
    step = jax.jit(lambda state: train_step(env, learner, state)[0])
    for _ in range(steps):
        states.append(step(states[-1]))
    return (
        np.stack([state.memory[:, 0] for state in states]),
        np.stack([state.lanes.action[:, 0] for state in states]),
    )


def test_on_the_device_so_many_first_actions_are_random():
    env = aim()
    _, action = played(env, counting(env.spec)._replace(random_agent_steps=6), 7)
    # The policy's own actions are zeros.
    assert action.any(axis=1).tolist() == 6 * [True] + 2 * [False]
    assert np.unique(action[:6]).size == 6


def test_on_the_device_every_step_of_every_lane_has_noise_of_its_own():
    env, lanes = aim(), 3
    learner = counting(env.spec)
    noisy = learner.acting._replace(
        act=lambda agent, memory, key, explore: (memory, jax.random.uniform(key, (lanes, 1)))
    )
    learner = learner._replace(
        num_lanes=lanes,
        acting=noisy,
        store=lambda state, action, step: state._replace(memory=step.frame),
    )
    for drawn in played(env, learner, 7):
        assert np.unique(drawn).size == 8 * lanes
