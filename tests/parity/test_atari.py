"""Atari lanes against envpool's own environment, which drops an action at every reset."""

import jax
import numpy as np
import pytest

from re3_jax.envs.base import Discrete
from re3_jax.envs.host import atari, atari_games, envpool
from re3_jax.envs.host.config import AtariConfig

pytest.importorskip("envpool_assets", reason="envpool is not installed")

ACTIONS = {"pong": 6, "breakout": 4, "freeway": 3, "beam_rider": 9, "asterix": 9, "qbert": 6}
FULL = ("montezuma_revenge", "seaquest", "private_eye", "venture")


@pytest.fixture
def lanes():
    made = []

    def make(game="breakout", num_lanes=1, **config):
        made.append(atari.AtariLanes(game, AtariConfig(**config), num_lanes))
        return made[-1]

    yield make
    for one in made:
        one.close()


def play(env, seeds, actions):
    """First frames, and the steps that the actions [time, lane] led to."""
    first, steps = env.reset(np.asarray(seeds)), []
    for action in actions:
        env.send(action)
        steps.append(env.receive())
    return first, steps


def draw_actions(count, num_lanes=1, num_actions=4):
    return np.random.default_rng(0).integers(0, num_actions, (count, num_lanes))


def raw(seed, **options):
    """Envpool's own environment, which resets an ended episode in the following step."""
    options = {"stack_num": 1, "use_fire_reset": False, "use_inter_area_resize": False} | options
    return envpool.load().make_gymnasium("Breakout-v5", num_envs=1, seed=seed, **options)


def test_all_57_games_are_there():
    assert len(atari_games.GAMES) == 57
    known = set(envpool.load().list_all_envs())
    assert {atari_games.pool_name(game) for game in atari_games.GAMES} <= known


@pytest.mark.parametrize("game", [*ACTIONS, *FULL])
def test_what_an_agent_sees(game):
    spec = atari.spec(game, AtariConfig())
    assert spec.action_space == Discrete(18 if game in FULL else ACTIONS[game])
    assert (spec.observation_shape, spec.observation_dtype) == ((84, 84, 4), np.uint8)
    assert (spec.action_repeat, spec.max_agent_steps, spec.colours) == (4, 27_000, 1)


def test_every_action_is_played_and_no_step_spans_an_episode(lanes):
    actions = draw_actions(900)
    first, steps = play(lanes(), [3], actions)
    env = raw(3)
    observation, _ = env.reset()
    np.testing.assert_array_equal(first[0, :, :, 0], observation[0, 0])
    for action, ours in zip(actions, steps, strict=True):
        observation, reward, terminated, truncated, _ = env.step(action.astype(np.int32))
        np.testing.assert_array_equal(ours.final_frame[0, :, :, 0], observation[0, 0])
        assert (ours.reward[0], ours.terminated[0]) == (reward[0], terminated[0])
        assert not ours.truncated[0] and not truncated[0]
        if terminated[0]:
            observation, *_ = env.step(np.zeros(1, np.int32))
        np.testing.assert_array_equal(ours.frame[0, :, :, 0], observation[0, 0])
    assert sum(int(step.terminated[0]) for step in steps) >= 2


def test_a_lost_life_ends_the_task_and_not_the_episode(lanes):
    _, steps = play(lanes(), [3], draw_actions(900))
    terminated = np.array([step.terminated[0] for step in steps])
    task_ended = np.array([step.task_ended[0] for step in steps])
    ends = np.flatnonzero(terminated)
    assert len(ends) >= 2
    for begin, end in zip([0, *ends[:-1] + 1], ends, strict=True):
        # Breakout has five lives.
        assert task_ended[begin : end + 1].sum() == 5 and task_ended[end]
    for step, lost in zip(steps, task_ended & ~terminated, strict=True):
        if lost:
            np.testing.assert_array_equal(step.frame, step.final_frame)
    _, steps = play(lanes(life_ends=False), [3], draw_actions(900))
    np.testing.assert_array_equal([step.task_ended[0] for step in steps], terminated)


def test_lanes_are_independent(lanes):
    actions = draw_actions(250, num_lanes=3)
    first, together = play(lanes(num_lanes=3), [5, 6, 5], actions)
    for lane, seed in ((0, 5), (1, 6)):
        alone_first, alone = play(lanes(), [seed], actions[:, lane : lane + 1])
        np.testing.assert_array_equal(first[lane], alone_first[0])
        for one, other in zip(together, alone, strict=True):
            for ours, theirs in zip(*map(jax.tree.leaves, (one, other)), strict=True):
                np.testing.assert_array_equal(ours[lane], theirs[0])
    np.testing.assert_array_equal(first[0], first[2])


def test_a_time_limit_truncates(lanes):
    _, steps = play(lanes(max_agent_steps=30), [1], np.zeros((65, 1), int))
    assert [i for i, step in enumerate(steps) if step.truncated[0]] == [29, 59]
    assert not any(step.terminated[0] or step.task_ended[0] for step in steps)


@pytest.mark.parametrize(("sticky", "same"), [(0.0, False), (1.0, True)])
def test_sticky_actions_repeat_the_action_before(lanes, sticky, same):
    """Before the first action no button is pressed; always repeated, it stays so."""
    moves = [np.full((40, 1), action) for action in (2, 3)]
    right, left = (play(lanes(sticky_actions=sticky), [1], move)[1] for move in moves)
    assert np.array_equal(right[-1].frame, left[-1].frame) == same


def test_names_and_scores():
    for name in ("montezuma_revenge", "MontezumaRevenge", "montezumarevenge"):
        assert atari_games.find(name) == "montezuma_revenge"
    with pytest.raises(ValueError, match="montezuma_revenge"):
        atari_games.find("montezumas_revenge")
    for game, scores in atari_games.GAMES.items():
        assert atari_games.human_normalised(game, scores.random) == 0
        assert atari_games.human_normalised(game, scores.human) == 1
    assert atari_games.human_normalised("pong", 15.0) == pytest.approx(35.7 / 35.3)
    # Wang et al. (2016); Mnih et al. (2015) have 5,775 and 20,182.
    found = [atari_games.GAMES[game].human for game in ("beam_rider", "seaquest")]
    assert found == [16926.5, 42054.7]


def test_states_cannot_be_read_or_written(lanes):
    env = lanes()
    assert not env.can_restore
    for call in (env.get_state, lambda: env.set_state({})):
        with pytest.raises(ValueError, match="envpool's lanes cannot be"):
            call()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_no_ops": 0}, "max_no_ops must be at least 1"),
        ({"sticky_actions": 1.5}, "sticky_actions must be from 0 to 1"),
        ({"frame_stack": 0}, "frame_stack must be at least 1"),
        ({"workers": 0}, "workers must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        AtariConfig(**options)
