"""A2CConfig refuses impossible settings in one sentence."""

import math

import pytest

from re3_jax.agents.a2c.config import A2CConfig


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"num_envs": 0}, "num_envs must be at least 1, but it is 0"),
        ({"rollout_length": -1}, "rollout_length must be at least 1"),
        ({"hidden_dim": 0}, "hidden_dim must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0"),
        ({"learning_rate": math.nan}, "learning_rate must be a finite number above 0"),
        ({"rmsprop_eps": 0.0}, "rmsprop_eps must be a finite number above 0"),
        ({"max_grad_norm": math.inf}, "max_grad_norm must be a finite number above 0"),
        ({"entropy_coef": -0.1}, "entropy_coef must be a finite number of at least 0"),
        ({"value_coef": math.nan}, "value_coef must be a finite number of at least 0"),
        ({"discount": 1.01}, "discount must be from 0 to 1"),
        ({"gae_lambda": math.nan}, "gae_lambda must be from 0 to 1"),
        ({"rmsprop_decay": 1.0}, "rmsprop_decay must be at least 0 and below 1"),
        ({"bonus_target": "value"}, "unknown bonus_target 'value': choose one of reward"),
    ],
)
def test_bad_settings_are_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        A2CConfig(**values)


def test_the_ends_of_the_ranges_are_allowed():
    A2CConfig(num_envs=1, rollout_length=1, hidden_dim=1, entropy_coef=0, value_coef=0)
    A2CConfig(discount=0, gae_lambda=0, rmsprop_decay=0)
    A2CConfig(discount=1, gae_lambda=1)
