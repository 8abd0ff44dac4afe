"""Training without the task reward: it changes what is recorded but not what is learned."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.a2c import learner as a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.rainbow import learner as rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.reward_free import reward_free
from re3_jax.agents.sac import learner as sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs import registry
from re3_jax.envs.base import DeviceEnv, LaneStep
from re3_jax.intrinsic import base, transforms
from re3_jax.intrinsic.base import IntrinsicBatch
from re3_jax.intrinsic.re3 import RE3Config, from_config, re3
from re3_jax.runs.build import make_bonus, make_learner
from re3_jax.runs.options import parse
from re3_jax.training.off_policy import make_off_policy_program
from re3_jax.training.on_policy import make_on_policy_program
from tests.probe_envs import aim, countdown

FACTOR = 100.0
SEEDS = jnp.arange(1, dtype=jnp.int32)
RE3 = RE3Config(ring_size=64, beta=1.0, latent_dim=8)
A2C = A2CConfig(num_envs=2, rollout_length=4, hidden_dim=8)
SAC = SACConfig(
    augmentation="none",
    hidden_dim=8,
    batch_size=8,
    replay_capacity=64,
    initial_agent_steps=10,
    # One kind of update compiles in less time than two.
    actor_every=1,
    target_every=1,
)
RAINBOW = RainbowConfig(
    torso="mlp",
    hidden_dim=8,
    num_atoms=5,
    n_steps=1,
    batch_size=8,
    replay_capacity=64,
    initial_agent_steps=10,
    agent_steps_per_update=1,
    num_envs=1,
    noisy=False,
    epsilon=0.5,
)
EVALUATION = {"eval_episodes": 2, "eval_greedy": False}


def paying(env):
    """The same environment; the first field of its state is a factor on its rewards."""

    def reset(key):
        state, observation = env.reset(key)
        return (jnp.float32(1), state), observation

    def step(state, action, key):
        after, timestep = env.step(state[1], action, key)
        return (state[0], after), timestep._replace(reward=state[0] * timestep.reward)

    return DeviceEnv(env.spec, reset, step)


def on_policy():
    env = paying(countdown(4))
    learner = reward_free(a2c.make_learner(A2C, env.spec, from_config(RE3)))
    return make_on_policy_program(env, learner, chunk_updates=5, **EVALUATION)


def off_policy():
    env = paying(aim(4))
    learner = reward_free(sac.make_learner(SAC, env.spec, from_config(RE3)))
    return make_off_policy_program(env, learner, chunk_steps=20, **EVALUATION)


def prioritised():
    env = paying(countdown(4))
    learner = reward_free(rainbow.make_learner(RAINBOW, env.spec, from_config(RE3)))
    return make_off_policy_program(env, learner, chunk_steps=20, **EVALUATION)


def with_factor(lanes, factor):
    env = lanes.env[0] * factor, lanes.env[1]
    return lanes._replace(env=env)


@pytest.mark.parametrize("make", [on_policy, off_policy, prioritised])
def test_the_task_reward_is_recorded_and_teaches_nothing(make):
    program, found = make(), []
    for factor in (1.0, FACTOR):
        state = program.init(SEEDS)
        before = jax.tree.map(np.asarray, state.agent)
        state = state._replace(lanes=with_factor(state.lanes, factor))
        state, metrics = program.train(state)
        found.append((jax.device_get(state.agent), jax.device_get(metrics)))
    (learned, metrics), (learned_more, metrics_more) = found
    pairs = zip(*(jax.tree.leaves(state) for state in (learned, learned_more)), strict=True)
    assert all(ours.tobytes() == theirs.tobytes() for ours, theirs in pairs)
    pairs = zip(*(jax.tree.leaves(state) for state in (learned, before)), strict=True)
    assert not all(ours.tobytes() == theirs.tobytes() for ours, theirs in pairs)
    for name in ("reward_mean", "episode_return_mean"):
        np.testing.assert_allclose(FACTOR * metrics[name], metrics_more[name], rtol=1e-5)
        assert np.abs(metrics[name]).min() > 0
    assert (metrics["intrinsic_reward_mean"] > 0).all()


BARE = (
    *("--preset", "debug", "--seeds", "1", "--pretrain", "1000"),
    *("--re3.normalize", "running_std", "--re3.rho", "1e-3"),
)
LATER = 5_000
"""Agent steps after which the weight would have decayed to 0.7 per cent."""


def pretraining(agent, env, pretrain_reward):
    """A run that pre-trains with a beta that decays, as the presets of pixels do."""
    config = parse(["--env", env, "--agent", agent, *BARE])
    return dataclasses.replace(config, pretrain_reward=pretrain_reward)


@pytest.mark.parametrize(
    ("agent", "env"),
    [("rad", "gymnax:Pendulum-v1"), ("a2c", "doorkey_6x6"), ("rainbow", "doorkey_6x6")],
)
def test_a_bare_bonus_is_equation_3_at_every_step(agent, env):
    """Equal bit for bit to the chain of the distance, the running std and the logarithm alone."""
    config = pretraining(agent, env, "bare")
    entropy, task = config.re3, registry.make(env).spec
    if agent != "a2c":
        entropy = dataclasses.replace(entropy, ring_size=config.of_agent.replay_capacity)
    logarithm = (transforms.log1p(),) if entropy.log1p else ()
    r_int = base.chain(re3(entropy), transforms.normalize_by_running_std(), *logarithm)
    rng = np.random.default_rng(0)
    shape = (16, *task.observation_shape)
    seen = jnp.asarray(rng.integers(0, 10, shape), task.observation_dtype)

    def paid(bonus):
        """The first rewards of 16 lanes, if the run is at each number of agent steps."""

        @jax.jit
        def pay(agent_steps):
            state, index = bonus.observe(bonus.init(jax.random.key(0), task, 16), base.Step(seen))
            return bonus.reward(state, IntrinsicBatch(seen, None, seen, index, agent_steps))[0]

        return {number: np.asarray(pay(jnp.int32(number))) for number in (0, LATER)}

    literal, bare = paid(r_int), paid(make_bonus(config))
    weighted = paid(make_bonus(pretraining(agent, env, "weighted")))
    for agent_steps in (0, LATER):
        assert literal[agent_steps].max() > 0
        np.testing.assert_array_equal(bare[agent_steps], literal[agent_steps])
        beta_t = entropy.beta * (1 - entropy.rho) ** agent_steps
        np.testing.assert_allclose(weighted[agent_steps], beta_t * literal[agent_steps], rtol=1e-4)


@pytest.mark.parametrize("pretrain_reward", ["bare", "weighted"])
def test_what_an_agent_learns_from_depends_on_beta_only_if_weighted(pretrain_reward):
    """One update of an off-policy agent from the same replay, early and late in a run."""
    config = pretraining("rad", "gymnax:Pendulum-v1", pretrain_reward)
    task = registry.make(config.env).spec
    learner = make_learner(config, task)
    lanes = config.sac.num_envs
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(65, lanes, *task.observation_shape)).astype(np.float32)
    actions = rng.uniform(-1, 1, (64, lanes, *task.action_space.shape)).astype(np.float32)
    init, store = jax.jit(learner.init), jax.jit(learner.store)
    state, no = init(jax.random.key(0), frames[0]), jnp.zeros(lanes, bool)
    for frame, action in zip(frames[1:], actions, strict=True):
        step = LaneStep(jnp.asarray(frame), jnp.ones(lanes), no, no, jnp.asarray(frame), no)
        state = store(state, jnp.asarray(action), step)
    update = jax.jit(learner.phases[0])
    learned = [update(state, jnp.int32(steps), jax.random.key(1)) for steps in (64, LATER)]
    (early, early_info), (late, late_info) = jax.device_get([(s.agent, i) for s, i in learned])
    same = [
        a.tobytes() == b.tobytes()
        for a, b in zip(jax.tree.leaves(early), jax.tree.leaves(late), strict=True)
    ]
    assert all(same) == (pretrain_reward == "bare")
    assert early_info["beta"] == (1.0 if all(same) else pytest.approx(0.05 * 0.999**64, rel=1e-4))
    assert (early_info["beta"] == late_info["beta"]) == all(same)


def test_bare_is_for_every_bonus_with_a_weight():
    """RND's reward is its error itself, and ICM's."""
    for bonus in ("rnd", "icm"):
        words = ["--env", "doorkey_6x6", "--bonus", bonus, "--preset", "debug", "--pretrain", "64"]
        config = parse([*words, "--pretrain-reward", "bare"])
        task = registry.make(config.env).spec
        seen = jnp.asarray(np.random.default_rng(0).integers(0, 5, (8, 7, 7, 3)), jnp.uint8)
        rewards = {}
        for name in ("bare", "weighted"):
            made = make_bonus(dataclasses.replace(config, pretrain_reward=name))
            state, index = made.observe(made.init(jax.random.key(0), task, 8), base.Step(seen))
            batch = IntrinsicBatch(seen, jnp.zeros(8, jnp.int32), seen[::-1], index, jnp.int32(9))
            rewards[name] = np.asarray(made.reward(state, batch)[0])
        beta = getattr(config, bonus).beta
        np.testing.assert_allclose(rewards["weighted"], beta * rewards["bare"], rtol=1e-6)
        assert rewards["bare"].min() > 0
