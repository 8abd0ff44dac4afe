"""`make look` at a run of a few seconds."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest

from re3_jax.agents.base import OnPolicyLearner
from re3_jax.commands import look
from re3_jax.envs.base import LaneStep
from re3_jax.intrinsic.base import Step
from re3_jax.runs import build, interface, machine
from re3_jax.runs.looking import figures, stored
from re3_jax.runs.options import parse
from re3_jax.training.host_rollout import collecting
from re3_jax.training.play import Played
from re3_jax.training.train_state import TrainState
from tests.cli.refusal import tree
from tests.kept_runners import kept_runners

TASK = "minigrid:DoorKey-5x5"
OPTIONS = {"preset": "debug", "steps": 512, "evaluation": {"every_env_frames": 512, "episodes": 2}}


@pytest.fixture(scope="module", autouse=True)
def quiet_process():
    """No test changes how this process uses JAX; equal programs are compiled once."""
    with pytest.MonkeyPatch.context() as patch, kept_runners():
        patch.setattr(machine, "keep_compiled_programs", lambda: None)
        patch.setattr(machine, "use_cpu_devices", lambda count: None)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory, quiet_process):
    folder = tmp_path_factory.mktemp("run") / "run"
    interface.train(TASK, out=folder, progress=False, **OPTIONS)
    return folder


def is_picture(path) -> bool:
    image = matplotlib.image.imread(path)
    return min(image.shape[:2]) > 100 and image[..., :3].std() > 0.01


def test_a_run_of_minigrid_has_all_three_pictures(run, capsys):
    before = tree(run)
    assert look.main([str(run), "--seed", "2"]) == 0
    paths = [run / "look" / f"{name}.png" for name in ("latents", "states", "neighbours")]
    assert capsys.readouterr().out.split() == [str(path) for path in paths]
    assert all(map(is_picture, paths))
    after = tree(run)
    assert {name: after[name] for name in before} == before


def test_what_is_shown_is_of_the_seed_asked_for(run, monkeypatch, tmp_path):
    looked, drawn, of_latents = [], [], figures.of_latents
    only_latents = {"latents": lambda run: looked.append(run) or look.latents(run)}
    monkeypatch.setattr(look, "PICTURES", only_latents)
    monkeypatch.setattr(
        figures, "of_latents", lambda *given: drawn.append(given[0]) or of_latents(*given)
    )
    assert look.main([str(run), "--seed", "2", "--out", str(tmp_path / "look")]) == 0
    intrinsic = looked[0].state.intrinsic
    rings = [stored.ring_of(jax.tree.map(lambda leaf, at=at: leaf[at], intrinsic)) for at in (0, 1)]
    first, second = (stored.latents(ring, stored.places(ring, look.POINTS)) for ring in rings)
    np.testing.assert_array_equal(drawn[0], second)
    assert not np.array_equal(first, second)
    assert looked[0].of_seed(np.array([1, 2])) == 2


def test_a_direction_counts_once_however_often_it_was_visited(run, monkeypatch, tmp_path):
    drawn, of_states = {}, figures.of_states
    monkeypatch.setattr(
        figures, "of_states", lambda rows, seeds: drawn.update(rows) or of_states(rows, seeds)
    )
    assert look.main([str(run), "--out", str(tmp_path / "look")]) == 0
    of_cells = drawn["directions visited so far"].sum(axis=-1)
    assert 0 < of_cells.max() <= figures.DIRECTIONS


def test_another_seed_and_another_folder_are_refused(run, tmp_path, capsys):
    assert look.main([str(run), "--seed", "9"]) == 2
    assert "--seed 9 is none of the run's seeds: 1 to 2" in capsys.readouterr().err
    (tmp_path / "notes.txt").touch()
    assert look.main([str(run), "--out", str(tmp_path)]) == 2
    assert "files that are not of a look at a run (notes.txt)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [([], "as in make look RUN=runs/a"), (["nowhere"], "nowhere holds no run")],
)
def test_what_is_no_run_is_refused(words, sentence, capsys):
    assert look.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and sentence in said


def looked_at(monkeypatch, config, learner, stores):
    """A look at a run of one seed, in which `stores` has changed the state at its beginning."""
    spec = learner.spec
    frame = jnp.zeros((learner.num_lanes, *spec.frame_shape), spec.observation_dtype)
    keys = jax.random.split(jax.random.key(0), 3)
    state = stores(jax.jit(lambda keys: TrainState.begin(learner, frame, {}, None, *keys))(keys))
    of_seeds = jax.tree.map(lambda leaf: jnp.expand_dims(leaf, 0), state)
    run = SimpleNamespace(config=config, state=of_seeds)
    monkeypatch.setattr(interface, "load", lambda folder, progress: run)
    return look.Looked("unread", 0)


def random_frames(spec, number):
    return np.random.default_rng(0).integers(0, 2, (number, *spec.frame_shape)).astype(bool)


@pytest.fixture
def colours(monkeypatch):
    """Of the latents, by their titles."""
    found, of_latents = {}, figures.of_latents
    monkeypatch.setattr(
        figures, "of_latents", lambda *given: found.update(given[1]) or of_latents(*given)
    )
    return found


MINATAR = ["--env", "gymnax:Breakout-MinAtar", "--preset", "debug", "--seeds", "1"]


def test_of_a_sum_the_state_entropy_is_looked_at(monkeypatch, tmp_path, colours):
    """Also where it is not the first part, and a replay has a row of indices for each step."""
    config = parse([*MINATAR, "--agent", "rainbow", "--bonus", "rnd+re3"])
    learner = build.make_learner(config, task := build.task_spec(config))

    def stores(state):
        store, lanes = jax.jit(learner.store), learner.num_lanes
        learned, never = state.learner, jnp.zeros(lanes, bool)
        for frame in random_frames(task, 20 * lanes).reshape(20, lanes, *task.frame_shape):
            step = LaneStep(frame, jnp.ones(lanes), never, never, frame, never)
            learned = store(learned, jnp.zeros(lanes, jnp.int32), step)
        return state.with_learner(learned)

    run = looked_at(monkeypatch, config, learner, stores)
    latents, states, neighbours = look.written(run, tmp_path)
    assert is_picture(latents) and is_picture(neighbours)
    assert states.startswith("no states.png: the states of gymnax:Breakout-MinAtar")
    assert list(colours) == ["env frame", "intrinsic reward of re3", "reward of the task"]
    assert len(run.drawn.place) > 10
    bonus, state = run.part.bonus, run.part.state
    encoded, index = jax.jit(bonus.observe)(state, Step(jnp.asarray(run.drawn.frame)))
    np.testing.assert_allclose(
        stored.latents(run.part.ring, run.drawn.place),
        stored.latents(stored.ring_of(encoded), index),
        atol=1e-6,
    )


@pytest.mark.parametrize("searched", ["minibatch", "ring"])
def test_a_bonus_of_values_has_pictures_of_its_latents(searched, monkeypatch, tmp_path, colours):
    words = ["--agent", "ppo", "--bonus", "vcse", "--vcse.neighbours", searched]
    # Fewer than are looked at: only so many fit the ring of the newest at once.
    if searched == "ring":
        words += ["--vcse.search-size", "20", "--ppo.num-envs", "2", "--ppo.rollout-length", "8"]
    config = parse([*MINATAR, *words])
    learner = build.make_learner(config, task := build.task_spec(config))
    frames, bonus = random_frames(task, 30), build.make_bonus(config)

    def stores(state):
        observe, intrinsic = jax.jit(bonus.observe), state.intrinsic
        for part in np.split(np.arange(30), 2):
            step = Step(jnp.asarray(frames[part]), value=jnp.asarray(part, jnp.float32))
            intrinsic, _ = observe(intrinsic, step)
        return state._replace(intrinsic=intrinsic)

    run = looked_at(monkeypatch, config, learner, stores)
    # Compiling the play takes longer than all the rest, and it is tested above.
    run.played = Played(frames[None, :, None], None)
    latents, *why, _, neighbours = look.written(run, tmp_path)
    assert is_picture(latents) and is_picture(neighbours)
    if searched == "ring":
        assert not why and np.std(colours["intrinsic reward of vcse"]) > 0
    else:
        assert list(colours) == ["env frame"]
        assert why[0].startswith("no colours by intrinsic reward: --bonus vcse compares")


def test_an_agent_without_replay_shows_no_frames_of_the_host(monkeypatch, tmp_path):
    pytest.importorskip("dm_control")
    words = ["--env", "cartpole_balance", "--agent", "ppo", "--preset", "debug", "--seeds", "1"]
    config = parse(words)
    learner = build.make_learner(config, build.task_spec(config))
    assert isinstance(learner, OnPolicyLearner)
    run = looked_at(monkeypatch, config, collecting(learner), lambda state: state)
    latents, _, neighbours = look.written(run, tmp_path)
    assert latents == "no latents.png: the run has hardly stored anything yet"
    assert neighbours.startswith("no neighbours.png: --agent ppo has no replay, and frames are")


@pytest.mark.slow
def test_a_bonus_without_latents_has_the_pictures_that_need_none(tmp_path, capsys):
    interface.train(TASK, bonus="rnd", out=tmp_path / "run", progress=False, **OPTIONS)
    assert look.main([str(tmp_path / "run")]) == 0
    latents, states, neighbours = capsys.readouterr().out.splitlines()
    assert latents == "no latents.png: --bonus rnd stores no latents in this run"
    assert is_picture(states) and neighbours.startswith("no neighbours.png: --bonus rnd")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["keycorridor_s3r1", "multiroom_n2_s4"])
def test_the_pictures_of_states_are_of_cells_in_several_rooms(task, tmp_path, monkeypatch):
    drawn, of_states = [], figures.of_states
    monkeypatch.setattr(
        figures, "of_states", lambda *given: drawn.append(given) or of_states(*given)
    )
    interface.train(task, out=tmp_path / "run", progress=False, **OPTIONS)
    assert look.main([str(tmp_path / "run")]) == 0
    assert is_picture(tmp_path / "run" / "look" / "states.png")
    ((rows, _),) = drawn
    shares, visited = rows.values()
    np.testing.assert_allclose(shares.sum(axis=(1, 2, 3)), 1.0)
    # The agent goes through doors, so it is not in one cell alone.
    assert ((shares.sum(axis=-1) > 0).sum(axis=(1, 2)) > 1).all()
    assert ((visited.sum(axis=-1) > 0).sum(axis=(1, 2)) > 1).all()


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "bonus"), [("rainbow", "re3+rnd"), ("ppo", "re3")])
def test_minatar_has_the_pictures_of_latents(agent, bonus, tmp_path, capsys):
    run = tmp_path / "run"
    interface.train(
        "gymnax:Breakout-MinAtar", agent, bonus, out=run, preset="debug", progress=False, seeds=1
    )
    assert look.main([str(run)]) == 0
    latents, states, neighbours = capsys.readouterr().out.splitlines()
    assert is_picture(latents) and is_picture(neighbours)
    assert states.startswith("no states.png: the states of gymnax:Breakout-MinAtar are no cells")
