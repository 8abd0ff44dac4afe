"""Bonuses that look at o_{t+1}, where a replay does not hold it: at the end of an episode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.rainbow import learner
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.envs.base import Discrete, EnvSpec, LaneStep
from re3_jax.intrinsic import e3b, icm, noveld, rnd
from re3_jax.intrinsic.base import IntrinsicBatch, Step, none
from tests.equal import equal_arrays
from tests.prediction_tasks import SIZES

SPEC = EnvSpec("line", (1,), np.dtype(np.float32), Discrete(2), max_agent_steps=50)
ENDS, OTHER = 10, 100


def stored(bonus, n_steps=1, **changes):
    """A learner after an episode of the places 0 to 10, and some steps of one from 100 on."""
    config = RainbowConfig(
        n_steps=n_steps, torso="mlp", hidden_dim=4, num_atoms=3, replay_capacity=100,
        initial_agent_steps=10, batch_size=64, agent_steps_per_update=1, **changes,
    )  # fmt: skip
    made = learner.make_learner(config, SPEC, bonus)
    state = made.init(jax.random.key(0), jnp.zeros((1, 1)))
    store = jax.jit(made.store)
    for place in (*range(ENDS), *range(OTHER, OTHER + 1 + n_steps)):
        done, after = jnp.array([place == ENDS - 1]), float(place + 1)
        begins = float(OTHER) if place == ENDS - 1 else after
        frame, last = jnp.full((1, 1), begins), jnp.full((1, 1), after)
        ended = jnp.zeros(1, bool)
        step = LaneStep(frame, jnp.zeros(1), done, ended, last, done)
        state = store(state, jnp.zeros(1, jnp.int32), step)
    return made, state


@pytest.mark.parametrize(("discount", "n_steps"), [(0.99, 1), (0.0, 1), (0.99, 3)])
def test_rainbow_says_where_its_replay_lacks_the_next_observation(discount, n_steps):
    batches = []

    def reward(state, batch):
        leaves = batch.observation, batch.next_observation, batch.next_is_known
        jax.debug.callback(lambda *leaves: batches.append(leaves), *leaves)
        return jnp.zeros(len(batch.observation)), state, {}

    made, state = stored(none()._replace(reward=reward), n_steps, discount=discount)
    jax.jit(made.phases[0])(state, jnp.int32(12), jax.random.key(1))
    jax.effects_barrier()
    ((before, after, known),) = batches
    assert set(before[~known, 0].tolist()) == {float(ENDS - 1)}
    np.testing.assert_array_equal(after[known], before[known] + 1)
    # What it holds there is of the next episode.
    assert set(after[~known, 0].tolist()) == {float(OTHER)}


def batch(**changes):
    keys = jax.random.split(jax.random.key(3), 2)
    seen, after = (jax.random.normal(key, (8, 1)) for key in keys)
    action, index = jnp.arange(8, dtype=jnp.int32) % 2, jnp.arange(8, dtype=jnp.int32)
    known = jnp.array([False, True, True, False, True, True, True, True])
    found = IntrinsicBatch(seen, action, after, index, jnp.int32(0), None, known)
    return found._replace(**changes)


BONUSES = {
    "icm": icm.from_config(icm.ICMConfig(**SIZES, beta=1.0)),
    "rnd": rnd.from_config(rnd.RNDConfig(**SIZES, beta=1.0, rewarded="next")),
    "e3b": e3b.from_config(e3b.E3BConfig(**SIZES, beta=1.0), 64),
    "noveld": noveld.from_config(noveld.NovelDConfig(**SIZES, beta=1.0), 64),
}


@pytest.mark.parametrize("name", BONUSES)
def test_nothing_is_paid_for_or_learned_from_what_is_not_known(name):
    """Whatever stands in its place changes nothing, and the other rows are paid as before."""
    bonus = BONUSES[name]
    state, given = bonus.init(jax.random.key(0), SPEC, 8), batch()
    flag = jnp.zeros(8, bool)
    step = Step(given.observation, given.action, given.next_observation, flag, flag)
    state, index = bonus.observe(state, step)
    given = given._replace(bonus_index=index)
    unknown = ~np.asarray(given.next_is_known)
    other = given.next_observation.at[unknown].set(1e3)
    found = [
        (
            bonus.reward(state, one)[0],
            bonus.update(state, one, jax.random.key(1))[0],
        )
        for one in (given, given._replace(next_observation=other))
    ]
    jax.tree.map(equal_arrays, *found)
    paid = np.asarray(found[0][0])
    # Its rewards are those of the step, from when it was stored.
    if name != "e3b":
        np.testing.assert_array_equal(paid[unknown], 0.0)
        assert (paid[~unknown] != 0).any()


def test_agent_steps_may_be_a_number_of_python():
    given = batch(agent_steps=3).with_known_next()
    assert given.agent_steps == 3
    np.testing.assert_array_equal(given.observation[0], batch().observation[1])
