"""Rainbow's projection, targets and n-step returns against rlax."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from re3_jax.agents.rainbow import losses
from re3_jax.replay import prioritized
from tests.rlax_alone import rlax

BATCH, ACTIONS, ATOMS = 32, 5, 51
SUPPORT = jnp.linspace(-10, 10, ATOMS)


def rows(seed=0):
    """Logits or values of two states, the chooser's, a_t, r_t, discounts of a batch."""
    rng = np.random.default_rng(seed)
    now, following, choosing = rng.normal(size=(3, BATCH, ACTIONS, ATOMS)).astype(np.float32) * 2
    action = rng.integers(0, ACTIONS, BATCH).astype(np.int32)
    # Some returns lie beyond the support.
    reward = rng.normal(size=BATCH).astype(np.float32) * 8
    discount = (0.97 * (rng.random(BATCH) < 0.7)).astype(np.float32)
    return tuple(map(jnp.asarray, (now, following, choosing, action, reward, discount)))


@pytest.mark.parametrize("scale", [0.5, 30.0])
def test_projection(scale):
    rng = np.random.default_rng(1)
    place = jnp.asarray(np.sort(rng.normal(size=(BATCH, ATOMS)) * scale), jnp.float32)
    probability = jax.nn.softmax(jnp.asarray(rng.normal(size=(BATCH, ATOMS)), jnp.float32))
    projected = jax.jit(jax.vmap(rlax.categorical_l2_project, (0, 0, None)))
    expected = projected(place, probability, SUPPORT)
    ours = jax.jit(losses.project)(probability, place, SUPPORT)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)


def test_categorical_double_q_loss(monkeypatch):
    # rlax uses distrax here.
    monkeypatch.setattr(
        rlax._src.distributions,
        "categorical_cross_entropy",
        lambda labels, logits: optax.softmax_cross_entropy(logits, labels),
    )
    now, following, choosing, action, reward, discount = rows()

    @jax.jit
    def run(now, following, choosing, action, reward, discount):
        mean = losses.mean(choosing, SUPPORT)
        best = jnp.argmax(mean, axis=1)
        target = losses.categorical_target(following, best, reward, discount, SUPPORT)
        return mean, losses.categorical_loss(now, action, target)

    mean, ours = run(now, following, choosing, action, reward, discount)
    learning = jax.vmap(rlax.categorical_double_q_learning, (None, 0, 0, 0, 0, None, 0, 0))
    expected = jax.jit(learning)(SUPPORT, now, action, reward, discount, SUPPORT, following, mean)
    np.testing.assert_allclose(ours, expected, rtol=1e-4)


def test_double_q_error_and_huber_loss():
    now, following, choosing, action, reward, discount = (
        leaf[..., :1] if leaf.ndim == 3 else leaf for leaf in rows()
    )
    best = jnp.argmax(losses.mean(choosing, None), axis=1)
    target = losses.scalar_target(following, best, reward, discount)
    loss, error = losses.huber_loss(now, action, target)
    expected = jax.vmap(rlax.double_q_learning)(
        now[..., 0], action, reward, discount, following[..., 0], choosing[..., 0]
    )
    np.testing.assert_allclose(error, jnp.abs(expected), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(loss, rlax.huber_loss(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [1, 3, 20])
def test_n_step_returns(n):
    """For all transitions that may be drawn, from episodes that end within and beyond n steps."""
    steps, gamma = 200, 0.99
    rng = np.random.default_rng(n)
    reward = rng.normal(size=steps).astype(np.float32)
    terminated = rng.random(steps) < 0.06
    value = rng.normal(size=steps + 1).astype(np.float32)
    replay = prioritized.init(steps + 1, 1, (1,), jnp.float32, n=n, stack=1)
    never = jnp.zeros(1, bool)
    add = jax.jit(lambda *arguments: prioritized.add(*arguments, n=n, stack=1))
    for t in range(steps):
        # The frame is the value of its state.
        arguments = jnp.full((1, 1), value[t]), jnp.zeros(1, jnp.int32), reward[t : t + 1]
        replay = add(replay, *arguments, terminated[t : t + 1], never, jnp.full(1, t))

    @jax.jit
    def sample(key, replay):
        return prioritized.sample(key, replay, 512, n=n, stack=1, gamma=gamma)

    drawn = sample(jax.random.key(0), replay)
    ours = drawn.reward + drawn.discount * drawn.next_observation[:, 0]
    discount = gamma * (1 - terminated.astype(np.float32))
    returns = jax.jit(rlax.n_step_bootstrapped_returns, static_argnums=3)
    expected = returns(reward, discount, value[1:], n)
    assert len(np.unique(drawn.slot)) > 100
    np.testing.assert_array_equal(drawn.bonus_index, drawn.slot)
    np.testing.assert_allclose(ours, expected[drawn.slot], rtol=1e-4, atol=1e-5)
