"""A folder that cannot be used ends in one sentence with the remedy; nothing in it changes."""

import dataclasses
import errno
import fcntl
import json
import os
from pathlib import Path

import jax.numpy as jnp
import pytest

import re3_jax
from re3_jax.commands import compare, evaluate, look, report, train
from re3_jax.runs import lock, run_folder, session, summary
from re3_jax.runs.config import flatten, is_compared
from re3_jax.runs.errors import UsageError
from re3_jax.runs.resolve import resolve
from re3_jax.training.checkpoint import CheckpointStore
from re3_jax.training.device_program import DeviceProgram
from tests.cli.refusal import DOORKEY, own_folder, refused  # noqa: F401


def test_folder_with_foreign_files(capsys, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    assert "thesis.tex" in refused(capsys, *DOORKEY, "--out", "out")


def test_folder_of_what_was_killed_as_it_wrote_a_file(tmp_path):
    (tmp_path / ".config.json.part").write_text('{"config"')
    run_folder.make_empty(tmp_path)
    (tmp_path / ".latents.png.part").touch()
    run_folder.make_empty(tmp_path, own=("latents.png",))
    with pytest.raises(UsageError, match="holds files that are not of a run"):
        run_folder.make_empty(tmp_path)


def test_folder_below_a_file_cannot_be_written(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert "choose another --out" in refused(capsys, *DOORKEY, "--out", "file")
    assert "cannot be written" in refused(capsys, *DOORKEY, "--out", "file/run")


@pytest.mark.parametrize("name", ["a\udcff", "a\nb"])
def test_folder_whose_name_cannot_be_shown(capsys, tmp_path, name):
    assert "cannot be shown: choose another name" in refused(capsys, *DOORKEY, "--out", name)
    assert not any(tmp_path.iterdir())


def test_folder_that_even_root_cannot_make(capsys):
    assert "cannot be written" in refused(capsys, *DOORKEY, "--out", "/proc/run")


@pytest.mark.parametrize("command", [train, compare, report, evaluate, look])
def test_a_name_that_no_file_system_takes(capsys, command):
    name = 300 * "x"
    words = {
        train: [*DOORKEY, "--out", name],
        compare: [name, name],
        report: [name],
        evaluate: ["--run", name],
        look: [name],
    }
    assert command.main(words[command]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1
    assert name in said and "File name too long" in said


def test_without_locks_a_run_begins_and_says_so(capsys, tmp_path, monkeypatch):
    def flock(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with lock.held(tmp_path):
        pass
    said = capsys.readouterr().err
    assert said.startswith(f"note: no lock is to be had in {tmp_path} (No locks available)")


@pytest.fixture
def started(tmp_path) -> Path:
    """A run folder with config.json only."""
    config = dataclasses.replace(resolve("doorkey_6x6", preset="debug"), chunk_updates=32)
    folder = tmp_path / "started"
    folder.mkdir()
    run_folder.write_config(folder, config)
    return folder


@pytest.mark.parametrize(
    ("name", "sign"), [("a[1]", "["), ("a\\b", "\\"), ("a*", "*"), ("a?", "?")]
)
def test_folder_whose_checkpoints_could_not_be_read_again(capsys, started, name, sign):
    words = *DOORKEY, "--out", f"{name}/run"
    assert f" has a {sign}, with which" in refused(capsys, *words)
    Path(name).mkdir()
    started.rename(f"{name}/run")
    assert "choose or rename a folder without it" in refused(capsys, *words, "--resume")
    assert "or rename a folder" in refused(capsys, *DOORKEY, "--init", f"{name}/run")
    assert evaluate.main(["--run", f"{name}/run"]) == 2
    assert f" has a {sign}, with which" in capsys.readouterr().err
    with pytest.raises(UsageError, match="choose or rename a folder without it"):
        re3_jax.load(f"{name}/run")


def test_folder_of_another_run(capsys, started):
    sentence = refused(capsys, *DOORKEY, "--out", "started")
    assert "--resume" in sentence and "another --out" in sentence


def test_resume_without_a_run(capsys):
    assert "no config.json" in refused(capsys, *DOORKEY, "--out", "nowhere", "--resume")
    assert "--out" in refused(capsys, *DOORKEY, "--resume")


def test_resume_with_a_broken_config(capsys, started):
    (started / "config.json").write_text('{"config": {"env"')
    assert "config.json" in refused(capsys, "--resume", "--out", "started")


def test_resume_with_a_config_of_other_options(capsys, started):
    stored = json.loads((started / "config.json").read_text())
    stored["config"]["magic"] = 1
    del stored[run_folder.CONFIG_DIGEST]
    (started / "config.json").write_text(json.dumps(stored))
    assert "magic" in refused(capsys, "--resume", "--out", "started")


@pytest.mark.parametrize("text", ["[]", "null", "3", '{"config": []}'])
def test_resume_with_a_config_that_is_no_table(capsys, started, text):
    (started / "config.json").write_text(text)
    assert "cannot be read as the configuration" in refused(capsys, "--resume", "--out", "started")


def test_resume_with_a_config_that_was_changed(capsys, started):
    """A flipped bit that leaves valid JSON would otherwise train with another value."""
    stored = json.loads((started / "config.json").read_text())
    stored["config"]["steps"] += 1024
    (started / "config.json").write_text(json.dumps(stored))
    sentence = refused(capsys, "--resume", "--out", "started")
    assert "config.json" in sentence and "changed after the run wrote it" in sentence


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ([], "[] is not a group of options"),
        ({"a2c": 3}, "3 is not a group of options"),
        ({"seeds": "5"}, "seeds cannot be '5'"),
        ({"seeds": 2.5}, "seeds cannot be 2.5"),
        ({"loggers": 1}, "loggers cannot be 1"),
        ({"preset": "fast"}, "preset cannot be 'fast'"),
        ({"a2c": {"num_envs": None}}, "a2c.num_envs cannot be None"),
        ({"a2c": {"num_envs": 0}}, "--a2c.num-envs must be at least 1"),
        ({"seeds": 0}, "--seeds 0 is not positive"),
    ],
)
def test_resume_with_a_config_edited_by_hand(capsys, started, config, words):
    (started / "config.json").write_text(json.dumps({"config": config}))
    sentence = refused(capsys, "--resume", "--out", "started")
    assert words in sentence and "config.json" in sentence


def test_resume_from_a_checkpoint_of_another_version(capsys, monkeypatch, started):
    """The state fits, but the host's record does not; no real program is compiled."""
    seeds = resolve("doorkey_6x6", preset="debug").seeds
    store = CheckpointStore(started / run_folder.CHECKPOINTS)
    store.save(1, {"x": jnp.zeros((seeds, 3))}, {"chunks": 3, "magic": 1})
    store.close()
    runner = DeviceProgram(
        env=None,
        acting=None,
        init=lambda key: {"x": jnp.zeros(3)},
        train=lambda state: (state, {}),
        env_frames_per_chunk=1024,
        eval_episodes=1,
        eval_greedy=True,
    )
    monkeypatch.setattr(session, "build", lambda config, spec, report: runner)
    assert train.main(("--resume", "--out", "started")) == 2
    sentence = capsys.readouterr().err
    assert "magic" in sentence and "another --out" in sentence and sentence.count("\n") == 1


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ("--a2c.learning-rate", "0.5"),
        ("--seeds", "3"),
        ("--re3.normalize", "none"),
        ("--env", "doorkey_8x8"),
        ("--bonus", "none"),
        ("--preset", "paper"),
        ("--pretrain", "8192"),
    ],
)
def test_resume_with_a_changed_option(capsys, started, changed, value):
    sentence = refused(capsys, "--out", "started", "--resume", changed, value)
    assert f"{changed} is {value}" in sentence and "was started with" in sentence


def test_these_options_alone_may_change_on_resume():
    """Any other would make a run that no uninterrupted one equals."""
    assert {name for name in flatten(resolve("doorkey_6x6")) if not is_compared(name)} == {
        *("out", "resume", "steps", "checkpoint_seconds", "loggers", "video"),
        *("re3.ring_shards", "sac.batch_shards", "dreamer.batch_shards"),
    }
    assert not is_compared("agent_of_a_plugin.batch_shards")
    assert is_compared("bonus_of_a_plugin.steps")


def test_resume_with_fewer_steps(capsys, started):
    sentence = refused(capsys, "--out", "started", "--resume", "--steps", "512")
    assert "--steps 512" in sentence and "4096" in sentence


def test_resume_when_the_checkpoints_are_gone(capsys, started):
    (started / "checkpoints").mkdir()
    (started / "train.csv").write_text("seed,env_frames\n1,32\n")
    assert "no checkpoint" in refused(capsys, "--out", "started", "--resume")


def test_second_process_in_a_folder(capsys, started):
    with lock.held(started):
        assert "another process" in refused(capsys, "--out", "started", "--resume")


def test_of_two_new_runs_in_one_folder_one_is_refused(monkeypatch, tmp_path):
    """The second begins while the first makes the folder."""
    config = resolve("doorkey_6x6", preset="debug")
    first, second = (
        dataclasses.replace(config, out=str(tmp_path / "run"), seed=seed) for seed in (1, 101)
    )
    make_empty = run_folder.make_empty

    def overtaken(folder, own):
        make_empty(folder, own)
        monkeypatch.setattr(run_folder, "make_empty", make_empty)
        run_folder.claim(second)

    monkeypatch.setattr(run_folder, "make_empty", overtaken)
    with pytest.raises(UsageError, match="already holds a run"):
        run_folder.claim(first)
    assert run_folder.stored_config(tmp_path / "run", "").seed == 101


def test_a_table_that_was_damaged_meanwhile_is_said_after_all_else(tmp_path, monkeypatch, capsys):
    write = summary.write

    def spoiled(folder, *arguments):
        (folder / "eval.csv").write_text("seed,env_frames,return_mean\n1,x,0\n")
        return write(folder, *arguments)

    monkeypatch.setattr(summary, "write", spoiled)
    words = ["--env", "gymnax:CartPole-v1", "--preset", "debug", "--seeds", "1"]
    assert train.main([*words, "--out", str(tmp_path / "run"), "--loggers", "none"]) == 2
    out, said = capsys.readouterr()
    assert f"checkpoint  {tmp_path / 'run'}" in out
    assert "eval.csv has a damaged line: restore it from a copy" in said
