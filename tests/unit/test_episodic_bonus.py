"""An episodic bonus counts states per lane and clears its counts where an episode ends.

In both loops, with several lanes, it equals a NumPy model that replays the steps.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.agents.a2c import learner as a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.rainbow import learner as rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.intrinsic import chain, scale_by_schedule
from re3_jax.intrinsic.base import IntrinsicReward, one_by_one
from re3_jax.training import off_policy, on_policy
from re3_jax.training.host_loop import HostProgram
from tests.probe_envs import corridor
from tests.probe_host_env import LINE, GreyLanes, grey_spec

LENGTH, LANES, CAPACITY = 3, 3, 150

RAINBOW = RainbowConfig(
    torso="mlp", hidden_dim=8, num_atoms=3, n_steps=1, batch_size=4, num_envs=LANES,
    replay_capacity=CAPACITY, initial_agent_steps=30, agent_steps_per_update=3,
)  # fmt: skip


def episodic_counts(number_of, num_states: int) -> IntrinsicReward:
    """1 / sqrt(visits of o_t in its episode so far, this one included), stored in a ring."""

    def init(key, spec, num_lanes):
        counts = jnp.zeros((num_lanes, num_states), jnp.int32)
        return counts, jnp.zeros(CAPACITY), jnp.int32(0)

    def observe(state, step):
        counts, bonuses, cursor = state
        lane, number = jnp.arange(len(counts)), number_of(step.observation)
        counts = counts.at[lane, number].add(1)
        row = (cursor + lane) % CAPACITY
        bonuses = bonuses.at[row].set(counts[lane, number] ** -0.5)
        ended = step.terminated | step.truncated
        counts = jnp.where(ended[:, None], 0, counts)
        return (counts, bonuses, (cursor + len(counts)) % CAPACITY), row

    def reward(state, batch):
        return state[1][batch.bonus_index], state, {}

    return IntrinsicReward(
        init, observe, reward, lambda state, batch, key: (state, {}), one_by_one(observe)
    )


def expected_bonuses(numbers, ended):
    """The model: [time, lane] state numbers and ends of episodes -> [time, lane] bonuses."""
    visits = np.zeros(numbers.shape)
    for lane in range(numbers.shape[1]):
        seen = []
        for t, number in enumerate(numbers[:, lane]):
            seen.append(number)
            visits[t, lane] = seen.count(number)
            if ended[t, lane]:
                seen = []
    assert ended.any() and visits.max() > 1
    return visits**-0.5


def test_on_policy_with_transforms_around_it(monkeypatch):
    """A rollout is observed step by step, although it is rewarded as one batch."""
    env = corridor(LENGTH)
    counts = episodic_counts(lambda observation: jnp.argmax(observation, axis=1), LENGTH + 1)
    bonus = chain(counts, scale_by_schedule(lambda agent_steps: jnp.float32(0.5)))
    config = A2CConfig(num_envs=LANES, rollout_length=7, hidden_dim=8)
    agent = a2c.make_a2c(config, env.spec)
    agent = agent._replace(update=lambda state, batch: (state, {"rollout": batch}))
    monkeypatch.setattr(a2c, "make_a2c", lambda config, spec: agent)
    learner = a2c.make_learner(config, env.spec, bonus)
    init = jax.jit(lambda key: on_policy.init_state(env, learner, key))
    state, rollouts = init(jax.random.key(0)), []
    update = jax.jit(lambda state: on_policy.train_update(env, learner, state))
    for _ in range(5):
        state, (metrics, _) = update(state)
        rollouts.append(jax.device_get(metrics["rollout"]))
    whole = jax.tree.map(lambda *parts: np.concatenate(parts), *rollouts)
    numbers = whole.observation.argmax(axis=-1)
    expected = expected_bonuses(numbers, whole.terminated | whole.truncated)
    np.testing.assert_allclose(whole.bonus, 0.5 * expected, rtol=1e-6)


def test_off_policy_on_the_device():
    """The stored index finds what the bonus stored for the same step."""
    env = corridor(LENGTH)
    bonus = episodic_counts(lambda observation: jnp.argmax(observation, axis=1), LENGTH + 1)
    learner = rainbow.make_learner(RAINBOW, env.spec, bonus)
    init = jax.jit(lambda key: off_policy.init_state(env, learner, key))
    state = init(jax.random.key(0))
    step = jax.jit(lambda state: off_policy.train_step(env, learner, state)[0])
    steps = CAPACITY // LANES
    for _ in range(steps):
        state = step(state)
    replay, bonuses = jax.device_get((state.replay, state.intrinsic[1]))
    numbers = replay.frames.all()[:CAPACITY].reshape(steps, LANES, -1).argmax(axis=-1)
    expected = expected_bonuses(numbers, replay.terminated | replay.truncated)
    np.testing.assert_allclose(bonuses[replay.bonus_index], expected, rtol=1e-6)


def test_off_policy_on_the_host():
    """Two seeds of three lanes; the engine says where episodes end."""
    config = dataclasses.replace(RAINBOW, torso="data_efficient")
    spec, lanes = grey_spec(), []
    bonus = episodic_counts(lambda stack: jnp.argmax(stack[:, 0, :, -1], axis=1) // 8, LINE + 1)
    learner = rainbow.make_learner(config, spec, bonus)

    def make_env(number):
        lanes.append(GreyLanes(number))
        return lanes[-1]

    steps = CAPACITY // LANES
    program = HostProgram(
        learner,
        make_env,
        seeds=[1, 2],
        chunk_agent_steps=steps,
        eval_episodes=1,
        eval_greedy=True,
    )
    state = program.init(jnp.array([1, 2], jnp.int32))
    program.compile(state)
    state, _ = program.train(state)
    program.close()
    replay, bonuses = jax.device_get((state.replay, state.intrinsic[1]))
    ended = np.stack([step.terminated | step.truncated for step in lanes[0].seen])
    for seed in range(2):
        own = slice(seed * LANES, (seed + 1) * LANES)
        shown = replay.frames.all()[seed, : ended[:, own].size, 0, :, 0]
        numbers = shown.reshape(-1, LANES, shown.shape[-1]).argmax(axis=-1) // 8
        expected = expected_bonuses(numbers, ended[:, own])
        np.testing.assert_allclose(bonuses[seed][replay.bonus_index[seed]], expected, rtol=1e-6)
