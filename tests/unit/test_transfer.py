"""What a fine-tuned run inherits: the list, read off the states of every agent and bonus."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.inheritance import inherits
from re3_jax.intrinsic.base import ChainState
from re3_jax.runs.build import make_learner, task_spec
from re3_jax.runs.resolve import resolve
from re3_jax.training import on_policy, transfer
from re3_jax.training.train_state import Counters, Lanes, TrainState
from tests.probe_envs import countdown

AGENTS = {
    # task, agent: (inherited, afresh)
    ("doorkey_6x6", "a2c"): ({"params"}, {"opt_state"}),
    ("doorkey_6x6", "ppo"): ({"params"}, {"opt_state"}),
    ("cheetah_run_sparse", "rad"): (
        {"actor", "critic", "target"},
        {
            "log_alpha",
            "actor_opt_state",
            "critic_opt_state",
            "temperature_opt_state",
            "actor_info",
        },
    ),
    ("doorkey_6x6", "rainbow"): ({"online", "target"}, {"opt_state", "updates"}),
}

DREAMER = (
    {"model", "actor", "value"},
    {"model_opt_state", "actor_opt_state", "value_opt_state"},
)

BONUSES = {
    # bonus: (inherited, afresh) within `intrinsic/`
    "none": (set(), set()),
    "re3": ({"bonus/encoder", "transforms"}, {"bonus/ring"}),
    "rnd": ({"bonus/target", "bonus/predictor"}, {"bonus/opt_state"}),
    "icm": ({"bonus/params"}, {"bonus/opt_state"}),
    "e3b": (
        {"bonus/encoder/params", "transforms"},
        {"bonus/encoder/opt_state", "bonus/root", "bonus/begins", "bonus/bonuses"},
    ),
    "noveld": (
        {"bonus/rnd/target", "bonus/rnd/predictor"},
        {"bonus/rnd/opt_state", "bonus/seen", "bonus/is_first"},
    ),
    "ngu": (
        {
            *("bonus/encoder/params", "bonus/distance", "bonus/errors"),
            *("bonus/rnd/target", "bonus/rnd/predictor"),
        },
        {
            *("bonus/encoder/opt_state", "bonus/rnd/opt_state", "bonus/memory"),
            "bonus/episodic",
        },
    ),
    "contrastive": (
        {"bonus/encoder/params", "bonus/encoder/key_encoder", "transforms"},
        {"bonus/encoder/opt_state", "bonus/ring"},
    ),
    "inverse_dynamics": (
        {"bonus/encoder/params", "transforms"},
        {"bonus/encoder/opt_state", "bonus/ring"},
    ),
    "apt": (
        {"bonus/encoder/params", "bonus/encoder/key_encoder", "transforms"},
        {"bonus/encoder/opt_state"},
    ),
    "rise": ({"bonus/encoder"}, {"bonus/ring"}),
    "vcse": ({"bonus/encoder"}, {"bonus/ring"}),
}

OTHER = {"memory", "lanes", "counters", "key", "evaluation_key"}


def abstract(task, bonus, agent=None, **changes):
    """Shapes of one seed's state, but for the environments; nothing is computed."""
    config = resolve(task, agent=agent, bonus=bonus, preset="debug")
    for group, options in changes.items():
        group_config = dataclasses.replace(getattr(config, group), **options)
        config = dataclasses.replace(config, **{group: group_config})
    spec = task_spec(config)
    learner = make_learner(config, spec)
    key = jax.eval_shape(lambda: jax.random.key(0))
    shape = learner.num_lanes, *spec.frame_shape
    frame = jax.ShapeDtypeStruct(shape, spec.observation_dtype)
    counter = jax.ShapeDtypeStruct((), jnp.int32)
    return TrainState(
        *jax.eval_shape(learner.init, key, frame),
        lanes=Lanes((), None, counter, counter),
        counters=Counters(counter, counter, counter),
        key=key,
        evaluation_key=key,
        visited=None,
    )


def split(state):
    """Paths of all leaves: (inherited, afresh)."""
    names = {transfer.name_of(path) for path, _ in jax.tree_util.tree_leaves_with_path(state)}
    inherited = set(transfer.inherited(state))
    return inherited, names - inherited


def assert_below(names, allowed, prefix):
    """Each name is below one of `allowed`, and each of them has one below it."""
    found = {a for name in names for a in allowed if f"{name}/".startswith(f"{prefix}/{a}/")}
    assert found == allowed
    for name in names:
        assert any(f"{name}/".startswith(f"{prefix}/{a}/") for a in allowed), name


@pytest.mark.parametrize(("task", "agent"), AGENTS)
@pytest.mark.parametrize("bonus", BONUSES)
def test_the_list(task, agent, bonus):
    inherited, afresh = split(abstract(task, bonus, agent))
    # Rainbow's state entropy is not normalised, except by a name that says so.
    has_none = agent == "rainbow" and bonus not in ("e3b", "apt")
    statistics = {"transforms"} if has_none else set()
    weight = set() if bonus == "none" else {"transforms"}
    for names, of_agent, of_bonus in (
        (inherited, AGENTS[task, agent][0], BONUSES[bonus][0] - statistics),
        (afresh, AGENTS[task, agent][1], BONUSES[bonus][1] | weight),
    ):
        assert_below({n for n in names if n.startswith("agent/")}, of_agent, "agent")
        assert_below({n for n in names if n.startswith("intrinsic/")}, of_bonus, "intrinsic")
    assert {n.partition("/")[0] for n in inherited} <= {"agent", "intrinsic"}
    others = OTHER if agent in ("a2c", "ppo") else OTHER | {"replay"}
    assert {n.partition("/")[0] for n in afresh} - {"agent", "intrinsic"} == others


@pytest.mark.parametrize("bonus", ["none", "re3"])
def test_the_list_of_dreamer(bonus):
    """Its bonus keeps no latents."""
    inherited, afresh = split(abstract("cheetah_run_sparse", bonus, "dreamer"))
    for names, allowed in zip((inherited, afresh), DREAMER, strict=True):
        assert_below({n for n in names if n.startswith("agent/")}, allowed, "agent")
    of_bonus = {"bonus/encoder", "transforms"} if bonus == "re3" else set()
    assert_below({n for n in inherited if n.startswith("intrinsic/")}, of_bonus, "intrinsic")
    assert {n.partition("/")[0] for n in afresh} - {"intrinsic"} == OTHER | {"agent", "replay"}


def test_running_statistics_go_with_what_they_are_of():
    """RE3's standard deviation, not its weight; the moments that RND can divide observations by."""
    inherited, afresh = split(abstract("cheetah_run_sparse", "re3"))
    assert {n for n in inherited if "transforms" in n} == {
        f"intrinsic/transforms/0/{name}" for name in ("mean", "variance", "num_values")
    }
    assert {n for n in afresh if "transforms" in n} == {
        f"intrinsic/transforms/1/{name}" for name in ("beta", "log_keep")
    }
    options = {"normalize_observations": True, "normalize": "running_std"}
    inherited, _ = split(abstract("doorkey_6x6", "rnd", rnd=options))
    assert {"intrinsic/bonus/seen/variance", "intrinsic/transforms/0/variance"} <= inherited


def test_of_ppos_scales_none_is_taken_over():
    """Pre-training saw the bonus, or zeros, for the task's rewards, and perhaps another beta."""
    inherited, afresh = split(abstract("gymnax:Pendulum-v1", "none", "ppo"))
    assert_below(inherited, {"params", "seen"}, "agent")
    of_agent = {n for n in afresh if n.startswith("agent/")}
    assert_below(of_agent, {"opt_state", "reward_scales/extrinsic"}, "agent")
    two_heads = abstract("gymnax:Pendulum-v1", "re3", "ppo", ppo={"intrinsic_value_head": True})
    inherited, afresh = split(two_heads)
    assert not any(n.startswith("agent/reward_scales/") for n in inherited)
    assert any(n.startswith("agent/reward_scales/intrinsic/stats") for n in afresh)


def test_a_declaration_names_fields_that_there_are():
    with pytest.raises(AssertionError, match="Counters has not all of"):
        inherits("updates", "replay")(Counters)


def test_counts_are_of_the_states_of_one_task():
    """Only what they were divided by is taken over."""
    inherited, afresh = split(
        abstract("doorkey_6x6", "counts", counts={"normalize": "running_std"})
    )
    assert_below({n for n in inherited if n.startswith("intrinsic/")}, {"transforms"}, "intrinsic")
    of_bonus = {"bonus/visits", "bonus/stored", "transforms"}
    assert_below({n for n in afresh if n.startswith("intrinsic/")}, of_bonus, "intrinsic")


def test_ensembles_and_minibatches():
    inherited, _ = split(abstract("doorkey_6x6", "re3", re3={"ensemble_size": 3}))
    assert any(name.startswith("intrinsic/bonus/encoder/") for name in inherited)
    state = abstract("doorkey_6x6", "contrastive", learned={"neighbours": "minibatch"})
    inherited, afresh = split(state)
    assert not any("ring" in name for name in inherited | afresh)


def train_state(seed):
    env = countdown(4)
    config = resolve("gymnax:CartPole-v1", preset="debug")
    return on_policy.init_state(env, make_learner(config, env.spec), jax.random.key(seed))


def test_inherit_takes_all_that_is_listed_and_nothing_else():
    fresh, source = train_state(1), train_state(2)
    handed_on = transfer.inherited(source)
    after = transfer.inherit(fresh, handed_on)
    assert jax.tree.structure(after) == jax.tree.structure(fresh)
    taken = 0
    pairs = zip(jax.tree_util.tree_leaves_with_path(after), jax.tree.leaves(fresh), strict=True)
    for (path, leaf), before in pairs:
        name = transfer.name_of(path)
        if name in handed_on:
            assert leaf is handed_on[name]
            taken += not np.array_equal(leaf, before)
        else:
            assert leaf is before
    # Weights of the network and of the encoder; biases may be equal.
    assert taken >= 6


def test_without_a_bonus_the_agent_alone_is_taken():
    source = train_state(2)
    fresh = train_state(1)._replace(intrinsic=())
    after = transfer.inherit(fresh, transfer.inherited(source))
    assert after.intrinsic == ()
    for ours, theirs in zip(
        jax.tree.leaves(after.agent.params), jax.tree.leaves(source.agent.params), strict=True
    ):
        assert ours is theirs


def test_what_does_not_fit_is_refused():
    fresh, source = train_state(1), transfer.inherited(train_state(2))
    name = next(iter(source))
    with pytest.raises(ValueError, match=f"{name} is float32.* here and float32"):
        transfer.inherit(fresh, {**source, name: jnp.zeros((3, 3, 3))})
    del source[name]
    with pytest.raises(ValueError, match=f"has no {name}"):
        transfer.inherit(fresh, source)


def test_a_state_of_which_nothing_is_said_is_an_error():
    fresh = train_state(1)
    for part in ({"agent": fresh.counters}, {"intrinsic": ChainState(fresh.counters, ())}):
        with pytest.raises(TypeError, match="Counters does not say what .* inherits"):
            transfer.inherited(fresh._replace(**part))
