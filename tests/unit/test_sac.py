"""SAC's configuration, its errors, and its initial weights."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.sac.agent import make_sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.agents.sac.learner import make_learner
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import none
from tests.equal import equal_arrays
from tests.probe_envs import aim

IMAGES = EnvSpec("probe:images", (100, 100, 9), np.dtype(np.uint8), Box((6,), -1, 1), 500, 2)
SMALL = SACConfig(num_filters=4, hidden_dim=16, crop_size=20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"augmentation": "flip"}, "unknown augmentation 'flip': choose one of crop, shift, none"),
        ({"batch_size": 0}, "batch_size must be at least 1, but it is 0"),
        ({"actor_every": -1}, "actor_every must be at least 1"),
        ({"critic_learning_rate": 0.0}, "critic_learning_rate must be a finite number above 0"),
        ({"init_temperature": float("nan")}, "init_temperature must be a finite number above 0"),
        ({"discount": 1.01}, "discount must be from 0 to 1"),
        ({"encoder_tau": 0.0}, "encoder_tau must be above 0 and at most 1"),
        ({"critic_tau": float("nan")}, "critic_tau must be above 0 and at most 1"),
        ({"log_std_min": 2.0}, "log_std_min .* must be finite and below log_std_max"),
        ({"augmentation": "none", "num_augmentations": 2}, "choose augmentation crop or shift"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_bad_value_is_refused_in_one_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        SACConfig(**change)


@pytest.mark.parametrize(
    ("spec_change", "config_change", "message"),
    [
        ({"action_space": Discrete(4)}, {}, "choose a task of continuous control"),
        ({"action_space": Box((2, 2), -1, 1)}, {}, "a vector of real numbers"),
        ({"action_space": Box((2,), -5, 5)}, {}, "acts from -1 to 1, but .* reach from -5 to 5"),
        ({"observation_shape": (7, 7)}, {}, "images of bytes or flat observations"),
        ({"observation_dtype": np.dtype(np.float32)}, {}, "images of bytes or flat observations"),
        ({"observation_shape": (64, 64, 9)}, {"crop_size": 84}, "crop_size.*image_size.*shift"),
        ({}, {"crop_size": 14}, "at least 15x15"),
    ],
    ids=["discrete", "matrix of actions", "bounds", "matrix", "floats", "crop", "convolutions"],
)
def test_a_task_that_does_not_fit_is_refused_in_one_sentence(spec_change, config_change, message):
    spec = dataclasses.replace(IMAGES, **spec_change)
    with pytest.raises(ValueError, match=message):
        agent = make_sac(dataclasses.replace(SMALL, **config_change), spec)
        jax.eval_shape(agent.init, jax.random.key(0))


def test_what_the_paper_and_the_released_code_say_is_the_default():
    config = SACConfig()
    shapes = jax.eval_shape(make_sac(config, IMAGES).init, jax.random.key(0))
    kernels = [conv.kernel.shape for conv in shapes.critic.convs.layers]
    assert kernels == [(3, 3, 9, 32)] + 3 * [(3, 3, 32, 32)]
    for head in (shapes.critic.head, shapes.actor.head):
        assert head.linear.kernel.shape == (35 * 35 * 32, 50)
    for q in shapes.critic.q:
        assert [layer.kernel.shape for layer in q] == [(56, 1024), (1024, 1024), (1024, 1)]
    policy = [layer.kernel.shape for layer in shapes.actor.policy]
    assert policy == [(50, 1024), (1024, 1024), (1024, 12)]


@pytest.fixture(scope="module")
def state():
    return jax.jit(make_sac(SMALL, IMAGES).init)(jax.random.key(0))


def test_initial_weights_are_orthogonal_and_biases_zero(state):
    def check(layer, gain):
        np.testing.assert_array_equal(layer.bias, 0)
        matrix = np.asarray(layer.kernel, np.float64).reshape(-1, layer.kernel.shape[-1])
        gram = matrix.T @ matrix if len(matrix) >= matrix.shape[1] else matrix @ matrix.T
        np.testing.assert_allclose(gram, gain**2 * np.eye(len(gram)), atol=1e-5)

    for conv in state.critic.convs.layers:
        check(conv, 2**0.5)
    heads = (state.actor.head, state.critic.head)
    for layer in (*state.actor.policy, *state.critic.q[0], *state.critic.q[1]):
        check(layer, 1.0)
    for head in heads:
        check(head.linear, 1.0)
        np.testing.assert_array_equal(head.scale, 1)
        np.testing.assert_array_equal(head.bias, 0)
    assert np.any(heads[0].linear.kernel != heads[1].linear.kernel)
    assert np.any(state.critic.q[0][0].kernel != state.critic.q[1][0].kernel)


def test_the_target_starts_as_the_critic_and_the_temperature_as_stated(state):
    jax.tree.map(equal_arrays, state.target, state.critic)
    np.testing.assert_allclose(jnp.exp(state.log_alpha), 0.1, rtol=1e-6)


@pytest.mark.parametrize("differences", [True, False])
def test_the_critic_sees_differences_of_as_many_frames_as_an_observation_has(differences):
    config = dataclasses.replace(SMALL, frame_differences=differences)
    spec = dataclasses.replace(IMAGES, frame_stack=3)
    shapes = jax.eval_shape(make_sac(config, spec).init, jax.random.key(0))
    assert shapes.critic.convs.frames == shapes.target.convs.frames == (3 if differences else 1)


def test_flat_observations_have_no_encoder_and_ignore_what_concerns_images():
    spec = dataclasses.replace(
        IMAGES, observation_shape=(17,), observation_dtype=np.dtype(np.float32)
    )
    drq = dataclasses.replace(SMALL, augmentation="shift", num_augmentations=2, crop_size=1)
    for config in (SMALL, drq):
        shapes = jax.eval_shape(make_sac(config, spec).init, jax.random.key(0))
        assert shapes.critic.convs is None and shapes.critic.head is None
        assert shapes.actor.policy[0].kernel.shape == (17, 16)
        assert shapes.critic.q[0][0].kernel.shape == (17 + 6, 16)


def test_updates_begin_after_the_random_actions_and_come_every_so_many_steps():
    config = SACConfig(num_envs=2, initial_agent_steps=9, update_every=3, updates_per_step=5)
    learner = make_learner(config, aim(4).spec, none())
    due = [int(learner.updates_due(after - 2, after)) for after in range(2, 26, 2)]
    assert due == [0, 0, 0, 0, 0, 5, 0, 0, 5, 0, 0, 5]


def test_rounds_of_updates_count_the_steps_of_each_lane():
    config = SACConfig(num_envs=2, initial_agent_steps=9, update_every=4, updates_per_step=5)
    learner = make_learner(config, aim(4).spec, none())
    due = [int(learner.updates_due(after - 2, after)) for after in range(2, 26, 2)]
    assert due == [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 5]
