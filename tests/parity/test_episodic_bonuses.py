"""E3B, NovelD and NGU against their definitions, with encoders and errors from PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from re3_jax.intrinsic import e3b, ngu, noveld
from re3_jax.intrinsic.base import Step
from re3_jax.intrinsic.rewarding import reward_rollout
from tests import episodic_reference
from tests.prediction_tasks import SIZES, TASKS, centre, make_batch
from tests.torch_oracle import layers, weights

TIME, LANES = 24, 3
STORED = TIME * LANES
KERNEL = {"neighbours": 3, "kernel_epsilon": 0.01, "cluster_distance": 0.05}


def slow(task):
    return pytest.param(task, marks=pytest.mark.slow)


def walks(task, seed=0):
    """A rollout that comes back to few observations, with ends of both kinds."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 6, (TIME + 1, LANES))
    known = np.asarray(make_batch(task, seed).observation)[:6]
    ends = rng.random((2, TIME, LANES)) < 0.08
    assert ends.any(axis=(1, 2)).all()
    # A lane that ended begins its next episode elsewhere than where it ended.
    final = np.where(ends.any(axis=0), (place[1:] + 1) % 6, place[1:])
    action = np.asarray(make_batch(task, seed, STORED).action)
    action = action.reshape(TIME, LANES, *action.shape[1:])
    return Step(known[place[:-1]], action, known[final], *ends)


def with_time(function, observation):
    """A function of a batch, of a whole rollout."""
    out = function(centre(jnp.asarray(observation).reshape(STORED, *observation.shape[2:])))
    return out.detach().numpy().reshape(TIME, LANES, -1)


def run(bonus, task, steps):
    """The initial state, and what the bonus pays for a rollout."""
    state = jax.jit(lambda key: bonus.init(key, TASKS[task], LANES))(jax.random.key(3))
    paid = jax.jit(lambda *given: reward_rollout(bonus, *given))
    return state, paid(state, steps, jnp.int32(0), jax.random.key(0))


def rnd_errors(state, observation):
    target, predictor = (weights.as_tensors(part) for part in (state.target, state.predictor))

    def error(seen):
        predicted = layers.mlp(predictor.head, layers.encode(predictor.encoder, seen))
        return torch.linalg.vector_norm(layers.encode(target, seen) - predicted, dim=1)

    return with_time(error, observation)[..., 0]


def features(encoder, observation):
    tensors = weights.as_tensors(encoder.params.encoder)
    return with_time(lambda seen: layers.encode(tensors, seen), observation)


@pytest.mark.parametrize("task", ["views", slow("pixels"), "joints"])
def test_e3b(task):
    steps = walks(task)
    bonus = e3b.e3b(e3b.E3BConfig(**SIZES, ridge=0.3), STORED)
    state, (paid, after, info) = run(bonus, task, steps)
    found = features(state.encoder, steps.observation)
    ended = steps.terminated | steps.truncated
    expected = episodic_reference.elliptical(found, ended, 0.3)
    assert (expected == 0).any() and expected.std() > 0.01
    np.testing.assert_allclose(paid, expected, rtol=2e-3, atol=1e-5)
    assert info["inverse_dynamics_loss"] > 0
    np.testing.assert_array_equal(after.begins, ended[-1])


@pytest.mark.parametrize("task", ["views", slow("joints")])
def test_noveld(task):
    steps = walks(task)
    config = noveld.NovelDConfig(**SIZES, alpha=0.4)
    state, (paid, _, info) = run(noveld.noveld(config, STORED), task, steps)
    before, after = (
        rnd_errors(state.rnd, seen) for seen in (steps.observation, steps.next_observation)
    )
    ended = steps.terminated | steps.truncated
    seen = np.asarray(steps.observation), np.asarray(steps.next_observation)
    is_first = episodic_reference.first_visits(*seen, ended)
    expected = np.maximum(after - 0.4 * before, 0) * is_first
    assert 0.1 < is_first.mean() < 0.9 and (expected[is_first] > 0).any()
    np.testing.assert_allclose(paid, expected, rtol=2e-3, atol=1e-5)
    np.testing.assert_allclose(info["noveld_first_visit_share"], is_first.mean(), rtol=1e-6)
    # RND learns from what a step led to.
    assert abs(before.mean() / after.mean() - 1) > 1e-3
    np.testing.assert_allclose(info["rnd_loss"], after.mean(), rtol=1e-4)


def test_ngu_observes_a_rollout_as_its_steps():
    """In rollouts longer and shorter than the memory, and step by step."""
    task = "joints"
    steps = walks(task)
    config = ngu.NGUConfig(**SIZES, **KERNEL, memory_size=5)
    bonus = ngu.ngu(config, STORED)
    init = bonus.init(jax.random.key(3), TASKS[task], LANES)
    whole, index = jax.jit(bonus.observe_rollout)(init, steps)
    expected = episodic_reference.pseudo_counts(
        features(init.encoder, steps.observation), steps.terminated | steps.truncated, k=3,
        epsilon=0.01, xi=0.05, c=config.pseudo_count, most=config.max_similarity, capacity=5,
    )  # fmt: skip
    assert (expected > 0).mean() > 0.2
    np.testing.assert_allclose(np.asarray(whole.episodic.values)[index], expected, rtol=5e-3)
    state, found = init, []
    for begin in range(0, TIME, 3):
        part = jax.tree.map(lambda leaf, begin=begin: leaf[begin : begin + 3], steps)
        state, index = jax.jit(bonus.observe_rollout)(state, part)
        found.append(np.asarray(state.episodic.values)[index])
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=5e-3)
    state, found = init, []
    for time in range(TIME):
        one = jax.tree.map(lambda leaf, time=time: leaf[time], steps)
        state, index = jax.jit(bonus.observe)(state, one)
        found.append(np.asarray(state.episodic.values)[index])
    np.testing.assert_allclose(np.stack(found), expected, rtol=5e-3)
    np.testing.assert_allclose(state.distance.mean, whole.distance.mean, rtol=1e-5)


@pytest.mark.parametrize("task", [slow("views"), "joints"])
def test_ngu(task):
    steps = walks(task)
    bounds = {"max_similarity": 1.6, "max_modulation": 1.5}
    config = ngu.NGUConfig(**SIZES, **KERNEL, pseudo_count=0.02, **bounds)
    state, (paid, after, info) = run(ngu.ngu(config, STORED), task, steps)
    ended = steps.terminated | steps.truncated
    episodic = episodic_reference.pseudo_counts(
        features(state.encoder, steps.observation), ended, k=3, epsilon=0.01, xi=0.05, c=0.02,
        most=1.6,
    )  # fmt: skip
    distance, of_next = (
        rnd_errors(state.rnd, seen) for seen in (steps.observation, steps.next_observation)
    )
    error = distance**2
    modulation = np.clip(1 + (error - error.mean()) / error.std(), 1, 1.5)
    assert all((modulation == bound).any() for bound in (1, 1.5))
    expected = episodic * modulation
    # Some lanes are short of neighbours, some observations too familiar, some neither.
    assert 0.2 < (expected > 0).mean() < 0.9 and expected[expected > 0].std() > 0.1
    np.testing.assert_allclose(paid, expected, rtol=5e-3, atol=1e-5)
    np.testing.assert_allclose(after.errors.mean, error.mean(), rtol=1e-3)
    # RND learns from what is rewarded.
    assert abs(of_next.mean() / distance.mean() - 1) > 1e-3
    np.testing.assert_allclose(info["rnd_loss"], distance.mean(), rtol=1e-4)
