"""ICM: what each network learns, and from which frames."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.intrinsic.base import IntrinsicBatch
from re3_jax.intrinsic.icm import ICMConfig, icm
from tests.prediction_tasks import SIZES, make_batch, start

BONUS = icm(ICMConfig(**SIZES, learning_rate=3e-3))
reward = jax.jit(BONUS.reward)


def walks(key, size=64, noise=0.0):
    """Each action adds its own vector; noise makes the rest of the next observation random."""
    start_key, action_key, noise_key = jax.random.split(key, 3)
    moves = jnp.eye(3, 5) * 2.0
    observation = jax.random.normal(start_key, (size, 5))
    action = jax.random.randint(action_key, (size,), 0, 3)
    chance = noise * jax.random.normal(noise_key, (size, 5))
    following = observation + moves[action] + chance
    return IntrinsicBatch(observation, action, following, None, jnp.int32(0))


@partial(jax.jit, static_argnums=1)
def learn(state, noise):
    def step(state, key):
        return BONUS.update(state, walks(key, noise=noise), key)

    after, infos = jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 600))
    fresh = walks(jax.random.key(99), noise=noise)
    return infos, BONUS.reward(after, fresh)


def test_the_inverse_model_learns_what_the_actions_do():
    infos, _ = learn(start("icm", "vectors"), 0.0)
    accuracy = infos["icm_inverse_accuracy"]
    assert accuracy[:5].mean() < 0.7
    assert accuracy[-20:].mean() > 0.97
    assert infos["icm_inverse_loss"][-1] < infos["icm_inverse_loss"][0] / 5


def test_unpredictable_transitions_stay_rewarding():
    """Relative to the standard deviation of the features, which differs between the tasks."""
    left = {}
    for noise in (0.0, 1.0):
        _, (reward, _, info) = learn(start("icm", "vectors"), noise)
        left[noise] = reward.mean() / info["icm_feature_std"] ** 2
    assert left[1.0] > 3 * left[0.0]


def test_every_network_is_trained():
    state = start("icm", "joints")
    after, _ = jax.jit(BONUS.update)(state, make_batch("joints"), jax.random.key(0))
    moved = jax.tree.map(lambda a, b: abs(a - b).max(), after.params, state.params)
    assert min(jax.tree.leaves(moved)) > 0


@pytest.mark.parametrize(("weight", "idle"), [("forward", "inverse"), ("inverse", "forward")])
def test_each_loss_trains_its_own_model_and_the_encoder(weight, idle):
    weights = {"forward_weight": 0.0, "inverse_weight": 0.0, f"{weight}_weight": 1.0}
    bonus = icm(ICMConfig(**SIZES, **weights))
    state = start("icm", "joints")
    after, _ = jax.jit(bonus.update)(state, make_batch("joints"), jax.random.key(0))

    def moved(part):
        before, now = (getattr(s.params, part) for s in (state, after))
        return [abs(a - b).max() for a, b in zip(*map(jax.tree.leaves, (before, now)), strict=True)]

    assert min(moved(weight)) > 0
    assert min(moved("encoder")) > 0
    assert max(moved(idle)) == 0


@pytest.mark.parametrize("field", ["observation", "action", "next_observation"])
@pytest.mark.parametrize("task", ["views", "joints"])
def test_the_whole_transition_counts(task, field):
    state, batch, other = start("icm", task), make_batch(task), make_batch(task, seed=1)
    changed = reward(state, batch._replace(**{field: getattr(other, field)}))[0]
    is_other = np.asarray(getattr(other, field) != getattr(batch, field))
    is_other = is_other.reshape(len(is_other), -1).any(axis=1)
    assert is_other.sum() > 5
    assert abs(changed - reward(state, batch)[0])[is_other].min() > 0


@pytest.mark.parametrize("name", ["forward_weight", "inverse_weight"])
def test_bad_weights_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be a finite number of at least 0"):
        ICMConfig(**{name: -0.1})
