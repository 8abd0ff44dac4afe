"""CSV rows are exact and are cut to the length stored in a checkpoint."""

import csv
from unittest import mock

import numpy as np
import pytest

from re3_jax.runs.errors import UsageError
from re3_jax.runs.loggers.tensorboard import TensorBoard
from re3_jax.runs.observers import Rows
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.recorder import Recorder
from tests.resume.compare import scalars


def open_recorder(folder, keep_bytes=None, tensorboard=False, env_frames=0):
    recorder = Recorder(folder, [3, 4], keep_bytes=keep_bytes or {})
    if tensorboard:
        recorder.loggers = [TensorBoard(folder, env_frames)]
    return recorder


def values(*numbers):
    return {"loss": np.asarray(numbers, np.float32), "episodes": np.zeros(2, np.float32)}


def read(path):
    with path.open() as lines:
        return list(csv.DictReader(lines))


def test_float32_is_read_back_exactly(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32) * 1e-3
    recorder = open_recorder(tmp_path)
    for i, pair in enumerate(numbers):
        recorder.train(i, 0.5, values(*pair))
    recorder.close()
    found = np.array([row["loss"] for row in read(tmp_path / "train.csv")], np.float32)
    assert found.reshape(-1, 2).tobytes() == numbers.tobytes()


def test_rows_after_the_checkpoint_are_cut(tmp_path):
    recorder = open_recorder(tmp_path)
    recorder.train(1, 0.5, values(1, 2))
    known = recorder.sync()
    recorder.train(2, 0.5, values(3, np.nan))
    recorder.close()
    recorder = open_recorder(tmp_path, known)
    recorder.train(2, 0.7, values(5, 6))
    recorder.close()
    assert [row["loss"] for row in read(tmp_path / "train.csv")] == ["1", "2", "5", "6"]


def test_missing_rows_are_detected_before_any_table_is_cut(tmp_path):
    (tmp_path / "train.csv").write_text("seed,env_frames\n3,1\n")
    with pytest.raises(ValueError, match=r"eval\.csv is shorter"):
        open_recorder(tmp_path, {"train.csv": 5, "eval.csv": 10})
    assert (tmp_path / "train.csv").read_text() == "seed,env_frames\n3,1\n"


def test_events_after_the_checkpoint_are_hidden(tmp_path):
    recorder = open_recorder(tmp_path, tensorboard=True)
    recorder.train(10, 0.5, values(1, 2))
    known = recorder.sync()
    recorder.train(20, 0.5, values(3, 4))
    recorder.train(30, 0.5, values(5, 6))
    recorder.close()
    # Files of events are named after the second they start in; processes start further apart.
    (first,) = (tmp_path / "tensorboard").iterdir()
    first.rename(first.with_name("events.out.tfevents.0000000000.first"))
    recorder = open_recorder(tmp_path, known, tensorboard=True, env_frames=10)
    recorder.train(20, 0.5, values(7, 9))
    recorder.close()
    shown, hidden = scalars(tmp_path)
    assert shown["train/loss"] == {10: 1.5, 20: 8.0}
    assert hidden["train/loss"] == {20: 3.5, 30: 5.5}


def test_other_columns_are_refused(tmp_path):
    recorder = open_recorder(tmp_path)
    recorder.train(1, 0.5, values(1, 2))
    with pytest.raises(ValueError, match="train.csv has the columns seed, .* gives .*other: "):
        recorder.train(2, 0.5, {"other": np.zeros(2)})
    recorder.close()


def test_a_mistake_of_a_logger_is_no_refusal():
    """It keeps its traceback."""
    broken = mock.Mock(train=mock.Mock(side_effect=ValueError("of a logger")))
    with pytest.raises(ValueError, match="of a logger") as error:
        Rows(broken).trained(mock.MagicMock(), {})
    assert not isinstance(error.value, UsageError)


def test_evaluation_rows_and_events(tmp_path):
    recorder = open_recorder(tmp_path, tensorboard=True)
    stats = EvalStats(*(np.asarray(x) for x in ([9, 9], [0.5, 0.25], [0.1, 0.0], [7.5, 8.0])))
    recorder.train(5, 0.5, values(1, np.nan))
    recorder.evaluation(5, 1.25, stats)
    recorder.sync()
    recorder.close()
    assert (tmp_path / "eval.csv").read_text() == (
        "seed,env_frames,wall_seconds,episodes,return_mean,return_std,length_mean\n"
        "3,5,1.250,9,0.5,0.1,7.5\n"
        "4,5,1.250,9,0.25,0,8\n"
    )
    (events,) = (tmp_path / "tensorboard").iterdir()
    written = events.read_bytes()
    for tag in (b"train/loss", b"evaluation/return_mean", b"evaluation/return/seed_4"):
        assert tag in written
