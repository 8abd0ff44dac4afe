"""Rainbow's Atari program with every bonus and stacks of any length: traced, not run."""

import jax
import pytest

from re3_jax.envs.host import atari
from re3_jax.runs.build import build, task_spec
from re3_jax.runs.options import parse

LANES, SEEDS = 2, 2
GAME = ("--env", "atari:Breakout", "--agent", "rainbow", "--preset", "debug", "--seeds", str(SEEDS))


def trace(*options):
    """Shapes of the state and of an update's metrics; no lane is started."""
    config = parse([*GAME, "--rainbow.num-envs", str(LANES), "--chunk-updates", "1", *options])
    program = build(config, task_spec(config), print)
    state = program.abstract_state(SEEDS)
    programs = program.programs
    state, info = programs.learn[0].eval_shape(state)
    memory, action = jax.eval_shape(programs.act, state)
    step = jax.eval_shape(lambda: program.on_device(program._zero_step()))
    after, _ = programs.store.eval_shape(state, action, step)
    shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)  # noqa: E731
    assert shapes(after) == shapes(state)
    return memory, info


@pytest.mark.parametrize("bonus", ["re3", "rnd", "contrastive"])
def test_bonuses_reward_the_drawn_transitions(bonus):
    _, info = trace("--bonus", bonus)
    assert info["intrinsic_reward_mean"].shape == (SEEDS,)


@pytest.mark.parametrize("bonus", ["icm", "inverse_dynamics"])
def test_bonuses_of_single_steps_learn_from_single_steps(bonus):
    _, info = trace("--bonus", bonus)
    assert info["intrinsic_reward_mean"].shape == (SEEDS,)


def test_any_number_of_frames_is_stacked():
    observation, _ = trace("--bonus", "re3", "--atari.frame-stack", "3")
    assert observation.shape == (SEEDS, LANES, atari.SIZE, atari.SIZE, 3)
