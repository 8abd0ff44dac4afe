"""What agents and bonuses are called in legends and tables."""

import itertools

from re3_jax.runs import labels
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.bonuses import BONUSES


def test_rows_are_called_as_in_the_papers():
    assert labels.of("rad", "re3") == "RAD + RE3"
    assert labels.of("rainbow", "none") == "Rainbow"
    assert labels.of("ppo", "re3+noveld") == "PPO + RE3 + NovelD"
    assert labels.of("drq", "inverse_dynamics") == "DrQ + SE w/ Inverse dynamics"


def test_what_nobody_registered_is_written_in_capitals():
    assert labels.of("reinforce", "mine+rnd") == "REINFORCE + MINE + RND"


def test_no_two_rows_have_one_label():
    rows = [labels.of(*row) for row in itertools.product(AGENTS, BONUSES)]
    assert len(rows) == len(AGENTS) * len(BONUSES) == len(set(rows))
