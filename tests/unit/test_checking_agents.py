"""Agents whose functions return what does not fit end in one sentence; ours do not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.base import Acting, Learner, LearnerState, OnPolicyLearner
from re3_jax.agents.checking import check_learner, validated
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.build import make_learner, planned
from re3_jax.runs.errors import UsageError
from re3_jax.runs.resolve import resolve
from re3_jax.training.off_policy import init_state, train_step
from tests.probe_envs import aim

LANES = 3
SPEC = EnvSpec("mine:task", (2,), np.dtype(np.float32), Discrete(4), 10)
TASKS = {
    "a2c": "doorkey_6x6",
    "ppo": "doorkey_6x6",
    "rad": "brax:halfcheetah",
    "drq": "cheetah_run_sparse",
    "rainbow": "gymnax:CartPole-v1",
    "dreamer": "pixels:bar",
}


def acting(**changes):
    functions = {
        "begin": lambda agent, frame: frame,
        "act": lambda agent, memory, key, explore: (memory, jnp.zeros(LANES, jnp.int32)),
        "see": lambda memory, frame, begins: frame,
    }
    return Acting(**functions | changes)


def first(key, frame):
    return LearnerState(jnp.zeros(2), (), (), frame)


def phase(state, agent_steps, key):
    return state, {"loss": jnp.float32(1)}


def off_policy(**changes):
    return Learner(
        SPEC, LANES, 0, acting(), first,
        restart=lambda state, frame: state,
        store=lambda state, action, step: state._replace(memory=step.frame),
        updates_due=lambda before, after: after - before,
        phases=(phase,),
    )._replace(**changes)  # fmt: skip


def on_policy(**changes):
    def learn(state, rollout, agent_steps, key):
        return state, {"loss": jnp.mean(rollout.reward)}

    return OnPolicyLearner(SPEC, LANES, 5, acting(), first, learn)._replace(**changes)


@pytest.mark.parametrize("learner", [off_policy(), on_policy()])
def test_what_fits_is_traced(learner):
    info = check_learner(learner)
    assert {name: (form.shape, form.dtype) for name, form in info.items()} == {
        "loss": ((), jnp.float32)
    }


def act(action):
    return acting(act=lambda agent, memory, key, explore: (memory, action))


def ending(change):
    """A phase that changes what `phase` returns."""
    return (lambda *arguments: change(*phase(*arguments)),)


WRONG = [
    (
        off_policy(acting=act(jnp.zeros((LANES, 1), jnp.int32))),
        r"act .* int32\[3, 1\], where .*\[3\]",
    ),
    (
        off_policy(acting=act(jnp.zeros(LANES))),
        r"act of the agent returns is float32\[3\], where int32",
    ),
    (off_policy(acting=act(jnp.int32(0))), r"actions that act .* is int32\[\], where int32\[1\]"),
    (
        off_policy(acting=acting(act=lambda *_: jnp.zeros(LANES, jnp.int32))),
        r"act of the agent returns one value: return \(memory, action\)",
    ),
    (
        off_policy(acting=acting(see=lambda memory, frame, begins: frame[0])),
        r"memory that see of the agent returns has float32\[2\]",
    ),
    (off_policy(init=lambda key, frame: frame), "init of the agent returns a .* LearnerState"),
    (off_policy(restart=lambda state, frame: state.agent), "restart of the agent returns a"),
    (
        off_policy(store=lambda state, action, step: state._replace(agent=jnp.zeros(3))),
        r"the state that store of the agent returns has float32\[3\] at .agent, but it was",
    ),
    (
        off_policy(updates_due=lambda before, after: 0.5),
        r"updates_due .* is float32\[\], where",
    ),
    (off_policy(updates_due=lambda before, after: jnp.ones(2, int)), r"updates_due .* int32\[2\]"),
    (off_policy(updates_due=lambda before, after: (1,)), r"updates_due .* int32\[1\], where"),
    (
        on_policy()._replace(forget=lambda state: state.agent),
        r"forget of the agent returns one value: return \(agent, bonus\)",
    ),
    (
        on_policy()._replace(forget=lambda state: (jnp.zeros(3), state.intrinsic)),
        r"what forget of the agent returns has float32\[3\] at ",
    ),
    (off_policy(phases=()), "phases of the agent are no functions in a tuple"),
    (off_policy(phases=phase), "phases of the agent are no functions in a tuple"),
    (off_policy(learns=("agnet",)), "learns of the agent has agnet: choose from agent, intrinsic"),
    (off_policy(phases=ending(lambda state, info: state)), "a phase of the agent returns 4 values"),
    (off_policy(phases=ending(lambda state, info: (state, None))), "info that a phase .* NoneType"),
    (
        off_policy(phases=ending(lambda state, info: (state, {"loss": {"a": jnp.float32(0)}}))),
        "'loss' in the info of a phase of the agent is a dict",
    ),
    (
        off_policy(phases=ending(lambda state, info: (state, {"loss": jnp.ones(3)}))),
        r"'loss' in the info of a phase of the agent is float32\[3\], where float32\[\] is needed",
    ),
    (
        off_policy(phases=ending(lambda state, info: (state, {"reward_mean": jnp.float32(9)}))),
        "the agent reports reward_mean, as the loop does",
    ),
    (
        off_policy(phases=(phase, *ending(lambda state, info: (state, {"other": info["loss"]})))),
        r"phases of the agent report different names \(loss, other\)",
    ),
    (
        off_policy(
            phases=ending(lambda state, info: (state._replace(agent=state.agent[:1]), info))
        ),
        r"the state that a phase of the agent returns has float32\[1\] at .agent",
    ),
    (on_policy(learn=lambda state, *_: state), "learn of the agent returns 4 values: return"),
    (on_policy(learn=lambda state, *_: (state.agent, {})), "learn of the agent returns a .* state"),
    (on_policy(learn=lambda state, *_: (state, {"episodes": jnp.float32(1)})), "reports episodes"),
    (on_policy(learn=None), "learn of the agent is a NoneType: give a function"),
    (off_policy(store=[]), "store of the agent is a list: give a function"),
    (off_policy(acting=acting(see=None)), "see of the agent is a NoneType: give a function"),
    (off_policy(acting=phase), "acting of the agent is a function: give an Acting of re3_jax.age"),
    (None, "make of the agent returns a NoneType: return a Learner or an OnPolicyLearner"),
]


@pytest.mark.parametrize(("learner", "words"), WRONG)
def test_what_does_not_fit_is_one_sentence(learner, words):
    with pytest.raises(ValueError, match=words) as refused:
        check_learner(validated(learner))
    assert "\n" not in str(refused.value)


def test_whole_numbers_and_answers_of_yes_or_no_are_taken():
    learner = off_policy(
        updates_due=lambda before, after: after >= 6,
        phases=ending(lambda state, info: (state, {"loss": jnp.int32(3)})),
    )
    checked = validated(learner)
    assert checked.updates_due(0, 3) == 0 and checked.updates_due(3, 6) == 1
    due = jax.jit(checked.updates_due)(jnp.int32(3), jnp.int32(6))
    assert due == 1 and due.dtype == jnp.int32
    of_bytes = validated(off_policy(updates_due=lambda before, after: jnp.uint8(3)))
    due = of_bytes.updates_due(0, 3)
    assert due == 3 and due.dtype == jnp.int32
    state = checked.init(jax.random.key(0), jnp.zeros((LANES, 2)))
    _, info = checked.phases[0](state, jnp.int32(0), jax.random.key(0))
    assert info["loss"] == 3 and info["loss"].dtype == jnp.float32


def test_a_phase_that_repeats_in_the_cycle_stays_one():
    checked = validated(off_policy(phases=(phase, *ending(lambda *result: result), phase)))
    assert checked.phases[0] is checked.phases[2] is not checked.phases[1]


@pytest.mark.parametrize("agent", AGENTS)
def test_ours_fit(agent):
    config, spec = planned(resolve(TASKS[agent], agent, preset="debug"))
    assert check_learner(make_learner(config, spec))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_lanes": 7}, "the learner of --agent rad has 7 lanes, but its num_envs is 8"),
        (None, "make of --agent rad returns a OnPolicyLearner, but its entry says on_policy=False"),
    ],
)
def test_a_learner_that_contradicts_its_entry_is_refused(monkeypatch, change, words):
    made = AGENTS["rad"].make

    def other(config, spec, bonus):
        return on_policy() if change is None else made(config, spec, bonus)._replace(**change)

    entry = AGENTS["rad"]
    monkeypatch.setitem(AGENTS, "rad", entry.__class__(**vars(entry) | {"make": other}))
    config, spec = planned(resolve("brax:halfcheetah", "rad", preset="debug"))
    with pytest.raises((ValueError, UsageError), match=words):
        make_learner(config, spec)


def test_actions_out_of_bounds_are_clipped_for_the_environment_and_stored_as_chosen():
    env, stored = aim(), []
    executed = []

    def step(state, action, key):
        jax.debug.callback(lambda action: executed.append(float(action[0])), action)
        return env.step(state, action, key)

    def store(state, action, step):
        jax.debug.callback(lambda action: stored.append(float(action[0, 0])), action)
        return state

    far = acting(act=lambda agent, memory, key, explore: (memory, jnp.full((1, 1), 7.0)))
    learner = off_policy(spec=env.spec, num_lanes=1, acting=far, store=store)
    assert isinstance(env.spec.action_space, Box)
    watched = env._replace(step=step)
    train_step(watched, learner, init_state(watched, learner, jax.random.key(0)))
    jax.effects_barrier()
    assert (stored, executed) == ([7.0], [env.spec.action_space.high])
