"""Each episodic bonus does what it is for: on a line of places, with noise where noise matters."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import running_stats
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import e3b, ngu, noveld
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.rewarding import reward_rollout

PLACES, NOISE, TIME, LANES = 12, 8, 40, 32
STORED = TIME * LANES
SIZES = {"latent_dim": 16, "hidden_dim": 32, "learning_rate": 3e-3}
SPEC = EnvSpec("probe:line", (PLACES + NOISE,), np.dtype(np.float32), Discrete(2), TIME)
BONUSES = {
    "e3b": e3b.e3b(e3b.E3BConfig(**SIZES), STORED),
    "noveld": noveld.noveld(noveld.NovelDConfig(**SIZES), STORED),
    "ngu": ngu.ngu(ngu.NGUConfig(**SIZES, neighbours=2, kernel_epsilon=0.01), STORED),
}


def seen(place, rng):
    """One-hot places beside fresh noise, or none without `rng`."""
    shape = *place.shape, NOISE
    noise = np.zeros(shape) if rng is None else rng.normal(size=shape)
    return np.concatenate([np.eye(PLACES)[place], noise], axis=-1).astype(np.float32)


def walk(actions, start, rng=None):
    """One episode of walkers to the left (0) and to the right (1), and where they were."""
    place = [np.full(actions.shape[1], start)]
    for action in actions:
        place.append(np.clip(place[-1] + 2 * action - 1, 0, PLACES - 1))
    where, never = np.stack(place), np.zeros(actions.shape, bool)
    shown = seen(where, rng)
    return Step(shown[:-1], actions.astype(np.int32), shown[1:], never, never), where


@pytest.mark.parametrize("name", BONUSES)
def test_steps_of_more_lanes_than_it_was_made_for_are_refused(name):
    """Otherwise lanes would share episodes, or be forgotten, without a word."""
    bonus, (steps, _) = BONUSES[name], walk(np.ones((3, 4), int), 0)
    state = bonus.init(jax.random.key(0), SPEC)
    with pytest.raises(ValueError, match="episodes of 1 lane but is shown 4"):
        bonus.observe(state, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), steps))
    with pytest.raises(ValueError, match="episodes of 1 lane but is shown 4"):
        bonus.observe_rollout(state, steps)


@pytest.mark.parametrize("kind", [e3b.e3b, noveld.noveld, ngu.ngu])
def test_a_rollout_that_would_overwrite_its_own_steps_is_refused(kind):
    config = {e3b.e3b: e3b.E3BConfig, noveld.noveld: noveld.NovelDConfig, ngu.ngu: ngu.NGUConfig}
    steps, _ = walk(np.ones((3, 4), int), 0)
    for stored, fits in ((12, True), (11, False)):
        bonus = kind(config[kind](**SIZES), stored)
        state = bonus.init(jax.random.key(0), SPEC, 4)
        if fits:
            index = bonus.observe_rollout(state, steps)[1]
            assert len(np.unique(index)) == 12
        else:
            with pytest.raises(ValueError, match="12 values do not fit a ring of 11"):
                bonus.observe_rollout(state, steps)


def test_noveld_asks_for_the_next_observation():
    bonus, (steps, _) = BONUSES["noveld"], walk(np.ones((1, LANES), int), 0)
    state, index = bonus.observe_rollout(bonus.init(jax.random.key(0), SPEC, LANES), steps)
    batch = IntrinsicBatch(steps.observation[0], steps.action[0], None, index[0], jnp.int32(0))
    for ask in (bonus.reward, lambda *given: bonus.update(*given, jax.random.key(0))):
        with pytest.raises(ValueError, match="needs next_observation of every step"):
            ask(state, batch)


@cache
def trained(name, updates, places=PLACES, noisy=True):
    """The state after training on random steps among the first `places`."""
    bonus, rng = BONUSES[name], np.random.default_rng(1)
    before, action = rng.integers(0, places, (updates, 32)), rng.integers(0, 2, (updates, 32))
    after = np.clip(before + 2 * action - 1, 0, places - 1)
    shown = [seen(where, rng if noisy else None) for where in (before, after)]

    @jax.jit
    def train(before, action, after):
        def update(state, step):
            batch = IntrinsicBatch(*step, jnp.zeros(32, jnp.int32), jnp.int32(0))
            return bonus.update(state, batch, jax.random.key(0))[0], None

        state = bonus.init(jax.random.key(0), SPEC, LANES)
        return jax.lax.scan(update, state, (before, action, after))[0]

    return train(shown[0], action.astype(np.int32), shown[1])


@cache
def rollout(name):
    return jax.jit(lambda *given: reward_rollout(BONUSES[name], *given))


def paid(name, state, steps):
    return np.asarray(rollout(name)(state, steps, jnp.int32(0), jax.random.key(0))[0])


def first_visits(where):
    """Whether o_t shows a place for the first time; [time, lane]."""
    return np.array(
        [[place not in lane[:t] for t, place in enumerate(lane[:-1])] for lane in where.T]
    ).T


@pytest.mark.parametrize("name", ["e3b", "ngu"])
def test_learned_features_ignore_noise(name):
    """A new place is paid more than a known one under new noise, once actions can be predicted."""
    rng = np.random.default_rng(2)
    steps, where = walk(rng.integers(0, 2, (TIME, LANES)), PLACES // 2, rng)
    is_first = first_visits(where)[10:]

    def share_told_apart(updates):
        """Chance that a first visit is paid more than another, after ten steps."""
        bonus = paid(name, trained(name, updates), steps)[10:]
        return np.mean(bonus[is_first][:, None] > bonus[~is_first][None])

    told = share_told_apart(0), share_told_apart(400)
    assert told[1] > 0.8 and told[1] > told[0] + 0.15


def test_noveld_pays_for_crossing_into_novelty_once_an_episode():
    """Trained on places 0 to 5, there and back again: steps within them hardly pay."""
    there = np.repeat([[1] * 9 + [0] * 9 + [1] * 22], LANES, axis=0).T
    steps, where = walk(there, 2)
    bonus = paid("noveld", trained("noveld", 400, 6, noisy=False), steps)[:, 0]
    np.testing.assert_array_equal(where[[0, 3, 4, 9, 18], 0], [2, 5, 6, 11, 2])
    within, crossing, beyond = bonus[:3].max(), bonus[3], bonus[4:9].max()
    assert crossing > 4 * within and beyond > within
    np.testing.assert_array_equal(bonus[9:], 0)


@pytest.mark.parametrize(
    ("terminated", "truncated"),
    [(np.zeros(4, bool), np.zeros((4, 1), bool)), (np.zeros(4), np.zeros(4, bool))],
)
def test_flags_of_another_shape_or_kind_are_refused(terminated, truncated):
    with pytest.raises(ValueError, match="give bools, one of each lane"):
        _ = Step(np.zeros((4, 1)), terminated=terminated, truncated=truncated).ended


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_ngus_mean_leaves_out_distances_that_are_not_finite(bad):
    config = ngu.NGUConfig(**SIZES, neighbours=2, kernel_epsilon=0.01)
    stored, good = jnp.array([2, 2]), jnp.array([[1.0, 3.0], [2.0, 2.0]])
    start = ngu.Mean(jnp.float32(4.0), jnp.float32(4.0))
    _, after = ngu.episodic_reward(config, good.at[0, 0].set(bad), stored, start)
    assert after == start
    _, after = ngu.episodic_reward(config, good, stored, after)
    assert after == (3.0, 8.0)


@pytest.mark.parametrize("bad", [np.nan, np.copysign(np.nan, -1), np.inf])
def test_what_is_no_number_is_nobodys_neighbour_in_ngu(bad):
    """On a CPU `top_k` orders NaN by its sign: one of the two would be nearest for ever."""
    rng, bonus = np.random.default_rng(0), BONUSES["ngu"]
    pay = jax.jit(lambda *arguments: reward_rollout(bonus, *arguments))
    state, counted = bonus.init(jax.random.key(0), SPEC, 2), []
    for part in range(2):
        steps, _ = walk(rng.integers(0, 2, (TIME, 2)), 5, rng)
        if part == 0:
            steps.observation[4, 1] = bad
            steps.next_observation[3, 1] = bad
        reward, state, _ = pay(state, steps, 0, jax.random.key(part))
        counted.append(state.distance.num_values)
    assert (reward > 0).all()
    assert counted[1] - counted[0] == TIME * 2 * 2


def test_ngus_mean_of_a_long_run_does_not_drift():
    """Past 2^24 values, small contributions of a distance below the mean would be rounded away."""

    def body(i, mean):
        is_far = jax.random.uniform(jax.random.fold_in(jax.random.key(0), i)) < 0.1
        values = jnp.full((1, 10), jnp.where(is_far, 5.5, 0.5))
        return ngu._merge(mean, values, jnp.ones(1, bool))

    start = ngu.Mean(jnp.float32(1.0), jnp.float32(2.0**28))
    after = jax.jit(lambda: jax.lax.fori_loop(0, 5_000_000, body, start))()
    assert abs(after.mean - 1) < 0.03
    assert after.num_values == running_stats.MOST_BATCHES * 10


def test_ngu_pays_more_for_a_lifelong_novelty():
    """RND knows the places 0 to 5; without RND, the same rewards are not modulated."""
    state = trained("ngu", 400, 6, noisy=False)
    steps, where = walk(np.repeat([[0] * 28 + [1] * 12], LANES, axis=0).T, 0)
    plain = state._replace(rnd=jax.tree.map(jnp.zeros_like, state.rnd))
    modulated, episodic = (paid("ngu", one, steps)[28:] for one in (state, plain))
    np.testing.assert_array_equal(where[28:-1, 0], np.arange(12))
    ratio = modulated / episodic
    np.testing.assert_allclose(ratio[:6], 1.0, rtol=1e-5)
    assert ratio[6:].min() > 1.5 and ratio.max() < 5.0 + 1e-4
