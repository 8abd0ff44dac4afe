"""summary.json and config.json: what other programs read of a run."""

import json
import math
import subprocess
from pathlib import Path

import pytest

from re3_jax.runs import run_folder, summary
from re3_jax.runs.host_record import HostRecord
from re3_jax.runs.options import parse
from tests.cli.written_runs import write_run


@pytest.mark.parametrize(
    ("finals", "words"),
    [
        ((0.5,), "return 0.500 over 1 seed at env frame 400"),
        ((0.5, 1.0), "return 0.750 (0.500 to 1.000) over 2 seeds at env frame 400"),
        (
            (0.5, 0.5, 1.0, 1.0),
            "return 0.750 (IQM 0.750, 95% interval 0.500 to 1.000) over 4 s",
        ),
    ],
)
def test_few_seeds_have_a_range_and_no_interval(finals, words, tmp_path):
    config = parse(["--env", "doorkey_6x6", "--preset", "debug", "--seeds", str(len(finals))])
    folder = write_run(tmp_path / "run", finals=finals)
    record = HostRecord(evaluated_at=400, env_frames=400)
    assert next(summary.write(folder, config, True, record)).startswith(words)


def test_a_diverged_run_writes_null_and_no_word_that_json_has_not(tmp_path):
    config = parse(["--env", "doorkey_6x6", "--preset", "debug", "--seeds", "2"])
    folder = write_run(tmp_path / "run", finals=(0.5, math.nan))
    list(summary.write(folder, config, True, HostRecord(evaluated_at=400, env_frames=400)))
    reached = json.loads((folder / "summary.json").read_text(), parse_constant=pytest.fail)
    assert reached["final_return"] == {"1": 0.5, "2": None}
    assert reached["final_return_mean"] is None
    assert reached["final_return_iqm_ci95"] == [None, None]
    assert reached["env_frames"] == 400


def test_frames_per_second_are_those_of_all_seeds_together(tmp_path):
    config = parse(["--env", "doorkey_6x6", "--preset", "debug", "--seeds", "2"])
    folder = write_run(tmp_path / "run", finals=(0.5, 1.0))
    record = HostRecord(
        evaluated_at=400, env_frames=400, timed_frames=1_000, train_seconds=2.0, wall_seconds=9.0
    )
    line = next(summary.write(folder, config, True, record))
    assert json.loads((folder / "summary.json").read_text())["frames_per_second"] == 1_000
    assert line.endswith(", 1,000 frames/s")


def test_the_commit_is_that_of_the_checkout(tmp_path):
    config = parse(["--env", "doorkey_6x6", "--preset", "debug"])
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    run_folder.write_config(tmp_path, config)
    written = json.loads((tmp_path / "config.json").read_text())["git"]
    assert written["commit"] == commit and len(commit) == 40
