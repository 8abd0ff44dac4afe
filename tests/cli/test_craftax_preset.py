"""The presets of `examples/plugin_craftax.py`, without Craftax itself."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_run_of_craftax_ends_with_its_learning_rate(tmp_path):
    """Each preset says what its agent accepts; the task itself needs a package that is not here."""
    (tmp_path / "craftax").mkdir()
    stub = "def make_craftax_env_from_name(*_, **__): raise AssertionError"
    (tmp_path / "craftax" / "craftax_env.py").write_text(stub)
    of_presets = """
import typing
from examples import plugin_craftax
from re3_jax.runs.config import PresetName
from re3_jax.runs.resolve import resolve
for name in set(typing.get_args(PresetName)) - {"small", "data_efficient"}:
    config = resolve("craftax:Craftax-Symbolic-v1", preset=name)
    over = config.ppo.anneal_agent_steps
    assert config.agent == "ppo" and (over is None or over >= config.steps), name
"""
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", of_presets]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
