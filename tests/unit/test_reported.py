"""What an update reports: the agent's numbers and the bonus's, side by side."""

import jax
import jax.numpy as jnp
import pytest

from re3_jax.agents.a2c import learner as a2c
from re3_jax.agents.base import OF_THE_LOOP, reported
from re3_jax.agents.sac import learner as sac
from re3_jax.intrinsic import none
from re3_jax.runs import build
from re3_jax.runs.options import parse


@pytest.mark.parametrize(
    ("env", "agent", "name"),
    [
        ("doorkey_6x6", "a2c", "policy_loss"),
        ("doorkey_6x6", "ppo", "value_loss"),
        ("doorkey_6x6", "rainbow", "loss"),
        ("gymnax:Pendulum-v1", "rad", "critic_loss"),
        ("pixels:bar", "dreamer", "kl"),
    ],
)
def test_a_bonus_cannot_replace_a_number_of_its_agent(monkeypatch, env, agent, name):
    """Traced, not run."""
    words = ["--env", env, "--agent", agent, "--bonus", "none", "--preset", "debug"]
    config = parse([*words, "--chunk-updates", "1"])
    with_name = reporting(name)
    monkeypatch.setattr(build, "make_bonus", lambda config: with_name)
    program = build.device_program(config, build.make_environment(config.env))
    with pytest.raises(ValueError, match=f"the bonus reports {name}, as the agent does"):
        program.lowered(config.seeds)


@pytest.mark.parametrize("name", ["seed", "env_frames", "reward_mean", "episodes"])
def test_a_bonus_cannot_replace_what_the_loop_measures(name):
    with pytest.raises(ValueError, match=f"the bonus reports {name}, as the loop does: give it"):
        reported({"loss": 1.0}, {name: 2.0})
    with pytest.raises(ValueError, match=f"the agent reports {name}, as the loop does: give it"):
        reported({name: 2.0}, {})


def test_a_bonus_cannot_replace_what_is_reported_of_every_one(monkeypatch):
    program = a2c_program(monkeypatch, reporting("intrinsic_reward_mean"))
    with pytest.raises(ValueError, match="intrinsic_reward_mean, which is reported of every bonus"):
        program.lowered(1)


@pytest.mark.parametrize(("env", "agent"), [("doorkey_6x6", "a2c"), ("gymnax:Pendulum-v1", "rad")])
def test_names_of_the_loop_are_known(monkeypatch, env, agent):
    module = {"a2c": a2c, "rad": sac}[agent]
    monkeypatch.setattr(module, "reported", lambda by_agent, by_bonus: {})
    words = ["--env", env, "--agent", agent, "--bonus", "none", "--preset", "debug"]
    config, _ = build.prepared(parse(words))
    program = build.device_program(config, build.make_environment(config.env))
    _, metrics = jax.eval_shape(program.train, program.abstract_state(config.seeds))
    assert metrics and metrics.keys() <= OF_THE_LOOP


def a2c_program(monkeypatch, bonus):
    config, _ = build.prepared(parse(["--env", "doorkey_6x6", "--preset", "debug"]))
    monkeypatch.setattr(build, "make_bonus", lambda config: bonus)
    return build.device_program(config, build.make_environment(config.env))


def reporting(name):
    """No bonus, with a number of that name beside it."""
    silent = none()

    def reward(state, batch):
        paid, state, info = silent.reward(state, batch)
        return paid, state, {**info, name: jnp.float32(0)}

    return silent._replace(reward=reward)
