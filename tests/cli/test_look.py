"""`make look` at a run of a few seconds."""

import matplotlib.image
import numpy as np
import pytest

from re3_jax.commands import look
from re3_jax.runs import interface, machine
from re3_jax.runs.looking import figures
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


@pytest.mark.slow
def test_a_bonus_without_latents_has_the_pictures_that_need_none(tmp_path, capsys):
    interface.train(TASK, bonus="rnd", out=tmp_path / "run", progress=False, **OPTIONS)
    assert look.main([str(tmp_path / "run")]) == 0
    latents, states, neighbours = capsys.readouterr().out.splitlines()
    assert latents == "no latents.png: --bonus rnd stores no latents in this run"
    assert is_picture(states) and neighbours.startswith("no neighbours.png: --bonus rnd")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["keycorridor_s3r1", "multiroom_n2_s4"])
def test_a_task_that_numbers_no_states_has_the_picture_of_where_the_agent_is(
    task, tmp_path, monkeypatch
):
    drawn, of_states = [], figures.of_states
    monkeypatch.setattr(
        figures, "of_states", lambda *given: drawn.append(given) or of_states(*given)
    )
    interface.train(task, out=tmp_path / "run", progress=False, **OPTIONS)
    assert look.main([str(tmp_path / "run")]) == 0
    assert is_picture(tmp_path / "run" / "look" / "states.png")
    ((rows, _),) = drawn
    (shares,) = rows.values()
    np.testing.assert_allclose(shares.sum(axis=(1, 2, 3)), 1.0)
    # The agent goes through doors, so it is not in one cell alone.
    assert ((shares.sum(axis=-1) > 0).sum(axis=(1, 2)) > 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["rainbow", "ppo"])
def test_minatar_has_the_pictures_of_latents(agent, tmp_path, capsys):
    run = tmp_path / "run"
    interface.train(
        "gymnax:Breakout-MinAtar", agent, out=run, preset="debug", progress=False, seeds=1
    )
    assert look.main([str(run)]) == 0
    latents, states, neighbours = capsys.readouterr().out.splitlines()
    assert is_picture(latents) and is_picture(neighbours)
    assert states.startswith("no states.png: the states of gymnax:Breakout-MinAtar are no cells")
