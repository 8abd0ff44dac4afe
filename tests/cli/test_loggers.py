"""Runs that also log to Weights & Biases and MLflow.

Modules that note their calls stand for the packages. The last tests need the packages themselves.
"""

import contextlib
import dataclasses
import json
import sqlite3
import struct
import sys
import time
import types

import numpy as np
import pytest

import re3_jax
from re3_jax.runs import installing, loggers, run_folder
from re3_jax.runs.loggers.remembered import remembered
from re3_jax.runs.resolve import resolve
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.recorder import Recorder
from tests.cli.refusal import DOORKEY, own_folder, refused

__all__ = ["own_folder"]

TRAINED = {"train/loss": 1.5, "train/episodes": 4.0}
EVALUATED = {
    "evaluation/return_mean": 0.375,
    "evaluation/return/seed_3": 0.5,
    "evaluation/return/seed_4": 0.25,
}


def record(folder, names: str, env_frames: int = 0) -> str:
    """Logs a chunk, in which one metric has no value, and an evaluation; returns where to."""
    config = dataclasses.replace(resolve("doorkey_6x6", preset="debug"), loggers=names)
    recorder = Recorder(folder, [3, 4], keep_bytes={})
    with contextlib.ExitStack() as stack:
        stack.callback(recorder.close)
        recorder.loggers = loggers.open_all(folder, config, env_frames)
        stack.pop_all()
    values = {"loss": [1.0, 2.0], "never": [np.nan, np.nan], "episodes": [np.nan, 4.0]}
    metrics = {name: np.asarray(value, np.float32) for name, value in values.items()}
    recorder.train(env_frames + 10, 0.5, metrics)
    stats = [9, 9], [0.5, 0.25], [0.1, 0.0], [7.5, 8.0]
    recorder.evaluation(env_frames + 10, 1.0, EvalStats(*map(np.asarray, stats)))
    recorder.sync()
    recorder.close()
    (logger,) = recorder.loggers
    return logger.where


class Calls(list):
    """Notes the calls of the functions that it makes."""

    def of(self, name, result=None):
        def called(*args, **options):
            self.append((name, args, options))
            return result

        return called


@contextlib.contextmanager
def standing_in(monkeypatch, name: str, **modules):
    """Modules in the place of a package, which is installed; its room is imported anew."""
    for path, contents in modules.items():
        module = types.ModuleType(path)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, path.replace("_", "."), module)
    monkeypatch.setattr(installing, "version", lambda package: "1")
    room = loggers.LOGGERS[name].room
    sys.modules.pop(room, None)
    yield
    sys.modules.pop(room, None)


@pytest.fixture
def wandb(monkeypatch):
    """The calls of wandb."""
    calls = Calls()
    names = ("define_metric", "log", "finish")
    run = types.SimpleNamespace(offline=True, **{name: calls.of(name) for name in names})
    contents = {
        "init": calls.of("init", run),
        "Settings": lambda **options: options,
        "Error": type("Error", (Exception,), {}),
    }
    with standing_in(monkeypatch, "wandb", wandb=contents):
        yield calls


@pytest.fixture
def mlflow(monkeypatch):
    """The calls of MLflow's client, which knows no experiment."""
    calls = Calls()
    begun = types.SimpleNamespace(info=types.SimpleNamespace(run_id="r1"))
    results = {"create_experiment": "7", "create_run": begun}
    names = ("get_experiment_by_name", "log_batch", "update_run", "set_terminated", *results)
    client = types.SimpleNamespace(**{name: calls.of(name, results.get(name)) for name in names})
    entities = {"Metric": lambda *args: args, "Param": lambda *args: args}
    exceptions = {"MlflowException": type("MlflowException", (Exception,), {})}
    tracking = {"MlflowClient": calls.of("MlflowClient", client)}
    with standing_in(
        monkeypatch,
        "mlflow",
        mlflow={},
        mlflow_entities=entities,
        mlflow_exceptions=exceptions,
        mlflow_tracking=tracking,
    ):
        yield calls


def named(calls, name):
    return [(args, options) for called, args, options in calls if called == name]


def test_wandb_is_given_env_frames_as_the_axis_and_goes_on_with_its_run(wandb, tmp_path):
    assert record(tmp_path, "wandb") == str(tmp_path / "wandb")
    record(tmp_path, "wandb", env_frames=10)
    first, again = [options for _, options in named(wandb, "init")]
    assert first["id"] == again["id"] and first["resume"] == "allow"
    assert first["dir"] == str(tmp_path) and first["name"] == tmp_path.name
    assert first["config"]["re3"]["beta"] == resolve("doorkey_6x6", preset="debug").re3.beta
    assert (("*",), {"step_metric": "env_frames"}) in named(wandb, "define_metric")
    assert [args[0] for args, _ in named(wandb, "log")] == [
        {"env_frames": frames, **values} for frames in (10, 20) for values in (TRAINED, EVALUATED)
    ]
    assert [name for name, *_ in wandb][-1] == "finish"


def test_an_id_that_was_cut_off_begins_a_new_record(tmp_path):
    path = tmp_path / "wandb" / "run_id"
    assert remembered(path, lambda: "first") == "first"
    assert remembered(path, lambda: "second") == "first"
    path.write_text("")
    assert remembered(path, lambda: "third") == remembered(path, lambda: "fourth") == "third"


def test_wandb_without_an_account_is_one_sentence(wandb, tmp_path, monkeypatch):
    import wandb as module

    def init(**options):
        raise module.Error("No API key configured.\nMore lines.")

    monkeypatch.setattr(module, "init", init)
    with pytest.raises(
        re3_jax.UsageError, match=r"\(No API key configured\.\).*WANDB_MODE=offline"
    ):
        record(tmp_path, "wandb")


def test_mlflow_is_given_env_frames_as_steps_and_goes_on_with_its_run(mlflow, tmp_path):
    store = f"sqlite:///{tmp_path}/mlflow/mlflow.db"
    assert record(tmp_path, "mlflow") == record(tmp_path, "mlflow", env_frames=10) == store
    assert named(mlflow, "MlflowClient") == [((), {"tracking_uri": store})] * 2
    assert named(mlflow, "create_run") == [(("7",), {"run_name": tmp_path.name})]
    assert named(mlflow, "update_run") == [(("r1",), {"status": "RUNNING"})] * 2
    batches = [options for (run_id, *_), options in named(mlflow, "log_batch") if run_id == "r1"]
    params = [param for batch in batches for param in batch.get("params", ())]
    assert max(len(batch.get("params", ())) for batch in batches) <= 100
    assert ("env", "doorkey_6x6") in params and ("re3.rho", "0.0") in params
    logged = [
        {name: (value, step) for name, value, _, step in batch["metrics"]}
        for batch in batches
        if "metrics" in batch
    ]
    assert logged == [
        {name: (value, frames) for name, value in values.items()}
        for frames in (10, 20)
        for values in (TRAINED, EVALUATED)
    ]
    assert len(named(mlflow, "set_terminated")) == 2


def test_a_server_that_the_user_names_is_used(mlflow, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:elsewhere")
    assert record(tmp_path, "mlflow") == "file:elsewhere"


def test_mlflow_that_does_not_answer_is_one_sentence(mlflow, tmp_path, monkeypatch):
    from mlflow import exceptions, tracking

    def client(**options):
        raise exceptions.MlflowException("no connection\nmore")

    monkeypatch.setattr(tracking, "MlflowClient", client)
    with pytest.raises(re3_jax.UsageError, match=r"\(no connection\).*MLFLOW_TRACKING_URI"):
        record(tmp_path, "mlflow")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("wandb", "needs the package wandb: "),
        ("wandd", "unknown logger 'wandd'; did you mean wandb?"),
        ("wandb,wandb", "names wandb twice"),
        ("none,wandb", "names none beside others: leave it out"),
        ("", "--loggers is empty"),
    ],
)
def test_what_cannot_be_logged_to_is_refused_before_anything_is_written(
    capsys, monkeypatch, words, sentence
):
    monkeypatch.setattr(installing, "version", lambda package: "1" if "tensor" in package else None)
    said = refused(capsys, *DOORKEY, f"--loggers={words}", "--out", "run")
    assert sentence in said
    assert ("needs" in sentence) == (f"{sys.executable} -m pip install wandb" in said)


def test_loggers_without_a_folder_are_refused():
    with pytest.raises(re3_jax.UsageError, match="loggers has no effect without out"):
        re3_jax.train("doorkey_6x6", loggers="wandb")


@pytest.mark.parametrize(("switch", "name"), [(True, "tensorboard"), (False, "none")])
def test_a_run_of_before_there_were_loggers_can_be_resumed(tmp_path, switch, name):
    run_folder.write_config(tmp_path, resolve("doorkey_6x6", preset="debug"))
    path = tmp_path / "config.json"
    stored = json.loads(path.read_text())
    del stored["config"]["loggers"], stored["config_sha256"]
    stored["config"]["tensorboard"] = switch
    path.write_text(json.dumps(stored))
    assert run_folder.stored_config(tmp_path, "").loggers == name
    assert run_folder.config_with(["env"], tmp_path)["loggers"] == name


def offline_values(path) -> list[dict[str, float]]:
    """What a file of W&B's offline mode logged: protocol buffers in LevelDB's log format."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, whole, found = path.read_bytes(), 7, b"", []
    while at + 7 <= len(data):
        room = 32_768 - at % 32_768
        length, kind = struct.unpack_from("<HB", data, at + 4)
        if room < 7 or kind == 0:
            at += room
            continue
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        # A whole record, or the last part of one.
        if kind in (1, 4):
            items, whole = Record.FromString(whole).history.item, b""
            values = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in items}
            found += [values] if values else []
    return found


# Warnings of its own dependencies.
@pytest.mark.filterwarnings("ignore")
def test_wandb_itself_writes_both_parts_of_a_run_under_one_id(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    record(tmp_path, "wandb")
    run_id = (tmp_path / "wandb" / "run_id").read_text().strip()
    # Folders are named after the second they begin in; processes begin further apart.
    (first,) = (tmp_path / "wandb").glob("offline-run-*")
    first.rename(first.with_name(f"offline-run-20000101_000000-{run_id}"))
    record(tmp_path, "wandb", env_frames=10)

    def logged():
        parts = sorted((tmp_path / "wandb").glob(f"offline-run-*/run-{run_id}.wandb"))
        rows = [values for part in parts for values in offline_values(part)]
        return [{k: v for k, v in row.items() if k[0] != "_"} for row in rows]

    expected = [
        {"env_frames": frames, **values} for frames in (10, 20) for values in (TRAINED, EVALUATED)
    ]
    deadline = time.monotonic() + 20
    # W&B's process writes the last records some milliseconds after `finish` has returned.
    while (found := logged()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found == expected


# Warnings of its own dependencies.
@pytest.mark.filterwarnings("ignore")
def test_mlflow_itself_stores_both_parts_of_a_run_in_its_folder(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    record(tmp_path, "mlflow")
    record(tmp_path, "mlflow", env_frames=10)
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow" / "mlflow.db")) as store:
        rows = store.execute("select run_uuid, key, value, step from metrics").fetchall()
        (run,) = store.execute("select run_uuid, status from runs").fetchall()
    assert run == ((tmp_path / "mlflow" / "run_id").read_text().strip(), "FINISHED")
    assert {row[0] for row in rows} == {run[0]}
    assert {row[1:] for row in rows} == {
        (name, value, frames)
        for frames in (10, 20)
        for name, value in (TRAINED | EVALUATED).items()
    }
