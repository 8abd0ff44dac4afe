"""An on-policy agent in the host loop: what it learns from, when, and going on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.base import LearnerState, OnPolicyLearner, acting_on
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.learner import make_learner
from re3_jax.agents.rollout import next_values
from re3_jax.intrinsic.base import none
from re3_jax.intrinsic.re3 import RE3Config, from_config
from re3_jax.replay.frame_stack import FrameStack
from re3_jax.training.host_evaluation import lane_seeds
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.host_rollout import whole
from tests.equal import equal_arrays
from tests.probe_host_env import LIMIT, LINE, DotLanes, GreyLanes, grey_spec, spec, watched

LANES, LENGTH = 2, 20


def program_of(learner, make_env, seeds=(1,), chunk=LENGTH, greedy=True):
    return HostProgram(
        learner, make_env, seeds=seeds, chunk_agent_steps=chunk, eval_episodes=3, eval_greedy=greedy
    )


def start(program):
    state = program.init(jnp.asarray(program._seeds, jnp.int32))
    program.compile(state)
    return state


def watching(seen):
    """An agent that acts at random and puts each rollout, with the steps before it, in `seen`."""
    frames = FrameStack(2)

    def init(key, frame):
        return LearnerState((), (), (), frames.first(frame))

    def act(agent, observation, key, explore):
        return jax.random.bernoulli(key, 0.7, (len(observation),)).astype(jnp.int32)

    def learn(state, rollout, agent_steps, key):
        jax.debug.callback(lambda *learned: seen.append(learned), rollout, agent_steps)
        return state, {"loss": jnp.float32(0)}

    return OnPolicyLearner(grey_spec(), LANES, LENGTH, acting_on(act, frames), init, learn)


def test_no_evaluation_begins_with_an_episode_of_training():
    program = program_of(watching([]), GreyLanes)
    start(program)
    trained, evaluated = program.lanes().seeds, lane_seeds(np.array([1]), 0, 3)
    assert len(trained) == LANES and not set(trained.tolist()) & set(evaluated.tolist())


@pytest.mark.parametrize("greedy", [False, True])
def test_an_evaluation_explores_unless_it_is_greedy(greedy):
    """The agent takes action 1 where it explores and 0 elsewhere; in training it explores."""

    def act(agent, observation, key, explore):
        return jnp.full(len(observation), 1 if explore else 0, jnp.int32)

    def sending(lanes, sent):
        send = lanes.send
        lanes.send = lambda action: (sent.append(np.array(action)), send(action))[1]
        return lanes

    frames, sent = FrameStack(2), {}
    learner = watching([])._replace(
        acting=acting_on(act, frames),
        init=lambda key, frame: LearnerState(jnp.zeros(()), (), (), frames.first(frame)),
    )
    program = program_of(
        learner, lambda lanes: sending(GreyLanes(lanes), sent.setdefault(lanes, [])), greedy=greedy
    )
    state = start(program)
    stats = program.start_evaluation(state)()
    program.train(state)
    np.testing.assert_array_equal(np.stack(sent[3])[..., 0], 0 if greedy else 1)
    np.testing.assert_array_equal(np.stack(sent[LANES])[..., 0], 1)
    # Two lives of three steps to the right, or the time limit at the left.
    assert stats.length_mean.tolist() == [LIMIT if greedy else 2 * LINE]


def stacks(lanes, first):
    """What the agent saw, frame by frame: [time, lane, ...], and the same after each step."""
    seen, after, stack = [], [], np.concatenate([first, first], -1)
    for step in lanes.seen:
        seen.append(stack)
        after.append(np.concatenate([stack[..., 1:], step.final_frame], -1))
        begins = (step.task_ended | step.truncated)[:, None, None, None]
        fresh = np.concatenate([step.frame, step.frame], -1)
        stack = np.where(begins, fresh, np.concatenate([stack[..., 1:], step.frame], -1))
    return np.stack(seen), np.stack(after), stack


def test_the_rollout_is_what_the_lanes_did():
    """Three rollouts with lost lives, ended games and time limits in them."""
    learned = []
    program = program_of(watching(learned), GreyLanes)
    state = start(program)
    lanes, first = program.lanes(), program.lanes()._frame()
    for number in range(3):
        state, metrics = program.train(state)
        jax.effects_barrier()
        rollout, agent_steps = jax.tree.map(np.asarray, learned[number])
        observation, following, last = stacks(lanes, first)
        now = slice(number * LENGTH, (number + 1) * LENGTH)
        np.testing.assert_array_equal(rollout.observation, observation[now])
        np.testing.assert_array_equal(rollout.next_observation, following[now])
        np.testing.assert_array_equal(rollout.last_observation, last)
        steps = lanes.seen[now]
        for name in ("reward", "terminated", "truncated"):
            expected = np.stack([getattr(step, name) for step in steps])
            np.testing.assert_array_equal(getattr(rollout, name), expected)
        lost = np.stack([step.task_ended & ~step.terminated for step in steps])
        np.testing.assert_array_equal(rollout.life_lost, lost)
        assert agent_steps == number * LENGTH * LANES
        assert not np.any(rollout.bonus)
        assert np.isfinite(metrics["loss"]).all()
    assert int(state.counters.updates[0]) == 3
    assert all(
        np.any([getattr(step, name) for step in lanes.seen])
        for name in ("terminated", "truncated", "task_ended")
    )


def test_nothing_follows_a_lost_life_and_a_time_limit_is_bootstrapped():
    learned = []
    program = program_of(watching(learned), GreyLanes)
    program.train(start(program))
    jax.effects_barrier()
    rollout = learned[0][0]
    value = jnp.arange((LENGTH + 1) * LANES, dtype=jnp.float32).reshape(LENGTH + 1, LANES)
    following = np.asarray(next_values(rollout, value, jnp.full((LENGTH, LANES), -1.0)))
    lost, ended = np.asarray(rollout.life_lost), np.asarray(rollout.terminated)
    assert lost.any() and np.all(following[lost | ended] == 0)
    assert np.all(following[~(lost | ended | np.asarray(rollout.truncated))] > 0)
    assert np.all(following[np.asarray(rollout.truncated)] == -1)
    # A life that is lost in the step of the time limit: the task has ended for the agent.
    both = rollout._replace(life_lost=rollout.life_lost | rollout.truncated)
    following = np.asarray(next_values(both, value, jnp.full((LENGTH, LANES), -1.0)))
    assert np.all(following[np.asarray(rollout.truncated)] == 0)


def ppo(bonus=None, **changes):
    numbers = {"num_envs": LANES, "rollout_length": LENGTH, "num_epochs": 4, "num_minibatches": 2}
    config = PPOConfig(**numbers | {"hidden_dim": 16, "learning_rate": 3e-3} | changes)
    return make_learner(config, spec(), bonus or none())


def re3():
    config = RE3Config(
        first_neighbour=3,
        last_neighbour=3,
        ring_size=400,
        beta=0.05,
        normalize="running_std",
        log1p=False,
        latent_dim=8,
        num_filters=4,
    )
    return from_config(config)


def to_numpy(state):
    return jax.tree.map(
        lambda leaf: np.asarray(
            jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        ),
        state,
    )


def assert_same(a, b):
    jax.tree.map(equal_arrays, to_numpy(a), to_numpy(b))


@pytest.fixture(scope="module")
def trained():
    """Five chunks of half a rollout with RE3, the state captured after each."""
    program = program_of(ppo(re3()), DotLanes, chunk=LENGTH // 2)
    state, captured, metrics = start(program), [], []
    for _ in range(5):
        state, of_chunk = program.train(state)
        captured.append(jax.tree.map(jnp.copy, program.capture(state)))
        metrics.append(of_chunk)
    return program, captured, metrics


@pytest.mark.parametrize("chunks", [1, 2])
def test_goes_on_bit_for_bit_with_other_lanes(trained, chunks):
    """From the middle of a rollout and from its end."""
    program, captured, _ = trained
    program._env = DotLanes(LANES)
    program._env.reset(np.array([98, 99]))
    state = program.resume(jax.tree.map(jnp.copy, captured[chunks - 1]))
    for _ in range(5 - chunks):
        state, _ = program.train(state)
    assert_same(program.capture(state), captured[-1])


def test_learns_with_each_whole_rollout(trained):
    _, captured, metrics = trained
    assert [int(state.counters.updates[0]) for state in captured] == [0, 1, 1, 2, 2]
    assert [int(state.replay.taken[0]) for state in captured] == [10, 0, 10, 0, 10]
    assert [bool(np.isfinite(of_chunk["loss"])) for of_chunk in metrics] == [0, 1, 0, 1, 0]
    assert int(captured[-1].intrinsic.bonus.ring.num_valid[0]) == 2 * LENGTH * LANES
    before, after = (state.agent.params for state in captured[:2])
    changed = jax.tree.map(lambda new, old: bool(np.any(new != old)), after, before)
    assert all(jax.tree.leaves(changed))


def test_lanes_wait_for_the_update(trained, monkeypatch):
    """The next action is the new policy's."""
    program, captured, _ = trained
    order = []
    (update,) = program.programs.learn
    learns = (lambda state: (order.append("learn"), update(state))[1],)
    monkeypatch.setattr(program, "programs", program.programs._replace(learn=learns))
    monkeypatch.setattr(program, "_env", watched(DotLanes(LANES), order))
    program._env.reset(np.array([1, 2]))
    state = program.resume(jax.tree.map(jnp.copy, captured[0]))
    for _ in range(2):
        state, _ = program.train(state)
    half = ["send", "receive"] * (LENGTH // 2)
    assert order == [*half, "learn", *half]


def test_lanes_get_clipped_actions_and_the_agent_its_own(trained, monkeypatch):
    program, captured, _ = trained
    lanes, sent = DotLanes(LANES), []
    send = lanes.send
    lanes.send = lambda action: (sent.append(np.array(action)), send(action))[1]
    monkeypatch.setattr(program, "_env", lanes)
    lanes.reset(np.array([1, 2]))
    state, _ = program.train(program.resume(jax.tree.map(jnp.copy, captured[0])))
    chosen = np.asarray(state.replay.action)[0, LENGTH // 2 :]
    assert np.abs(chosen).max() > 1
    np.testing.assert_array_equal(np.stack(sent), np.clip(chosen, -1, 1))


def test_a_rollout_cut_by_new_episodes_is_truncated_there(trained, monkeypatch):
    program, captured, _ = trained
    lanes = DotLanes(LANES)
    lanes.reset(np.array([98, 99]))
    lanes.can_restore = False
    monkeypatch.setattr(program, "_env", lanes)
    state = program.resume(jax.tree.map(jnp.copy, captured[0]))
    truncated = np.asarray(state.replay.step.truncated)[0, LENGTH // 2 - 1]
    assert truncated.all() and not lanes.steps.any()
    begun = np.asarray(state.memory)[0]
    state, _ = program.train(state)
    assert int(state.counters.updates[0]) == 1
    stored = jax.tree.map(lambda leaf: leaf[0], state.replay)._replace(
        first=captured[0].replay.first[0]
    )
    rollout = whole(ppo(re3()), stored)
    np.testing.assert_array_equal(rollout.observation[LENGTH // 2], begun)


@pytest.mark.parametrize("chunks", [1, 2])
def test_episodes_that_are_not_restored_are_forgotten_between_rollouts_only(trained, chunks):
    """In the middle of a rollout, the bonus has still to see the steps before the cut."""
    captured = trained[1][chunks - 1]
    learner = ppo(re3())._replace(
        forget=lambda state: jax.tree.map(jnp.zeros_like, (state.agent, state.intrinsic))
    )
    program = program_of(learner, DotLanes)
    lanes = DotLanes(LANES)
    lanes.reset(np.array([98, 99]))
    lanes.can_restore = False
    program._env = lanes
    begun = program.resume(jax.tree.map(jnp.copy, captured))
    expected = captured.agent, captured.intrinsic
    if chunks != 1:
        expected = jax.tree.map(jnp.zeros_like, expected)
    assert_same((begun.agent, begun.intrinsic), expected)


def test_the_bonus_forgets_episodes_that_are_not_restored():
    bonus = none()._replace(
        init=lambda key, spec, num_lanes: jnp.ones(num_lanes),
        restart=lambda state, lanes: jnp.where(lanes, 0.0, state),
    )
    learner = ppo(bonus)
    frame = jnp.zeros((LANES, *learner.spec.observation_shape))
    _, forgotten = learner.forget(learner.init(jax.random.key(0), frame))
    np.testing.assert_array_equal(forgotten, np.zeros(LANES))


def test_ppos_sums_of_rewards_end_with_episodes_that_are_not_restored():
    """The bonus's go on, as they do from one episode to the next."""
    learner = ppo(re3(), scaled_rewards="all", intrinsic_value_head=True)
    state = learner.init(jax.random.key(0), jnp.zeros((LANES, *learner.spec.observation_shape)))
    scales = jax.tree.map(lambda leaf: leaf + 3, state.agent.reward_scales)
    state = state._replace(agent=state.agent._replace(reward_scales=scales))
    agent, _ = learner.forget(state)
    stats, sums = agent.reward_scales.extrinsic
    np.testing.assert_array_equal(sums, np.zeros(LANES))
    assert_same((stats, agent.reward_scales.intrinsic), (scales.extrinsic.stats, scales.intrinsic))
    assert_same(agent.params, state.agent.params)


@pytest.mark.slow
def test_ppo_learns_from_pixels():
    """To move the dot to the right end, with a bonus and without."""
    for bonus in (none(), re3()):
        learner = ppo(bonus, num_envs=8, learning_rate=1e-2, entropy_coef=0.0)
        program = program_of(learner, DotLanes, chunk=5 * LENGTH)
        state = start(program)
        assert program.start_evaluation(state)().return_mean[0] < 7
        for _ in range(6):
            state, metrics = program.train(state)
        assert metrics["reward_mean"][0] > 0.8
        assert program.start_evaluation(state)().return_mean[0] > 8
