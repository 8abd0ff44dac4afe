"""`AGENT=rainbow` on the command line."""

import jax
import pytest

from re3_jax.envs import registry
from re3_jax.envs.device import gymnax
from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError
from re3_jax.runs.options import parse
from re3_jax.runs.presets.gymnax import CONTINUOUS
from re3_jax.runs.validate import check_memory, validate_for_task


def config_of(task, *more, preset="recommended"):
    words = ["--env", task, "--agent", "rainbow", "--preset", preset, *more]
    config = parse(words)
    validate_for_task(config, registry.make(task).spec)
    return config


@pytest.mark.parametrize(
    ("task", "torso"),
    [
        ("gymnax:Breakout-MinAtar", "minatar"),
        ("gymnax:CartPole-v1", "mlp"),
        ("doorkey_6x6", "mlp"),
    ],
)
@pytest.mark.parametrize("preset", ["recommended", "paper", "released", "debug"])
def test_presets(task, torso, preset):
    config = config_of(task, preset=preset)
    assert (config.agent, config.rainbow.torso) == ("rainbow", torso)
    # One latent per transition.
    assert config.re3.ring_size == config.rainbow.replay_capacity
    # The paper's bonus for Atari: log(1 + distance) with constant beta 0.0001.
    assert (config.re3.log1p, config.re3.normalize) == (True, "none")
    assert (config.re3.beta, config.re3.rho) == (1e-4, 0.0)


# gymnax downloads the images of the other.
@pytest.mark.parametrize("name", sorted({*gymnax.TASKS} - {*CONTINUOUS, "MNISTBandit-bsuite"}))
def test_the_support_goes_below_0_where_gymnax_pays_less(name):
    """From a least value of 0, all that costs is worth the same."""
    env, lanes = registry.make(f"gymnax:{name}"), 16

    @jax.jit
    def least(key):
        def body(state, key):
            keys = jax.random.split(key, lanes)
            action = jax.random.randint(key, (lanes,), 0, env.spec.action_space.num_actions)
            state, step = jax.vmap(env.step)(state, action, keys)
            return state, step.reward

        state, _ = jax.vmap(env.reset)(jax.random.split(key, lanes))
        return jax.lax.scan(body, state, jax.random.split(key, 200))[1].min()

    pays_less = bool(least(jax.random.key(0)) < 0)
    assert (config_of(f"gymnax:{name}").rainbow.v_min < 0) == pays_less


def test_a_cost_of_every_step_and_a_bonus_are_within_the_support():
    for name in ("Acrobot-v1", "MountainCar-v0"):
        rainbow = config_of(f"gymnax:{name}").rainbow
        assert rainbow.v_min <= -0.999 / (1 - rainbow.discount)
        assert rainbow.v_max > 1


@pytest.mark.parametrize("name", ["CartPole-v1", "Pong-misc", "BernoulliBandit-misc"])
def test_a_reward_of_every_step_is_within_the_support(name):
    """All good states would be worth the largest value otherwise."""
    env = registry.make(f"gymnax:{name}")

    def body(state, key):
        action = jax.random.randint(key, (), 0, env.spec.action_space.num_actions)
        state, step = env.step(state, action, key)
        return state, step.reward

    keys = jax.random.split(jax.random.key(0), 100)
    assert jax.lax.scan(body, env.reset(keys[0])[0], keys)[1].max() == 1
    rainbow = config_of(f"gymnax:{name}").rainbow
    assert rainbow.v_max >= 0.999 / (1 - rainbow.discount)


def test_deep_sea_rewards_cells_seen_rarely():
    config = config_of("gymnax:DeepSea-bsuite-14")
    assert config.re3.ring_size == config.rainbow.replay_capacity == config.steps
    assert config.re3.first_neighbour == config.re3.last_neighbour == 300
    assert (config.rainbow.n_steps, config.rainbow.noisy, config.re3.merge_copies) == (
        1,
        False,
        True,
    )
    assert config_of("gymnax:DeepSea-bsuite-14", preset="debug").re3.last_neighbour < 10


def test_defaults_are_kaixhins():
    """github.com/Kaixhin/Rainbow, main.py, in agent steps."""
    rainbow = RunConfig().rainbow
    assert (rainbow.num_atoms, rainbow.v_min, rainbow.v_max) == (51, -10.0, 10.0)
    assert (rainbow.n_steps, rainbow.discount, rainbow.noise) == (3, 0.99, 0.1)
    assert (rainbow.priority_exponent, rainbow.priority_weight) == (0.5, 0.4)
    assert (rainbow.learning_rate, rainbow.adam_eps) == (6.25e-5, 1.5e-4)
    assert (rainbow.max_grad_norm, rainbow.batch_size, rainbow.hidden_dim) == (10.0, 32, 512)
    assert (rainbow.replay_capacity, rainbow.initial_agent_steps) == (1_000_000, 20_000)
    assert (rainbow.agent_steps_per_update, rainbow.reward_clip) == (4, 1.0)
    # Every 8,000 agent steps.
    assert rainbow.target_every * rainbow.agent_steps_per_update == 8_000


@pytest.mark.parametrize(
    ("task", "more", "words"),
    [
        ("gymnax:Pendulum-v1", (), "--agent rainbow cannot act .* --agent rad"),
        ("doorkey_6x6", ("--a2c.num-envs", "4"), "--a2c.num-envs .* --agent rainbow.* --agent a2c"),
        ("doorkey_6x6", ("--re3.ring-size", "9"), "set --rainbow.replay-capacity"),
        (
            "gymnax:DeepSea-bsuite",
            ("--rainbow.replay-capacity", "208", "--re3.last-neighbour", "300"),
            "of rank 300: raise --rainbow.replay-capacity or lower --re3.last-neighbour",
        ),
        ("doorkey_6x6", ("--rainbow.num-atoms", "1"), "--rainbow.num-atoms must be at least 2"),
        ("doorkey_6x6", ("--rainbow.v-min", "99"), "--rainbow.v-min .* below --rainbow.v-max"),
        ("doorkey_6x6", ("--rainbow.torso", "deep"), "--rainbow.torso deep .* canonical"),
    ],
)
def test_bad_input_is_one_sentence(task, more, words):
    with pytest.raises(UsageError, match=words):
        config_of(task, *more)


def test_its_options_are_refused_with_other_agents():
    with pytest.raises(UsageError, match="--rainbow.n-steps has no effect with --agent a2c"):
        parse(["--env", "doorkey_6x6", "--rainbow.n-steps", "1"])


def test_memory_names_a_replay_that_its_lanes_fill():
    """A whole number of steps of all lanes, as the agent demands."""
    lanes = ("--rainbow.num-envs", "48", "--rainbow.replay-capacity", "960000")
    config = config_of("gymnax:CartPole-v1", *lanes)
    with pytest.raises(UsageError, match="--rainbow.replay-capacity .*would fit") as refusal:
        check_memory(2**27, 2**27 - 2**20, config)
    capacity = str(refusal.value).split("replay-capacity ")[1].split()[0]
    assert int(capacity) % 1000 == 0
    assert config_of("gymnax:CartPole-v1", *lanes[:3], capacity).rainbow.num_envs == 48
    assert int(capacity) % 48 == 0
