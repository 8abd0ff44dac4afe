"""Between Rainbow's replay and its agent: what is stored, drawn and given back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.rainbow import learner as rainbow_learner
from re3_jax.agents.rainbow.agent import make_rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.envs.base import Discrete, EnvSpec, LaneStep
from re3_jax.intrinsic.base import none
from re3_jax.replay import prioritized

LANES, STEPS, N = 2, 10, 2
WHOLE = LANES * (STEPS - N)
SPEC = EnvSpec("gymnax:any", (1,), np.dtype(np.float32), Discrete(3), 200)
CONFIG = RainbowConfig(
    torso="mlp",
    hidden_dim=4,
    num_atoms=3,
    discount=0.9,
    n_steps=N,
    batch_size=12,
    priority_weight=0.4,
    initial_agent_steps=100,
    anneal_agent_steps=1_100,
    replay_capacity=24,
    num_envs=LANES,
    reward_clip=0.5,
)

FRAMES = np.arange((STEPS + 1) * LANES, dtype=np.float32).reshape(-1, LANES, 1)
"""Each shows its number, which is the place in the replay where it is stored."""

REWARD = np.random.default_rng(0).uniform(-0.5, 0.5, (STEPS, LANES)).astype(np.float32)
ACTION = np.random.default_rng(1).integers(0, 3, (STEPS, LANES)).astype(np.int32)
ENDED = np.zeros((STEPS, LANES), bool)
ENDED[5, 0] = ENDED[7, 1] = True
PRIORITY = np.random.default_rng(2).uniform(1, 3, WHOLE).astype(np.float32)


def new_priority(number):
    return 10 + number


def stored(learner, reward):
    """The state after the steps that have these rewards."""
    state = jax.jit(learner.init)(jax.random.key(0), jnp.asarray(FRAMES[0]))
    store = jax.jit(learner.store)
    for t in range(len(reward)):
        frame, never = FRAMES[t + 1], np.zeros(LANES, bool)
        step = LaneStep(frame, reward[t], ENDED[t], never, frame, ENDED[t])
        state = store(state, ACTION[t], step)
    return state


@pytest.fixture(scope="module")
def learner():
    """Rainbow's, whose agent learns nothing and reports what it would learn from."""
    silent = make_rainbow(CONFIG, SPEC)._replace(
        init=lambda key: (),
        update=lambda state, batch, key: (
            state,
            new_priority(batch.observation[:, 0]),
            {name: leaf.astype(jnp.float32) for name, leaf in batch._asdict().items()},
        ),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rainbow_learner, "make_rainbow", lambda config, spec: silent)
        return rainbow_learner.make_learner(CONFIG, SPEC, none())


@pytest.fixture(scope="module")
def update(learner):
    """What one update gave the agent, and the replay after it; priorities were unequal."""
    state = stored(learner, REWARD)
    replay = prioritized.update_priorities(state.replay, jnp.arange(WHOLE), jnp.asarray(PRIORITY))
    # Halfway between the first update and the step at which beta is 1.
    learn = jax.jit(learner.phases[0])
    state, batch = learn(state._replace(replay=replay), jnp.int32(600), jax.random.key(3))
    return jax.device_get((batch, state.replay))


def test_an_update_is_given_discounted_and_weighted_transitions(update):
    batch, _ = update
    number = batch["observation"][:, 0].astype(int)
    row, lane = np.divmod(number, LANES)
    first, second = ENDED[row, lane], ENDED[row + 1, lane]
    assert first.any() and (second & ~first).any() and not (first | second).all()
    np.testing.assert_array_equal(batch["action"], ACTION[row, lane])
    later = np.where(first, 0, 0.9 * REWARD[row + 1, lane])
    np.testing.assert_allclose(batch["reward"], REWARD[row, lane] + later, rtol=1e-5)
    np.testing.assert_array_equal(batch["bonus"], 0)
    ended = first | second
    np.testing.assert_allclose(batch["discount"], np.where(ended, 0, 0.9**2), rtol=1e-6)
    following = batch["next_observation"][~ended, 0]
    np.testing.assert_array_equal(following, FRAMES[row + N, lane, 0][~ended])
    weight = (WHOLE * PRIORITY[number] / PRIORITY.sum()) ** -0.7
    np.testing.assert_allclose(batch["weight"], weight / weight.max(), rtol=1e-4)
    assert np.ptp(weight) > 0.1


def test_new_priorities_belong_to_the_transitions_that_were_drawn(update):
    batch, replay = update
    drawn = np.isin(np.arange(WHOLE), batch["observation"][:, 0])
    assert drawn.any() and not drawn.all()
    expected = np.where(drawn, new_priority(np.arange(WHOLE)), PRIORITY)
    np.testing.assert_allclose(replay.tree.levels[0].reshape(-1)[:WHOLE], expected, rtol=1e-6)


def test_rewards_are_clipped_on_either_side(learner):
    state = stored(learner, np.array([[-3, 3], [-0.2, 0.2]], np.float32))
    np.testing.assert_allclose(state.replay.reward[:2], [[-0.5, 0.5], [-0.2, 0.2]], rtol=1e-6)
