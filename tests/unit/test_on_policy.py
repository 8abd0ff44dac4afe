"""The on-policy loop against a plain Python loop over the same environment."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from re3_jax.agents.a2c import learner as a2c_learner
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.a2c.learner import make_learner
from re3_jax.agents.base import Acting, LearnerState, OnPolicyLearner
from re3_jax.envs.base import CountableStates
from re3_jax.envs.endless import EndlessEpisode
from re3_jax.intrinsic.base import IntrinsicReward, none
from re3_jax.training import coverage
from re3_jax.training.evaluate import evaluate
from re3_jax.training.on_policy import init_state, make_on_policy_program, roll_out, train_update
from re3_jax.training.play import play
from tests.equal import equal_arrays
from tests.probe_envs import aim, corridor, countdown, recall

CONFIG = A2CConfig(num_envs=3, rollout_length=4, hidden_dim=8)


def make(env, **changes):
    options = {"chunk_updates": 5, "eval_episodes": 7, "eval_greedy": False} | changes
    return make_on_policy_program(env, make_learner(CONFIG, env.spec, none()), **options)


@pytest.fixture(scope="module")
def program():
    return make(countdown(5))


def as_numpy(tree):
    def convert(leaf):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)

    return jax.tree.map(convert, tree)


@pytest.mark.parametrize("truncates", [False, True])
def test_rollout_equals_a_python_loop(truncates):
    env = countdown(5, truncates)
    learner = make_learner(CONFIG, env.spec, none())
    state = jax.jit(lambda key: init_state(env, learner, key))(jax.random.key(3))
    roll = jax.jit(lambda state, key: roll_out(env, learner, state, key))
    episodes = returns = lengths = 0.0
    so_far = np.zeros(3)
    for chunk in range(4):
        env_state = np.asarray(state.lanes.env)
        state, rollout, totals = roll(state, jax.random.key(chunk))
        assert state.visited is None
        rollout = jax.device_get(rollout)
        for t in range(CONFIG.rollout_length):
            for lane in range(3):
                steps = env_state[lane]
                assert np.argmax(rollout.observation[t, lane]) == steps
                reward = float(rollout.action[t, lane])
                so_far[lane] += reward
                ends = steps + 1 == 5
                assert float(rollout.reward[t, lane]) == reward
                assert bool(rollout.terminated[t, lane]) == (ends and not truncates)
                assert bool(rollout.truncated[t, lane]) == (ends and truncates)
                assert np.argmax(rollout.next_observation[t, lane]) == steps + 1
                if ends:
                    episodes, returns, lengths = episodes + 1, returns + so_far[lane], lengths + 5
                    so_far[lane] = 0
                env_state = env_state.copy()
                env_state[lane] = 0 if ends else steps + 1
        np.testing.assert_array_equal(np.asarray(state.lanes.env), env_state)
        np.testing.assert_array_equal(rollout.last_observation, state.memory)
        np.testing.assert_array_equal(np.argmax(state.memory, axis=-1), env_state)
        np.testing.assert_allclose(state.lanes.episode_return, so_far)
        np.testing.assert_allclose(
            [totals.episodes, totals.returns, totals.lengths], [episodes, returns, lengths]
        )
        episodes = returns = lengths = 0.0


def test_counters_metrics_and_a_single_compilation(program):
    state = program.init(jnp.array([1, 2]))
    for chunk in range(1, 4):
        donated = jax.tree.leaves(state.agent)[0]
        state, metrics = program.train(state)
        assert donated.is_deleted()
        np.testing.assert_array_equal(state.counters.updates, [5 * chunk] * 2)
        np.testing.assert_array_equal(state.counters.agent_steps, [60 * chunk] * 2)
        np.testing.assert_array_equal(state.counters.env_frames, [60 * chunk] * 2)
        # 60 agent steps in 3 lanes of 20 steps, episodes of 5: four a lane.
        np.testing.assert_array_equal(metrics["episodes"], [12.0, 12.0])
        np.testing.assert_allclose(metrics["episode_length_mean"], [5.0, 5.0])
        np.testing.assert_allclose(
            metrics["episode_return_mean"], 5 * metrics["reward_mean"], rtol=1e-6
        )
    assert program.env_frames_per_chunk == 60
    assert program.train._cache_size() == 1


def test_the_agent_gets_the_bonus_of_its_own_rollout(monkeypatch):
    """Observed before rewarded, in the order of the rollout, with the agent steps so far."""
    states = CountableStates(lambda steps: steps, num_states=6, num_reachable=5)
    env = countdown(5)._replace(states=states)
    stored = jnp.zeros((0, 6))

    def observe(stored, step):
        # The state that was acted in, not the one that the action led to.
        np.testing.assert_array_equal(step.state_number, jnp.argmax(step.observation, -1))
        rows = stored.shape[0] + jnp.arange(step.observation.shape[0])
        return jnp.concatenate([stored, step.observation]), rows

    def reward(stored, batch):
        np.testing.assert_array_equal(stored[batch.bonus_index], batch.observation)
        place = jnp.arange(batch.observation.shape[0], dtype=jnp.float32)
        return (
            1000.0 * batch.agent_steps + place,
            stored,
            {"rewarded_frames": jnp.float32(place.size)},
        )

    def update_bonus(stored, batch, key):
        # One-hot steps taken: the next observation is one step further than the observation.
        steps, after = (jnp.argmax(o, -1) for o in (batch.observation, batch.next_observation))
        np.testing.assert_array_equal(after, steps + 1)
        return stored, {"rewarded_actions": batch.action.sum()}

    bonus = IntrinsicReward(lambda key, spec, num_lanes: stored, observe, reward, update_bonus)
    agent = a2c_learner.make_a2c(CONFIG, env.spec)
    agent = agent._replace(update=lambda state, batch: (state, {"rollout": batch}))
    monkeypatch.setattr(a2c_learner, "make_a2c", lambda config, spec: agent)
    learner = make_learner(CONFIG, env.spec, bonus)
    state = jax.jit(lambda key: init_state(env, learner, key))(jax.random.key(0))
    for number in range(2):
        state, (metrics, _) = train_update(env, learner, state)
        rollout = metrics["rollout"]
        np.testing.assert_array_equal(
            rollout.bonus, 12_000.0 * number + np.arange(12.0).reshape(4, 3)
        )
        assert metrics["rewarded_frames"] == 12
        assert metrics["rewarded_actions"] == rollout.action.sum() == rollout.reward.sum()
        np.testing.assert_allclose(
            metrics["intrinsic_reward_mean"], 12_000.0 * number + 5.5, rtol=1e-6
        )
        np.testing.assert_array_equal(state.intrinsic[-12:], rollout.observation.reshape(12, 6))


def test_coverage_and_entropy_are_of_the_states_acted_in_since_the_run_began(program):
    """Steps 0 to 4 are acted in, 5 only ever ends an episode; a rollout is 4 of them in 3 lanes."""
    without = program.train(program.init(jnp.array([1, 2])))[1]
    assert not without.keys() & {"state_coverage", "state_entropy"}
    states = CountableStates(lambda steps: steps, num_states=6, num_reachable=5)
    env = countdown(5)._replace(states=states)
    program = make(env, chunk_updates=1)
    state = program.init(jnp.array([1, 2]))
    assert not np.any(state.visited)
    for visits in ([3, 3, 3, 3, 0, 0], [6, 6, 6, 3, 3, 0], [9, 9, 6, 6, 6, 0]):
        state, metrics = program.train(state)
        np.testing.assert_array_equal(state.visited, [visits] * 2)
        coverage, entropy = np.count_nonzero(visits) / 5, stats.entropy(visits)
        np.testing.assert_allclose(metrics["state_coverage"], [coverage] * 2, rtol=1e-6)
        np.testing.assert_allclose(metrics["state_entropy"], [entropy] * 2, rtol=1e-6)


def test_a_single_visit_covers_a_state():
    states = CountableStates(lambda steps: steps, num_states=6, num_reachable=5)
    visits = jnp.array([1, 2, 0, 0, 1, 0])
    found = coverage.metrics(countdown(5)._replace(states=states), visits)
    np.testing.assert_allclose(found["state_coverage"], 3 / 5, rtol=1e-6)


def test_the_entropy_of_more_visits_than_int32_counts():
    states = CountableStates(lambda steps: steps, num_states=6, num_reachable=5)
    visits = np.array([2**30, 2**30, 2**30, 2**30, 0, 0], np.int32)
    found = coverage.metrics(countdown(5)._replace(states=states), jnp.asarray(visits))
    np.testing.assert_allclose(found["state_entropy"], stats.entropy(visits), rtol=1e-6)


@pytest.mark.slow
def test_a_seed_among_others_equals_the_seed_alone():
    env = recall()
    together = make(env)
    alone = make(env)
    many = together.init(jnp.array([4, 9, 2]))
    single = alone.init(jnp.array([9]))
    for _ in range(2):
        many, _ = together.train(many)
        single, _ = alone.train(single)
    picked = jax.tree.map(lambda leaf: leaf[1:2], as_numpy(many))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
        picked,
        as_numpy(single),
    )
    kernels = many.agent.params["params"]["actor"]["Dense_0"]["kernel"]
    assert not np.allclose(kernels[0], kernels[1])


def test_the_same_seed_gives_the_same_bits(program):
    states = []
    for _ in range(2):
        state = program.init(jnp.array([4, 9]))
        states.append(as_numpy(program.train(state)[0]))
    jax.tree.map(equal_arrays, *states)


@pytest.mark.parametrize("length", [6, 10**9])
def test_an_evaluation_refuses_episodes_longer_than_the_task_says(length):
    """A program that waits for their end could not be interrupted."""
    env = countdown(6)
    program = make(env)
    state = program.init(jnp.array([1, 2]))
    np.testing.assert_allclose(program.start_evaluation(state)().length_mean, 6, rtol=1e-6)

    def step(steps, action, key):
        after, found = env.step(steps, action, key)
        ends = steps + 1 >= length
        return jnp.where(ends, after, steps + 1), found._replace(terminated=ends)

    spec = dataclasses.replace(env.spec, max_agent_steps=5)
    wrong = make(env._replace(spec=spec, step=step))
    with pytest.raises(EndlessEpisode, match="probe:countdown .* than its max_agent_steps of 5: "):
        wrong.start_evaluation(wrong.init(jnp.array([1, 2])))()


def test_evaluation_counts_one_whole_episode_a_lane_and_repeats_itself():
    program = make(countdown(6))
    state = program.init(jnp.array([1, 2]))
    first, second = program.evaluate(state), program.evaluate(state)
    jax.tree.map(equal_arrays, first, second)
    np.testing.assert_array_equal(first.episodes, [7, 7])
    np.testing.assert_allclose(first.length_mean, [6.0, 6.0], rtol=1e-6)
    assert np.all((0 <= np.asarray(first.return_mean)) & (np.asarray(first.return_mean) <= 6))
    greedy = make(countdown(6), eval_greedy=True).evaluate(state)
    # The mode is a function of the observation, so all lanes earn the same.
    np.testing.assert_allclose(greedy.return_std, [0.0, 0.0], atol=1e-5)
    np.testing.assert_allclose(greedy.return_mean, np.round(greedy.return_mean), rtol=1e-6)


def test_evaluation_of_several_seeds_equals_that_of_each_alone():
    """Also where the episodes of one seed go on after another's have ended."""
    seeds, env = [4, 9, 2], corridor(4)
    many = make(env)
    together = many.evaluate(many.init(jnp.array(seeds)))
    assert len(set(np.asarray(together.length_mean))) == len(seeds)
    alone = make(env)
    for row, seed in enumerate(seeds):
        single = alone.evaluate(alone.init(jnp.array([seed])))
        for found, expected in zip(together, single, strict=True):
            np.testing.assert_array_equal(found[row], expected[0])


def test_actions_beyond_their_bounds_are_executed_within_them():
    """In evaluations and where an agent is only looked at."""
    env, lanes = aim(), 3

    def outcomes(chosen):
        acting = Acting(
            begin=lambda agent, frame: (),
            act=lambda agent, memory, key, explore: ((), jnp.full((lanes, 1), chosen)),
            see=lambda memory, frame, begins: (),
        )
        told = env._replace(step=lambda *given: told_of(env.step(*given)))
        played = play(told, acting, (), jax.random.key(0), lanes=lanes, steps=4).observation
        found = evaluate(env, acting, (), jax.random.key(0), episodes=lanes, greedy=False)
        return found.return_mean, played

    def told_of(after):
        """What is seen next begins with the reward."""
        state, step = after
        return state, step._replace(observation=step.observation.at[0].set(step.reward))

    jax.tree.map(np.testing.assert_array_equal, outcomes(3.0), outcomes(1.0))


def test_evaluation_leaves_out_what_follows_a_lanes_first_episode():
    """Each lane earns 0 or 1 in its first episode, and more in those that follow."""
    env = corridor(2)
    acting = Acting(
        begin=lambda agent, frame: (),
        act=lambda agent, memory, key, explore: ((), jax.random.randint(key, (40,), 0, 2)),
        see=lambda memory, frame, begins: (),
    )
    play = jax.jit(lambda key: evaluate(env, acting, (), key, episodes=40, greedy=False))
    stats = play(jax.random.key(0))
    mean = float(stats.return_mean)
    assert 0.5 < mean < 1
    np.testing.assert_allclose(stats.return_std**2, mean * (1 - mean), rtol=1e-5)


def test_an_update_is_told_the_agent_steps_before_its_rollout():
    """Not the env frames, of which a step has two here."""
    env = countdown(5)
    env = env._replace(spec=dataclasses.replace(env.spec, action_repeat=2))
    still = Acting(
        begin=lambda agent, frame: frame,
        act=lambda agent, memory, key, explore: (memory, jnp.zeros(3, jnp.int32)),
        see=lambda memory, frame, begins: frame,
    )
    learner = OnPolicyLearner(
        env.spec, 3, 4, still,
        init=lambda key, frame: LearnerState((), (), (), frame),
        learn=lambda state, rollout, agent_steps, key: (state, {"told": agent_steps}),
    )  # fmt: skip
    state = init_state(env, learner, jax.random.key(0))
    update = jax.jit(lambda state: train_update(env, learner, state))
    for number in range(2):
        state, (metrics, _) = update(state)
        assert metrics["told"] == 12 * number


def test_every_step_of_every_lane_has_noise_of_its_own():
    """That of the policy and of the environment, within a rollout and from one to the next."""
    env, lanes, length = aim(3), 3, 4
    noisy = Acting(
        begin=lambda agent, frame: frame,
        act=lambda agent, memory, key, explore: (memory, jax.random.uniform(key, (lanes, 1))),
        see=lambda memory, frame, begins: frame,
    )
    learner = OnPolicyLearner(
        env.spec, lanes, length, noisy,
        init=lambda key, frame: LearnerState((), (), (), frame),
        learn=lambda state, rollout, agent_steps, key: (state, {"rollout": rollout}),
    )  # fmt: skip
    state, rollouts = init_state(env, learner, jax.random.key(0)), []
    update = jax.jit(lambda state: train_update(env, learner, state))
    for _ in range(2):
        state, (metrics, _) = update(state)
        rollouts.append(metrics["rollout"])
    for name in ("observation", "action"):
        drawn = np.stack([getattr(rollout, name)[..., 0] for rollout in rollouts])
        assert np.unique(drawn).size == 2 * length * lanes


def test_episodes_of_an_evaluation_begin_differently():
    still = Acting(
        begin=lambda agent, frame: (),
        act=lambda agent, memory, key, explore: ((), jnp.zeros(40, jnp.int32)),
        see=lambda memory, frame, begins: (),
    )
    found = evaluate(recall(), still, (), jax.random.key(0), episodes=40, greedy=True)
    assert 0 < found.return_mean < 1
