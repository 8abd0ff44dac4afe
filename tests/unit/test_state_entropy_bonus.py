"""State entropy over learned encoders: stored latents, training, seeds, loops, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import knn
from re3_jax.agents.sac.config import SACConfig
from re3_jax.agents.sac.learner import make_learner
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.contrastive import contrastive
from re3_jax.intrinsic.inverse_dynamics import inverse_dynamics
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.re3 import encoder_from, re3
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import scaled
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.off_policy import make_off_policy_program
from tests.equal import equal_arrays
from tests.probe_envs import aim
from tests.probe_host_env import DotLanes
from tests.probe_host_env import spec as dot_spec

MINIGRID = EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360)
VECTOR = EnvSpec("gymnax:any", (3,), np.dtype(np.float32), Discrete(3), 200)
BATCH = 16
CONFIG = RE3Config(ring_size=40, latent_dim=8, num_filters=4, image_crop=18)
FACTORIES = {"contrastive": contrastive, "inverse_dynamics": inverse_dynamics}


def make(name, neighbours="ring", config=CONFIG):
    learned = LearnedEncoderConfig(learning_rate=0.01, neighbours=neighbours, hidden_dim=16)
    return FACTORIES[name](config, learned)


def transitions(seed, index=None):
    rng = np.random.default_rng(seed)
    before, after = rng.integers(0, 6, (2, BATCH, 7, 7, 3)).astype(np.uint8)
    action = rng.integers(0, 7, BATCH).astype(np.int32)
    return IntrinsicBatch(
        jnp.asarray(before), jnp.asarray(action), jnp.asarray(after), index, jnp.int32(0)
    )


def largest_change(before, after):
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    return max(float(abs(new - old).max()) for old, new in pairs)


@pytest.mark.parametrize("name", FACTORIES)
def test_what_is_stored_stays_as_it_was_stored(name):
    """An update changes later latents only, so rewards of stored ones do not change."""
    bonus = make(name)
    batch, update, reward = transitions(0), jax.jit(bonus.update), jax.jit(bonus.reward)
    observe = jax.jit(bonus.observe)
    init = jax.jit(bonus.init, static_argnums=1)
    state, index = observe(init(jax.random.key(0), MINIGRID), Step(batch.observation))
    batch = batch._replace(bonus_index=index)
    trained, info = update(state, batch, jax.random.key(1))
    jax.tree.map(equal_arrays, trained.ring, state.ring)
    assert largest_change(state.encoder.params.encoder, trained.encoder.params.encoder) > 0.005
    np.testing.assert_array_equal(reward(state, batch)[0], reward(trained, batch)[0])
    later, index = observe(trained, Step(batch.observation))
    assert abs(later.ring.latents[index] - state.ring.latents[batch.bonus_index]).max() > 1e-3
    assert list(info) == [f"{name}_loss"]
    assert info[f"{name}_loss"].dtype == jnp.float32 and info[f"{name}_loss"].shape == ()


@pytest.mark.parametrize("name", FACTORIES)
def test_a_minibatch_stores_nothing_and_is_encoded_anew(name):
    bonus = make(name, "minibatch")
    batch, reward = transitions(0), jax.jit(bonus.reward)
    state = jax.jit(bonus.init, static_argnums=1)(jax.random.key(0), MINIGRID)
    assert state.ring is None
    observed, index = bonus.observe(state, Step(batch.observation))
    np.testing.assert_array_equal(index, np.zeros(BATCH))
    batch = batch._replace(bonus_index=index)
    before = reward(observed, batch)[0]
    assert before.min() > 0
    np.testing.assert_array_equal(before, reward(state, batch)[0])
    trained, _ = jax.jit(bonus.update)(state, batch, jax.random.key(1))
    assert abs(reward(trained, batch)[0] - before).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "neighbours"), [("contrastive", "ring"), ("inverse_dynamics", "minibatch")]
)
def test_vmapped_seeds_equal_single_runs_and_the_state_can_be_donated(name, neighbours):
    bonus = scaled(CONFIG, make(name, neighbours))

    def step(state, seed):
        batch = transitions(0)
        moved = batch._replace(
            observation=batch.observation + seed.astype(jnp.uint8),
            next_observation=batch.next_observation + seed.astype(jnp.uint8),
        )
        state, index = bonus.observe(state, Step(moved.observation))
        reward, state, _ = bonus.reward(state, moved._replace(bonus_index=index))
        state, _ = bonus.update(state, moved, jax.random.fold_in(jax.random.key(1), seed))
        return state, reward

    seeds = jnp.arange(2)
    keys = jax.random.split(jax.random.key(0), 2)
    start = jax.jit(lambda key: bonus.init(key, MINIGRID))
    states = jax.jit(jax.vmap(lambda key: bonus.init(key, MINIGRID)))(keys)
    many = jax.jit(jax.vmap(step), donate_argnums=0)
    one = jax.jit(step, donate_argnums=0)
    alone = [start(key) for key in keys]
    for _ in range(2):
        states, rewards = many(states, seeds)
        for seed in range(2):
            alone[seed], reward = one(alone[seed], seeds[seed])
            np.testing.assert_allclose(rewards[seed], reward, rtol=1e-3, atol=1e-5)
    assert abs(rewards[0] - rewards[1]).max() > 1e-5


def test_neighbours_are_searched_once_for_rewards_and_diagnostics(monkeypatch):
    calls, search = [], knn.exact._squared_distances
    monkeypatch.setattr(
        knn.exact, "_squared_distances", lambda *arguments: calls.append(1) or search(*arguments)
    )
    bonus, observation = re3(CONFIG), jnp.ones((4, 3))
    state = jax.eval_shape(lambda key: bonus.init(key, VECTOR), jax.random.key(0))
    batch = IntrinsicBatch(observation, None, None, jnp.arange(4), jnp.int32(0))
    _, _, info = jax.eval_shape(bonus.reward, state, batch)
    assert len(calls) == 1
    names = {f"nearest_distance_{suffix}" for suffix in ("p05", "p50", "p95")}
    assert set(info) == {*names, "duplicate_share"}


@pytest.mark.slow
def test_an_ensemble_off_policy_has_a_latent_of_each_member_for_every_transition():
    capacity, env = 32, aim(4)
    config = RE3Config(ring_size=capacity, latent_dim=8, ensemble_size=2)
    sac = SACConfig(
        hidden_dim=8, batch_size=16, replay_capacity=capacity, actor_every=1, target_every=1,
        num_envs=4, initial_agent_steps=8,
    )  # fmt: skip
    program = make_off_policy_program(
        env, make_learner(sac, env.spec, re3(config)), chunk_steps=12,
        eval_episodes=1, eval_greedy=True,
    )  # fmt: skip
    state, metrics = program.train(program.init(jnp.array([1, 2])))
    assert (metrics["intrinsic_reward_mean"] > 0).all()
    assert (metrics["nearest_distance_p95"] > 0).all()
    encoder, ring, _ = state.intrinsic
    for seed in range(2):
        members = jax.tree.map(lambda leaf, seed=seed: leaf[seed], encoder)
        encode = jax.jit(encoder_from(config).encode)
        expected = encode(members, state.replay.observation[seed])
        np.testing.assert_allclose(ring.latents[seed], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_host_loop_trains_an_encoder_of_pixels():
    spec, capacity = dot_spec(), 100
    sac = SACConfig(
        augmentation="none", num_filters=4, hidden_dim=16, latent_dim=8, batch_size=16,
        replay_capacity=capacity, initial_agent_steps=10, actor_every=1, target_every=1,
    )  # fmt: skip
    config = RE3Config(ring_size=capacity, latent_dim=8, num_filters=4, image_crop=15)
    learner = make_learner(sac, spec, make("contrastive", "ring", config))
    program = HostProgram(
        learner, DotLanes, seeds=[1], chunk_agent_steps=30, eval_episodes=1, eval_greedy=True
    )
    state = program.init(jnp.array([1], jnp.int32))
    start = jax.tree.map(np.asarray, state.intrinsic.encoder.params)
    program.compile(state)
    state, metrics = program.train(state)
    program.close()
    assert metrics["intrinsic_reward_mean"] > 0
    assert np.isfinite(metrics["contrastive_loss"]).all()
    assert int(state.intrinsic.ring.num_valid[0]) == 30
    assert largest_change(start, state.intrinsic.encoder.params) > 0.01


def test_a_minibatch_that_is_too_small_is_refused():
    bonus = make("inverse_dynamics", "minibatch", RE3Config(last_neighbour=20))
    state = jax.jit(bonus.init, static_argnums=1)(jax.random.key(0), MINIGRID)
    with pytest.raises(ValueError, match="a minibatch of 16 has no neighbour of rank 20: raise"):
        bonus.reward(state, transitions(0))


@pytest.mark.parametrize("name", FACTORIES)
def test_an_ensemble_of_learned_encoders_is_refused(name):
    with pytest.raises(ValueError, match=f"the encoder of {name} is not random: set ensemble_size"):
        make(name, config=RE3Config(ensemble_size=2))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0"),
        ({"learning_rate": float("inf")}, "learning_rate must be a finite number above 0"),
        ({"momentum": 0.0}, "momentum must be above 0 and at most 1, but it is 0.0"),
        ({"momentum": 1.5}, "momentum must be above 0 and at most 1"),
        ({"shift_pad": 0}, "shift_pad must be at least 1"),
        ({"hidden_dim": 0}, "hidden_dim must be at least 1"),
        ({"neighbours": "all"}, "unknown neighbours 'all': choose one of ring, minibatch"),
        ({"augmentation": "none"}, "unknown augmentation 'none': choose one of crop, shift"),
    ],
)
def test_bad_settings_are_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        LearnedEncoderConfig(**values)
