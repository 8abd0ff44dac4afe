"""`re3_jax.train` and `re3_jax.load` against the command line: the same runs, bit for bit."""

import csv
import re
import shutil
import signal
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import re3_jax
from examples import python_api
from re3_jax.commands import train
from re3_jax.runs import history, lock, machine, observers, plugins
from re3_jax.runs import run as run_module
from re3_jax.runs.errors import UsageError
from re3_jax.runs.observers import Display
from re3_jax.runs.resolve import resolve
from re3_jax.training import digests
from re3_jax.training.replay_journal import without_frames
from tests.cli.refusal import tree
from tests.kept_runners import kept_runners
from tests.resume.compare import assert_same_run, rows

TASK = "gymnax:CartPole-v1"
STEPS, LONGER = 768, 1280
OPTIONS = {
    "preset": "debug",
    "chunk_updates": 4,
    "loggers": "none",
    "evaluation": {"every_env_frames": 256, "episodes": 4},
}
WORDS = (
    *("--env", TASK, "--preset", "debug", "--chunk-updates", "4", "--loggers", "none"),
    *("--evaluation.every-env-frames", "256", "--evaluation.episodes", "4"),
)


@pytest.fixture(scope="module", autouse=True)
def quiet_process():
    """No test changes how this process uses JAX; equal programs are compiled once."""
    with pytest.MonkeyPatch.context() as patch, kept_runners():
        patch.setattr(machine, "keep_compiled_programs", lambda: None)
        patch.setattr(machine, "use_cpu_devices", lambda count: None)
        yield


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def reference(tmp_path_factory, quiet_process) -> Path:
    """A run of the command line."""
    folder = tmp_path_factory.mktemp("reference") / "run"
    assert train.main([*WORDS, "--steps", str(STEPS), "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def longer(reference, tmp_path_factory) -> Path:
    """The same run, extended by the command line."""
    folder = tmp_path_factory.mktemp("longer") / "run"
    shutil.copytree(reference, folder)
    assert train.main(["--out", str(folder), "--resume", "--steps", str(LONGER)]) == 0
    return folder


def trained(steps: int = STEPS, **options) -> "re3_jax.runs.interface.Run":
    return re3_jax.train(TASK, steps=steps, **{**OPTIONS, "progress": False, **options})


def test_a_run_is_that_of_the_command_line_and_writes_nothing(reference, capsys, tmp_path):
    run = trained()
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []
    for table, arrays in (("eval.csv", run.curves), ("train.csv", run.metrics)):
        of_seeds = [[r for r in rows(reference / table) if r["seed"] == seed] for seed in "12"]
        for name in of_seeds[0][0].keys() - {"seed"}:
            expected = np.array([[float(row[name]) for row in found] for found in of_seeds])
            shown = arrays[name] if name != "env_frames" else np.tile(arrays[name], (2, 1))
            np.testing.assert_array_equal(shown, expected, err_msg=name)
    assert run.curves["return_mean"].shape == (2, 4)
    last = [row["state_sha256"] for row in rows(reference / "states.csv")[-2:]]
    assert digests.of_seeds(without_frames(run.state)) == last
    again = [found["return_mean"] for found in run.evaluate()["seeds"].values()]
    np.testing.assert_array_equal(again, run.curves["return_mean"][:, -1].astype(np.float32))
    assert any(found["return_std"] > 0 for found in run.evaluate()["seeds"].values())
    once = run.evaluate(episodes=1)
    assert once["episodes"] == 1
    assert [found["return_std"] for found in once["seeds"].values()] == [0.0, 0.0]
    of_greedy = {greedy: run.evaluate(greedy=greedy) for greedy in (False, True)}
    assert [found["greedy"] for found in of_greedy.values()] == [False, True]
    assert of_greedy[False]["seeds"] == run.evaluate()["seeds"] != of_greedy[True]["seeds"]

    run.save("saved")
    assert_same_run(Path.cwd() / "saved", reference)
    for table in ("train.csv", "eval.csv", "states.csv"):
        with (reference / table).open() as there, open(f"saved/{table}") as here:
            assert next(csv.reader(here)) == next(csv.reader(there))
    assert (Path("saved") / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert run.plot()._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(re3_jax.UsageError, match="already holds a run: save this one in"):
        run.save("saved")
    with pytest.raises(re3_jax.UsageError, match="out .*/saved already holds a run: .* --resume"):
        re3_jax.train("doorkey_6x6", out="saved")
    with pytest.raises(re3_jax.UsageError, match="a2c is a group of options: .* --a2c.NAME VALUE"):
        re3_jax.train("doorkey_6x6", a2c=3)
    with pytest.raises(re3_jax.UsageError, match="--episodes 1.5 is not possible"):
        run.evaluate(episodes=1.5)
    with pytest.raises(re3_jax.UsageError, match="needs a task on the host that is seen as pixels"):
        run.video()


def interrupt_at(monkeypatch, env_frames: int, count: int = 1) -> None:
    """Ctrl-C, so many times, once so many frames are trained."""
    show = Display.trained

    def trained(self, session, metrics):
        show(self, session, metrics)
        if session.record.env_frames == env_frames:
            for _ in range(count):
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Display, "trained", trained)


def test_a_run_goes_on_exactly_after_ctrl_c(reference, monkeypatch, capsys):
    before = signal.getsignal(signal.SIGINT)
    interrupt_at(monkeypatch, 384)
    run = trained(progress=True)
    assert signal.getsignal(signal.SIGINT) is before
    said = capsys.readouterr().out
    assert "stopping after this chunk" in said and "stopped at env frame 384" in said
    assert "384 of 768" in repr(run)
    assert run.curves["env_frames"].tolist() == [0, 256] and run.metrics["loss"].shape == (2, 3)

    run.save("half")
    assert train.main(["--out", "half", "--resume"]) == 0
    assert_same_run(Path.cwd() / "half", reference)
    run.train().save("whole")
    assert_same_run(Path.cwd() / "whole", reference)


def test_a_run_of_the_command_line_says_once_when_it_will_end(monkeypatch, capsys):
    monkeypatch.setattr(observers, "FORETELL_SECONDS", 0.0)
    assert train.main([*WORDS, "--steps", str(STEPS), "--out", "run"]) == 0
    said = capsys.readouterr().out
    assert len(re.findall(r"^about 0:\d\d:\d\d to go$", said, re.MULTILINE)) == 1


def test_a_second_ctrl_c_ends_at_once(monkeypatch):
    run = trained(steps=256)
    interrupt_at(monkeypatch, 384, count=2)
    closed = mock.Mock(wraps=run._session.close)
    monkeypatch.setattr(run._session, "close", closed)
    with pytest.raises(KeyboardInterrupt):
        run.train(steps=STEPS)
    # Without that, its lanes and a running evaluation would outlive the call.
    closed.assert_called()
    with pytest.raises(re3_jax.UsageError, match="middle of a chunk"):
        run.train()


def test_a_loaded_run_goes_on_like_the_command_line_and_leaves_its_folder(
    reference, longer, caplog, capfd
):
    before = tree(reference)
    run = re3_jax.load(reference, progress=False)
    assert capfd.readouterr() == ("", "") and not caplog.records
    assert run.config.seed_numbers == [1, 2]
    run.train(steps=LONGER).save("extended")
    assert_same_run(Path.cwd() / "extended", longer)
    assert tree(reference) == before


def test_wall_seconds_go_on_where_the_run_stopped(reference, longer):
    """Compiling was a part of the first part, so the second alone takes less."""
    with (reference / "train.csv").open() as lines:
        before = len([*csv.DictReader(lines)])
    with (longer / "train.csv").open() as lines:
        seconds = [float(row["wall_seconds"]) for row in csv.DictReader(lines)]
    assert len(seconds) > before
    assert seconds == sorted(seconds) and seconds[before] > seconds[before - 1]


def test_a_damaged_table_is_one_sentence_and_no_folder_is_begun(reference):
    shutil.copytree(reference, "damaged")
    table = Path("damaged", "train.csv")
    header, first, *lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join([header, first.replace(",", ",x", 3), *lines]))
    run = re3_jax.load("damaged", progress=False)
    for used in (lambda: run.metrics, lambda: run.save("copy")):
        with pytest.raises(re3_jax.UsageError, match="train.csv has a damaged line"):
            used()
    assert not Path("copy").exists()


@pytest.mark.parametrize(
    ("name", "column"),
    [("eval.csv", "episodes"), ("eval.csv", "env_frames"), ("train.csv", "wall_seconds")],
)
def test_a_damaged_header_is_one_sentence(reference, name, column):
    shutil.copytree(reference, "damaged")
    table = Path("damaged", name)
    table.write_text(table.read_text().replace(column, column[:-1] + "r", 1))
    run = re3_jax.load("damaged", progress=False)
    used = run.save, lambda folder: run.curves if name == "eval.csv" else run.metrics
    for one in used:
        with pytest.raises(re3_jax.UsageError, match=f"{name} has a damaged line"):
            one("copy")
    assert not Path("copy").exists()


def test_a_line_that_lost_a_comma_is_no_row():
    """As many lists of cells as the table would have cells, so that they fit its shape."""
    lines = ["1,10,1.0,0.5", "1,20,2.0,0.5", "1,30,3.00.5", "1,40,4.0,0.5"]
    table = "\n".join(["seed,env_frames,wall_seconds,loss", *lines, ""]).encode()
    with pytest.raises(ValueError, match="more or fewer cells"):
        history.arrays(table, 1)


def test_a_run_with_a_folder_goes_on_in_it(reference, longer):
    run = trained(out="run")
    assert_same_run(Path.cwd() / "run", reference)
    assert run.curves["env_frames"].tolist() == [0, 256, 512, 768]
    run.train(steps=LONGER)
    assert_same_run(Path.cwd() / "run", longer)
    with pytest.raises(re3_jax.UsageError, match="--steps 256 is less than the 1280 of this run"):
        run.train(steps=256)
    assert train.main(["--out", "run", "--resume", "--steps", "1536"]) == 0
    with pytest.raises(re3_jax.UsageError, match="another process has continued the run in /.*"):
        run.train(steps=1536)


def test_a_run_goes_on_in_its_folder_from_elsewhere(reference, monkeypatch, tmp_path):
    """A notebook changes its working directory in between."""
    run = trained(steps=256, out="here")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    run.train(steps=STEPS)
    assert_same_run(tmp_path / "here", reference)
    assert not any(Path.cwd().iterdir())


def test_a_run_that_may_not_go_on_is_as_long_as_before():
    run = trained(steps=256, out="run")
    with lock.held(Path("run")):
        with pytest.raises(UsageError, match="another process"):
            run.train(steps=LONGER)
    assert run.config.steps == 256
    assert run.train(steps=512).curves["env_frames"][-1] == 512


def test_a_run_is_loaded_with_its_plugin_from_where_it_is_now(tmp_path):
    file = tmp_path / "own.py"
    file.write_text("# of this test alone\n")
    run = trained(steps=256, out="run", plugin=str(file))
    moved = file.rename(tmp_path / "moved.py")
    plugins._loaded.clear()
    with pytest.raises(UsageError, match="or name it with --plugin FILE .in Python plugin=FILE"):
        re3_jax.load("run")
    file.write_text("# another\n")
    again = re3_jax.load("run", progress=False, plugin=moved)
    assert digests.of_seeds(again.state) == digests.of_seeds(run.state)
    again.save("saved")
    plugins._loaded.clear()
    saved = re3_jax.load("saved", progress=False)
    assert saved.config.plugin == str(moved)
    moved.unlink()
    with pytest.raises(
        UsageError, match="moved.py cannot be read .No such file or directory.: put"
    ):
        saved.save("nowhere")
    assert not Path("nowhere").exists()


def test_a_plugin_that_was_edited_is_not_saved_as_the_one_that_trained(tmp_path):
    file = tmp_path / "edited.py"
    file.write_text("before = 1\n")
    run = trained(steps=256, plugin=str(file))
    file.write_text("after = 2\n")
    with pytest.raises(UsageError, match="edited.py has changed since this process imported it"):
        run.save("saved")
    assert not Path("saved").exists()
    file.write_text("before = 1\n")
    run.save("saved")


def test_evaluations_follow_the_interval_and_not_the_one_before():
    """Chunks of 192 frames: after the first that reaches each multiple of 256, and at the end."""
    run = trained(chunk_updates=6)
    assert run.curves["env_frames"].tolist() == [0, 384, 576, 768]


def test_a_saved_run_leaves_out_the_time_since_it_was_trained(monkeypatch, tmp_path):
    """In the user's folder, which every function finds by its tilde."""
    monkeypatch.setenv("HOME", str(tmp_path))
    run, hour, now = trained(steps=256), 3600, time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + hour)
    assert run.save("~/run") == tmp_path / "run"
    loaded = re3_jax.load("~/run", progress=False)
    with pytest.raises(re3_jax.UsageError, match="already holds a run"):
        trained(out="~/run")
    for seconds in (run, loaded):
        assert seconds._session.record.wall_seconds < hour
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_too_many_episodes_for_the_device_are_one_sentence(monkeypatch):
    run = trained(steps=256)
    full = mock.Mock(side_effect=RuntimeError("RESOURCE_EXHAUSTED: out of memory"))
    monkeypatch.setattr(run._session.runner, "start_evaluation", full)
    with pytest.raises(re3_jax.UsageError, match="too little memory .* lower --episodes"):
        run.evaluate()


def test_the_state_has_the_lanes_as_they_are(monkeypatch):
    """On the host, where the state that is trained does not follow them."""
    run, now = trained(steps=256), object()
    captured = mock.Mock(return_value=now)
    monkeypatch.setattr(run._session.runner, "capture", captured)
    assert run.state is now
    captured.assert_called_once_with(run._session.state)


def test_only_runs_with_frames_on_the_host_promise_a_video(monkeypatch, tmp_path):
    monkeypatch.setattr(run_module.summary, "write", lambda *_: [])
    for env, promised in (("pixels:bar", False), ("cheetah_run_sparse", True)):
        said = []
        session = mock.Mock(complete=True, config=resolve(env, preset="debug"))
        film = mock.Mock(write=lambda *_: [])
        run_module._report(session, tmp_path, film, said.append)
        assert any("none was written" in line for line in said) == promised
    assert resolve("pixels:bar").video and not resolve("pixels:bar", "ppo").video


def test_the_example_compares_two_bonuses(tmp_path, capsys):
    words = ["--env", TASK, "--preset", "debug", "--out", "comparison.png"]
    python_api.main(words)
    assert "RE3 ends higher with probability" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["comparison.png"]


@pytest.mark.slow
def test_the_code_of_the_page_runs(capsys):
    page = Path(__file__).parents[2].joinpath("docs/python_api.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert "there is no option --a2c.num-env: did you mean" in capsys.readouterr().out
    assert names["again"].curves["env_frames"][-1] >= 8192
