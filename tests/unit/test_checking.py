"""What a user's bonus or environment returns is checked while it is traced."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.envs import registry
from re3_jax.envs.base import Box, DeviceEnv, Discrete, EnvSpec, TimeStep
from re3_jax.envs.checking import check_env
from re3_jax.envs.checking import validated as validated_env
from re3_jax.interop.numpy_bonus import NumpyBonus
from re3_jax.interop.vector_env import BonusVectorEnv
from re3_jax.intrinsic import (
    IntrinsicBatch,
    IntrinsicReward,
    RE3Config,
    Step,
    chain,
    check_bonus,
    e3b,
    from_config,
    ngu,
    none,
    rnd,
    sum_of,
    vcse,
)
from re3_jax.intrinsic.base import no_index
from re3_jax.intrinsic.checking import validated
from tests import probe_envs

SPEC = EnvSpec("car", (2,), np.dtype(np.float32), Discrete(3), max_agent_steps=20)
ARM = EnvSpec("arm", (2,), np.dtype(np.float32), Box((4,), -1.0, 1.0), max_agent_steps=20)
ENTROPY = RE3Config(ring_size=128, latent_dim=4)


def mine(**changed):
    """A bonus that counts its updates, with some functions replaced."""
    functions = {
        "init": lambda key, spec, num_lanes=1: {"count": jnp.int32(0)},
        "observe": lambda state, step: (state, no_index(step)),
        "reward": lambda state, batch: (jnp.zeros(len(batch.observation)), state, {}),
        "update": lambda state, batch, key: ({"count": state["count"] + 1}, {}),
    }
    return IntrinsicReward(**{**functions, **changed})


def test_a_task_whose_observations_differ_by_rounding_is_right():
    """XLA computes gymnax's observation once for each of the two places where it is."""
    assert check_env(registry.make("gymnax:Pendulum-v1")).shape == (4,)


def test_observations_that_differ_by_more_are_not():
    env = registry.make("gymnax:Pendulum-v1")

    def step(state, action, key):
        state, timestep = env.step(state, action, key)
        return state, timestep._replace(final_observation=timestep.final_observation + 1e-3)

    with pytest.raises(ValueError, match="final_observation"):
        check_env(env._replace(step=step))


@pytest.mark.parametrize("spec", [SPEC, ARM], ids=["discrete", "continuous"])
@pytest.mark.parametrize(
    "make",
    [
        none,
        mine,
        lambda: from_config(ENTROPY),
        lambda: e3b.from_config(e3b.E3BConfig(), 128),
        lambda: ngu.from_config(ngu.NGUConfig(), 128),
        lambda: vcse.from_config(vcse.VCSEConfig(), ENTROPY),
        lambda: rnd.from_config(rnd.RNDConfig()),
        lambda: sum_of({"re3": from_config(ENTROPY), "e3b": e3b.from_config(e3b.E3BConfig(), 128)}),
    ],
    ids=["none", "mine", "re3", "e3b", "ngu", "vcse", "rnd", "a sum"],
)
def test_bonuses_of_the_package_pass(make, spec):
    logged = check_bonus(make(), spec)
    assert "intrinsic_reward_mean" in logged


def rows(batch):
    return len(batch.observation)


WRONG = {
    "one value": (
        {"update": lambda state, batch, key: state},
        "update of the bonus returns one value: return (state, info)",
    ),
    "two of three": (
        {"reward": lambda state, batch: (jnp.zeros(rows(batch)), state)},
        "reward of the bonus returns 2 values: return (reward, state, info)",
    ),
    "a column": (
        {"reward": lambda state, batch: (jnp.zeros((rows(batch), 1)), state, {})},
        "the reward that reward of the bonus returns is float32[4, 1], where float32[4] is needed",
    ),
    "whole numbers": (
        {"reward": lambda state, batch: (jnp.zeros(rows(batch), jnp.int32), state, {})},
        "is int32[4], where float32[4] is needed",
    ),
    "an index of floats": (
        {"observe": lambda state, step: (state, jnp.zeros(len(step.observation)))},
        "the index that observe of the bonus returns is float32[4], where int32[4] is needed",
    ),
    "a state of another dtype": (
        {"update": lambda state, batch, key: ({"count": state["count"] + 0.5}, {})},
        "the state that update of the bonus returns has float32[] at ['count'], but it was int32[]",
    ),
    "a state of another structure": (
        {"observe": lambda state, step: ((), no_index(step))},
        "the state that observe of the bonus returns has another structure",
    ),
    "a vector to log": (
        {"update": lambda state, batch, key: (state, {"loss": jnp.zeros(3)})},
        "'loss' in the info of update of the bonus is float32[3], where float32[] is needed",
    ),
    "no dict": (
        {"update": lambda state, batch, key: (state, 0.5)},
        "the info that update of the bonus returns is a float: return a dict",
    ),
    "a word to log": (
        {"update": lambda state, batch, key: (state, {"loss": "small"})},
        "'loss' in the info of update of the bonus is a str, where float32[] is needed",
    ),
    "a name with a comma": (
        {"update": lambda state, batch, key: (state, {"novelty, mean": jnp.float32(1.0)})},
        "the info of update of the bonus has the name 'novelty, mean', which is no name of",
    ),
    "a blank name": (
        {"update": lambda state, batch, key: (state, {" ": jnp.float32(1.0)})},
        "the info of update of the bonus has the name ' ', which is no name of",
    ),
    "targets of no row": (
        {"targets": lambda state, batch: jnp.zeros(3)},
        "targets of the bonus returns an array of shape [3]: its first axis must be that of the",
    ),
    "a restart of other lanes": (
        {"restart": lambda state, lanes=None: {"count": jnp.zeros(2, jnp.int32)}},
        "the state that restart of the bonus returns has int32[2] at ['count']",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_bonus_that_returns_something_else_is_told_what_to_return(name):
    changed, sentence = WRONG[name]
    with pytest.raises(ValueError) as caught:
        check_bonus(mine(**changed), SPEC)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_a_numpy_loop_is_told_it_too():
    bonus = NumpyBonus(mine(**WRONG["a column"][0]), SPEC, num_lanes=4)
    seen = np.zeros((4, 2), np.float32)
    index = bonus.observe(seen)
    action, steps = np.zeros(4, np.int32), np.int32(0)
    with pytest.raises(ValueError, match=r"is float32\[4, 1\], where float32\[4\] is needed"):
        bonus.reward(IntrinsicBatch(seen, action, seen, index, steps))
    with pytest.raises(ValueError, match=r"is float32\[12, 1\], where float32\[12\] is needed"):
        bonus.reward_rollout(Step(np.zeros((3, 4, 2), np.float32)))


def walk(ends=True, **changed):
    """A task that counts to its limit of 20, and begins again."""

    def reset(key):
        return jnp.int32(0), jnp.zeros(2)

    def step(state, action, key):
        state = state + 1
        truncated = (state == 20) & ends
        seen = jnp.full(2, state, jnp.float32)
        state = jnp.where(truncated, 0, state)
        following = jnp.where(truncated, 0.0, seen)
        given = {
            "observation": following,
            "reward": jnp.float32(1),
            "terminated": jnp.bool_(False),
            "truncated": truncated,
            "final_observation": seen,
        }
        return state, TimeStep(**{**given, **changed})

    return DeviceEnv(SPEC, reset, step)


def cliff():
    """Four steps if each is the one action of twenty that does not end the episode."""

    def reset(key):
        return jnp.int32(0), jnp.zeros(2)

    def step(state, action, key):
        state = state + 1
        terminated = action != 0
        truncated = (state >= 4) & ~terminated
        seen = jnp.full(2, state, jnp.float32)
        state = jnp.where(terminated | truncated, 0, state)
        following = jnp.where(terminated | truncated, 0.0, seen)
        return state, TimeStep(following, jnp.float32(1), terminated, truncated, seen)

    spec = dataclasses.replace(SPEC, action_space=Discrete(20), max_agent_steps=4)
    return DeviceEnv(spec, reset, step)


def line(state_begins=True, seen_begins=True, final_is_next=False):
    """Five cells with an end at each side, which nobody leaves; episodes begin in the middle."""

    def shown(place):
        return jnp.full(2, place, jnp.float32)

    def reset(key):
        return (jnp.int32(2), jnp.int32(0)), shown(2)

    def step(state, action, key):
        place, steps = state
        moved = place + jnp.where(action == 0, -1, 1)
        place, steps = jnp.where((place == 0) | (place == 4), place, moved), steps + 1
        terminated, truncated = (place <= 0) | (place >= 4), steps >= 20
        ended = terminated | truncated
        following = jnp.where(ended & seen_begins, shown(2), shown(place))
        final = jnp.where(ended & final_is_next, shown(2), shown(place))
        begun = (jnp.where(ended, 2, place), jnp.where(ended, 0, steps))
        after = begun if state_begins else (place, steps)
        return after, TimeStep(following, jnp.float32(1), terminated, truncated, final)

    return DeviceEnv(SPEC, reset, step)


def with_spec(**changed):
    return walk()._replace(spec=dataclasses.replace(SPEC, **changed))


def test_episodes_may_nearly_all_last_one_step():
    for seed in range(12):
        check_env(cliff(), seed=seed)


@pytest.mark.parametrize(
    "env",
    [
        walk(),
        line(),
        probe_envs.corridor(5),
        probe_envs.aim(),
        registry.make("minigrid:DoorKey-5x5"),
    ],
    ids=lambda env: env.spec.task,
)
def test_environments_that_keep_their_promises_pass(env):
    assert check_env(env).shape == (4,)


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (walk(ends=False), "an episode of car goes on for more than its max_agent_steps of"),
        (
            with_spec(action_space=Box((2, 3), -1.0, 2.0)),
            "the actions of car have the shape (2, 3), which is no vector: make the action space "
            "Box((6,), -1, 2)",
        ),
        (with_spec(action_space=Box((), -1.0, 1.0)), "make the action space Box((1,), -1, 1)"),
        (with_spec(observation_shape=()), "an observation of car is a single number: make it a"),
        (with_spec(frame_stack=2), "car has a frame_stack of 2, which is for environments on the"),
        (walk(reward=jnp.float32(np.nan)), "an observation or a reward of car is NaN or infinite"),
        (
            walk(observation=jnp.full(2, jnp.nan), final_observation=jnp.full(2, jnp.nan)),
            "an observation or a reward of car is NaN or infinite",
        ),
        (walk(final_observation=jnp.zeros(2)), "final_observation of car is not the observation"),
        (
            line(state_begins=False, seen_begins=False),
            "after the first end of an episode of car every step ends one",
        ),
        (line(state_begins=False), "after the first end of an episode of car every step ends one"),
        (line(seen_begins=False), "where episodes of car end, observation is always the same as"),
        (line(final_is_next=True), "where episodes of car end, observation is always the same as"),
        (walk(reward=jnp.zeros(1)), "reward of a step of car is float32[1], where float32[]"),
        (walk(terminated=jnp.int32(0)), "terminated of a step of car is int32[], where bool[]"),
        (
            walk(observation=jnp.zeros((2, 1))),
            "observation of a step of car is float32[2, 1], where float32[2] is needed",
        ),
    ],
)
def test_an_environment_that_breaks_one_is_named_with_the_remedy(env, sentence):
    with pytest.raises(ValueError) as caught:
        check_env(env)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_a_step_that_returns_something_else_than_a_time_step():
    env = walk()
    plain = validated_env(env._replace(step=lambda state, action, key: (state, (0.0, False))))
    with pytest.raises(ValueError, match=r"returns a tuple beside the state: return a re3_jax\."):
        jax.eval_shape(plain.step, jnp.int32(0), jnp.int32(0), jax.random.key(0))


def test_whole_numbers_are_taken_in_a_run():
    """Plugins of earlier versions returned them; `check_bonus` and `check_env` ask for float32."""

    def reward(state, batch):
        return jnp.ones(rows(batch), jnp.int32), state, {"seen": jnp.bool_(True), "count": 3}

    bonus = validated(mine(reward=reward))
    seen = jnp.zeros((4, 2))
    batch = IntrinsicBatch(seen, jnp.zeros(4, jnp.int32), seen, jnp.zeros(4, jnp.int32), 0)
    paid, _, info = bonus.reward({"count": jnp.int32(0)}, batch)
    assert paid.dtype == jnp.float32 and paid.tolist() == [1] * 4
    assert {name: (value.dtype.name, float(value)) for name, value in info.items()} == {
        "seen": ("float32", 1.0),
        "count": ("float32", 3.0),
    }
    env = validated_env(walk(reward=jnp.int32(2)))
    _, timestep = env.step(jnp.int32(0), jnp.int32(0), jax.random.key(0))
    assert timestep.reward.dtype == jnp.float32 and timestep.reward == 2


@pytest.mark.parametrize(
    "use",
    [
        chain,
        lambda bonus: sum_of({"re3": bonus}),
        lambda bonus: check_bonus(bonus, SPEC),
        lambda bonus: BonusVectorEnv(None, bonus),
    ],
)
def test_options_in_place_of_a_bonus_are_told_what_to_give(use):
    with pytest.raises(TypeError, match="bonus is a RE3Config: give an IntrinsicReward, such as"):
        use(ENTROPY)


def test_a_sum_of_nothing_is_refused():
    with pytest.raises(TypeError, match="give each bonus a name"):
        sum_of({})


@pytest.mark.parametrize("bounds", [(-jnp.inf, jnp.inf), (0.0, jnp.inf), (-3e38, 3e38)])
def test_actions_without_bounds_are_named_and_not_the_observations_that_they_make(bounds):
    env = registry.make("gymnax:Pendulum-v1")
    unbounded = dataclasses.replace(env.spec, action_space=Box((1,), *bounds))
    with pytest.raises(ValueError, match="lie between .*, from which none can be drawn at random"):
        check_env(env._replace(spec=unbounded))
