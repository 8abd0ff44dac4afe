"""summary.json: what other programs read of a run."""

import json
import math

import pytest

from re3_jax.runs import summary
from re3_jax.runs.host_record import HostRecord
from re3_jax.runs.options import parse
from tests.cli.written_runs import write_run


def test_a_diverged_run_writes_null_and_no_word_that_json_has_not(tmp_path):
    config = parse(["--env", "doorkey_6x6", "--preset", "debug", "--seeds", "2"])
    folder = write_run(tmp_path / "run", finals=(0.5, math.nan))
    list(summary.write(folder, config, True, HostRecord(evaluated_at=400, env_frames=400)))
    reached = json.loads((folder / "summary.json").read_text(), parse_constant=pytest.fail)
    assert reached["final_return"] == {"1": 0.5, "2": None}
    assert reached["final_return_mean"] is None
    assert reached["final_return_iqm_ci95"] == [None, None]
    assert reached["env_frames"] == 400
