"""The tutorials run from beginning to end, and show what their texts say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path):
    environment = {**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, path], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    if path.stem == "own_loop":
        tops = dict(re.findall(r"(\w+ RE3): times on top, three seeds: \[(.+)\]", done.stdout))
        assert tops["without RE3"] == "0, 0, 0"
        assert all(int(count) > 0 for count in tops["with RE3"].split(", "))
