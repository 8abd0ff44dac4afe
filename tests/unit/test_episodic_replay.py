"""A replay keeps what E3B, NovelD, NGU and counts knew when a step was observed."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.off_policy import observe
from re3_jax.agents.rainbow import learner as rainbow
from re3_jax.envs.base import CountableStates, LaneStep
from re3_jax.intrinsic import counts, e3b, ngu, noveld
from re3_jax.intrinsic.base import IntrinsicBatch, chain, none
from re3_jax.intrinsic.sums import sum_of
from re3_jax.replay.frame_stack import FrameStack
from tests import episodic_reference
from tests.equal import equal_arrays
from tests.probe_envs import corridor
from tests.unit.test_episodic_bonus import CAPACITY, LANES, LENGTH, RAINBOW

SIZES = {"latent_dim": 6, "hidden_dim": 8}
NGU = {"neighbours": 2, "kernel_epsilon": 0.01, "cluster_distance": 0.0, "pseudo_count": 0.01}
BONUSES = {
    "e3b": e3b.e3b(e3b.E3BConfig(**SIZES), CAPACITY),
    "noveld": noveld.noveld(noveld.NovelDConfig(**SIZES), CAPACITY),
    "ngu": ngu.ngu(ngu.NGUConfig(**SIZES, **NGU), CAPACITY),
    "counts": counts.counts(counts.CountsConfig(), CAPACITY),
    "episodic counts": counts.counts(counts.CountsConfig(episodic=True), CAPACITY),
}


def numbered_corridor():
    env = corridor(LENGTH)
    states = CountableStates(lambda state: state[0], LENGTH + 1, LENGTH)
    spec = dataclasses.replace(env.spec, num_states=LENGTH + 1)
    return env._replace(spec=spec, states=states)


def encoded(state, observation):
    """phi of one-hot observations [time, lane, place], by hand."""
    hidden, output = state.encoder.params.encoder
    hidden = np.maximum(observation @ hidden.kernel + hidden.bias, 0)
    return np.asarray(hidden @ output.kernel + output.bias)


def expected(name, state, seen, after, ended):
    """What the bonus must have stored for [time, lane] steps that it observed."""
    if name == "e3b":
        return episodic_reference.elliptical(encoded(state, seen), ended, 0.1)
    if name == "noveld":
        return episodic_reference.first_visits(seen, after, ended)
    if name == "ngu":
        return episodic_reference.pseudo_counts(
            encoded(state, seen), ended, k=2, epsilon=0.01, xi=0.0, c=0.01, most=8.0
        )
    visits = episodic_reference.visits(seen.argmax(-1), ended if "episodic" in name else None)
    return visits**-0.5


@pytest.mark.parametrize("name", BONUSES)
def test_the_stored_index_finds_what_was_known_when_the_step_was_observed(name):
    env, bonus = numbered_corridor(), BONUSES[name]
    learner = rainbow.make_learner(RAINBOW, env.spec, bonus)
    steps = CAPACITY // LANES

    def step(carry, key):
        lanes, state = carry
        action = jax.random.randint(key, (LANES,), 0, 2)
        after, timestep = jax.vmap(env.step)(lanes, action, jax.random.split(key, LANES))
        numbers = jax.vmap(env.states.counted)(lanes)
        state = learner.store(state, action, LaneStep.of_device(timestep, numbers))
        return (after, state), (action, timestep.final_observation)

    @jax.jit
    def play(key):
        lanes, frame = jax.vmap(env.reset)(jax.random.split(key, LANES))
        begun = lanes, learner.init(key, frame)
        (_, state), told = jax.lax.scan(step, begun, jax.random.split(key, steps))
        return state.intrinsic, state.replay, *told

    intrinsic, replay, action, after = jax.device_get(play(jax.random.key(0)))
    seen = replay.frames.all()[:CAPACITY].reshape(steps, LANES, -1)
    ended = (replay.terminated | replay.truncated).reshape(steps, LANES)
    assert ended.any() and not ended.all(axis=1).any()
    wanted = expected(name, intrinsic, seen, after, ended).reshape(-1)
    assert wanted.std() > 0.03
    index = replay.bonus_index.reshape(-1)
    if name in ("noveld", "ngu"):
        found = getattr(intrinsic, "is_first" if name == "noveld" else "episodic").values[index]
    else:
        flat = (leaf.reshape(CAPACITY, *leaf.shape[2:]) for leaf in (seen, action, after))
        found, _, _ = bonus.reward(intrinsic, IntrinsicBatch(*flat, index, np.int32(0)))
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        # The sum holds both of these.
        pytest.param("e3b", marks=pytest.mark.slow),
        pytest.param("ngu", marks=pytest.mark.slow),
        "noveld",
        "counts",
        "episodic counts",
        "sum",
    ],
)
def test_restarted_episodes_are_forgotten_like_ended_ones(name):
    """Where the environments of a resumed run could not be restored."""
    env, bonus = numbered_corridor(), BONUSES.get(name)
    if bonus is None:
        bonus = sum_of({part: chain(BONUSES[part]) for part in ("e3b", "ngu")})
    learner = rainbow.make_learner(RAINBOW, env.spec, bonus)

    @jax.jit
    def play(key, ended):
        """What is known after three steps, and after a restart that follows them."""
        lanes, frame = jax.vmap(env.reset)(jax.random.split(key, LANES))
        state, action = learner.init(key, frame), jnp.ones(LANES, int)
        for last in (False, False, ended):
            numbers = jax.vmap(env.states.counted)(lanes)
            lanes, timestep = jax.vmap(env.step)(lanes, action, jax.random.split(key, LANES))
            step = LaneStep.of_device(timestep, numbers)
            done = jnp.full(LANES, last)
            step = step._replace(terminated=done, task_ended=done)
            state = learner.store(state, action, step)
        some = jnp.arange(LANES) % 2 == 0
        in_two = bonus.restart(bonus.restart(state.intrinsic, some), ~some)
        return state.intrinsic, learner.restart(state, frame).intrinsic, in_two

    def leaves(ended):
        return [jax.tree.leaves(known) for known in jax.device_get(play(jax.random.key(0), ended))]

    (goes_on, restarted, in_two), (after_end, _, _) = leaves(False), leaves(True)
    jax.tree.map(equal_arrays, restarted, after_end)
    jax.tree.map(equal_arrays, in_two, restarted)
    differs = any((one != other).any() for one, other in zip(goes_on, restarted, strict=True))
    assert differs == (name != "counts")


def test_a_lost_life_ends_no_episode_of_the_bonus():
    told, frame = [], jnp.zeros((3, 1))
    bonus = none()._replace(
        observe=lambda state, step: (told.append(step), (state, jnp.arange(3)))[1]
    )
    terminated, truncated, lost = jnp.eye(3, dtype=bool)
    step = LaneStep(frame, jnp.zeros(3), terminated, truncated, frame, terminated | lost)
    observe(bonus, (), FrameStack(1), frame, jnp.zeros(3, jnp.int32), step)
    np.testing.assert_array_equal(told[0].terminated, terminated)
    np.testing.assert_array_equal(told[0].truncated, truncated)
