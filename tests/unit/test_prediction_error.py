"""Properties of both RND and ICM; most of them have been wrong in some library."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from re3_jax.intrinsic import icm, rnd
from re3_jax.intrinsic.base import Step
from re3_jax.intrinsic.network_training import descend
from re3_jax.intrinsic.rewarding import with_bonus
from re3_jax.networks.conv_stack import ConvStack
from re3_jax.replay.transitions import Transitions
from tests.equal import equal_arrays
from tests.prediction_tasks import BATCH, SIZES, TASKS, make_batch, start

KINDS = {"rnd": (rnd.RNDConfig, rnd), "icm": (icm.ICMConfig, icm)}
BONUSES = {
    "rnd": rnd.rnd(rnd.RNDConfig(**SIZES, learning_rate=3e-3)),
    "icm": icm.icm(icm.ICMConfig(**SIZES, learning_rate=3e-3)),
}


@partial(jax.jit, static_argnums=0)
def reward_of(kind, state, batch):
    return BONUSES[kind].reward(state, batch)[0]


@partial(jax.jit, static_argnums=(0, 3))
def train(kind, state, batch, updates):
    def step(state, key):
        return BONUSES[kind].update(state, batch, key)[0], None

    return jax.lax.scan(step, state, jax.random.split(jax.random.key(9), updates))[0]


@pytest.mark.parametrize("kind", BONUSES)
@pytest.mark.parametrize("task", ["views", "joints"])
def test_only_trained_transitions_lose_their_reward(kind, task):
    state, seen, unseen = start(kind, task), make_batch(task), make_batch(task, seed=1)
    after = train(kind, state, seen, 300)
    before, now = reward_of(kind, state, seen).mean(), reward_of(kind, after, seen).mean()
    assert now < before / 3
    assert now < reward_of(kind, after, unseen).mean() / 2


@pytest.mark.parametrize("kind", BONUSES)
@pytest.mark.parametrize("task", ["views", "joints"])
def test_a_reward_depends_on_its_own_transition_only(kind, task):
    """Not on other lanes or times in the batch."""
    state, batch, other = start(kind, task), make_batch(task), make_batch(task, seed=1)
    rewards = reward_of(kind, state, batch)
    order = np.random.default_rng(0).permutation(BATCH)
    shuffled = jax.tree.map(lambda leaf: leaf[order] if leaf.ndim else leaf, batch)
    np.testing.assert_allclose(reward_of(kind, state, shuffled), rewards[order], rtol=1e-4)
    mixed = jax.tree.map(
        lambda one, two: jnp.concatenate([one[:5], two[5:]]) if one.ndim else one, batch, other
    )
    np.testing.assert_allclose(reward_of(kind, state, mixed)[:5], rewards[:5], rtol=1e-4)
    assert abs(reward_of(kind, state, mixed)[5:] - rewards[5:]).min() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_normalized_rewards_are_errors_over_their_standard_deviation(kind):
    """The errors themselves are divided: no sum over time or lanes, and no division by a mean."""
    make_config, module = KINDS[kind]
    config = make_config(**SIZES, beta=0.5, rho=0.01, normalize="running_std")
    bonus = module.from_config(config)
    state, seen = bonus.init(jax.random.key(0), TASKS["joints"]), np.zeros(0)
    reward = jax.jit(bonus.reward)
    for number in range(3):
        batch = make_batch("joints", seed=number)._replace(agent_steps=jnp.int32(10 * number))
        errors = np.asarray(reward_of(kind, state.bonus, batch), np.float64)
        seen = np.concatenate([seen, errors])
        ours, state, info = reward(state, batch)
        assert abs(seen.mean() / seen.std() - 1) > 0.2
        expected = 0.5 * 0.99 ** (10 * number) * errors / seen.std()
        np.testing.assert_allclose(ours, expected, rtol=1e-4)
        np.testing.assert_allclose(info["running_std"], seen.std(), rtol=1e-4)
    plain = module.from_config(make_config(**SIZES, beta=0.5))
    ours, _, _ = jax.jit(plain.reward)(plain.init(jax.random.key(0), TASKS["joints"]), batch)
    np.testing.assert_allclose(ours, 0.5 * errors, rtol=1e-5)


@pytest.mark.parametrize("kind", BONUSES)
def test_the_agent_is_rewarded_by_what_was_known_before_the_update(kind):
    bonus, batch = BONUSES[kind], make_batch("joints")
    zeros = jnp.zeros(BATCH)
    sampled = Transitions(
        batch.observation, batch.action, zeros, zeros, zeros, batch.next_observation
    )

    @jax.jit
    def rewarded(intrinsic):
        return with_bonus(
            bonus, intrinsic, sampled, batch.bonus_index, batch.agent_steps, jax.random.key(0)
        )

    state = start(kind, "joints")
    given, after, info = rewarded(state)
    np.testing.assert_allclose(given.bonus, reward_of(kind, state, batch), rtol=1e-5)
    np.testing.assert_allclose(info["intrinsic_reward_mean"], given.bonus.mean(), rtol=1e-5)
    assert abs(given.bonus - reward_of(kind, after, batch)).max() > 1e-3


@pytest.mark.parametrize("kind", BONUSES)
def test_vmapped_seeds_equal_single_runs(kind):
    bonus, batch = BONUSES[kind], make_batch("joints")
    states = [start(kind, "joints", seed) for seed in range(3)]

    def run(state):
        state, info = bonus.update(state, batch, jax.random.key(0))
        return bonus.reward(state, batch)[0], info

    together = jax.jit(jax.vmap(run))(jax.tree.map(lambda *leaves: jnp.stack(leaves), *states))
    alone = [jax.jit(run)(state) for state in states]
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-4),
        together,
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone),
    )
    assert abs(together[0][0] - together[0][1]).max() > 1e-3


@pytest.mark.parametrize("kind", BONUSES)
def test_only_the_centre_of_images_is_seen_and_always_the_same(kind):
    """Cropping is not random: one transition has one reward."""
    state, batch = start(kind, "pixels"), make_batch("pixels")
    rewards = reward_of(kind, state, batch)

    def with_pixels(row, value):
        edit = lambda images: images.at[:, row, 10].set(value)  # noqa: E731
        return batch._replace(
            observation=edit(batch.observation), next_observation=edit(batch.next_observation)
        )

    np.testing.assert_array_equal(reward_of(kind, state, with_pixels(1, 255)), rewards)
    assert abs(reward_of(kind, state, with_pixels(10, 255)) - rewards).max() > 1e-4


@pytest.mark.parametrize("kind", BONUSES)
def test_nothing_is_stored(kind):
    state, batch = start(kind, "joints"), make_batch("joints")
    after, index = BONUSES[kind].observe(state, Step(batch.observation))
    np.testing.assert_array_equal(index, np.zeros(BATCH))
    jax.tree.map(equal_arrays, after, state)


@pytest.mark.parametrize("kind", KINDS)
def test_widths_of_the_paper(kind):
    """Two hidden layers of 1024 behind an encoder of 50 numbers."""
    make_config, module = KINDS[kind]
    bonus = getattr(module, kind)(make_config())
    spec = TASKS["pixels"].__class__(
        "dmc:any", (100, 100, 9), np.dtype(np.uint8), TASKS["pixels"].action_space, 500
    )
    state = jax.eval_shape(lambda key: bonus.init(key, spec), jax.random.key(0))
    if kind == "rnd":
        heads, encoder = [state.predictor.head], state.predictor.encoder
        assert [layer.kernel.shape for layer in heads[0]] == [(50, 1024), (1024, 1024), (1024, 50)]
    else:
        heads, encoder = [state.params.inverse.layers, state.params.forward], state.params.encoder
        assert [layer.kernel.shape for layer in heads[0]] == [(100, 1024), (1024, 1024), (1024, 3)]
        assert [layer.kernel.shape for layer in heads[1]] == [(53, 1024), (1024, 1024), (1024, 50)]
    assert [conv.kernel.shape for conv in encoder.convs.layers] == [(3, 3, 9, 32)] + [
        (3, 3, 32, 32)
    ] * 3
    assert encoder.output.kernel.shape == (35 * 35 * 32, 50)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"hidden_dim": 0}, "hidden_dim must be at least 1"),
        ({"latent_dim": 0}, "latent_dim must be at least 1"),
        ({"image_crop": 0}, "image_crop must be at least 1"),
        ({"num_filters": 0}, "num_filters must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number above 0"),
        ({"beta": float("nan")}, "beta must be a finite number"),
        ({"rho": 1.5}, "rho must be at least 0 and below 1"),
        ({"normalize": "std"}, "unknown normalize 'std': choose one of none, running_std"),
        ({"image_input": "stack"}, "unknown image_input 'stack': choose one of newest_frame"),
        ({"encoder_init": "zeros"}, "unknown encoder_init 'zeros': choose one of torch"),
    ],
)
def test_bad_settings_are_refused(kind, values, sentence):
    with pytest.raises(ValueError, match=sentence):
        KINDS[kind][0](**values)


@pytest.mark.parametrize("kind", BONUSES)
def test_images_smaller_than_the_crop_are_refused(kind):
    make_config, module = KINDS[kind]
    with pytest.raises(ValueError, match="a crop of 84x84 does not fit images of 20x20 pixels"):
        getattr(module, kind)(make_config()).init(jax.random.key(0), TASKS["pixels"])


@pytest.mark.parametrize("kind", BONUSES)
def test_the_torso_is_the_configured_one(kind):
    make_config, module = KINDS[kind]
    bonus = getattr(module, kind)(make_config(torso="patches", image_crop=16))
    state = jax.eval_shape(lambda key: bonus.init(key, TASKS["pixels"]), jax.random.key(0))
    strides = {
        node.strides
        for node in jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, ConvStack))
        if isinstance(node, ConvStack)
    }
    assert strides == {(4,)}


@pytest.mark.parametrize("scale", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(scale):
    optimizer, before = optax.adam(0.1), {"weight": jnp.ones(3), "bias": jnp.zeros(2)}

    def step(factor):
        def loss(params):
            return factor * params["weight"].sum() + params["bias"].sum(), {}

        return descend(optimizer, loss, before, optimizer.init(before))[:2]

    jax.tree.map(equal_arrays, step(scale), (before, optimizer.init(before)))
    # Adam's first step is the rate, whatever the gradient's size.
    np.testing.assert_allclose(step(2.0)[0]["weight"], 0.9, rtol=1e-6)
