"""What an update reports: the agent's numbers and the bonus's, side by side."""

import jax.numpy as jnp
import pytest

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


def reporting(name):
    """No bonus, with a number of that name beside it."""
    silent = none()

    def reward(state, batch):
        paid, state, info = silent.reward(state, batch)
        return paid, state, {**info, name: jnp.float32(0)}

    return silent._replace(reward=reward)
