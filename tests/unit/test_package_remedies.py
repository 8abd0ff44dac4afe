"""Error sentences name the package versions of the locks."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_sentences_name_the_versions_of_the_locks():
    locks = "".join((ROOT / f"requirements{part}.txt").read_text() for part in ("", "-atari"))
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", locks, re.MULTILINE))
    named = [
        found
        for path in (ROOT / "re3_jax").rglob("*.py")
        for call in re.findall(r"pip_install\(([^)]*)\)", path.read_text())
        for found in re.findall(r"([\w-]+)(?:\[\w+\])?==([\w.]+)", call)
    ]
    assert {name for name, _ in named} >= {"brax", "gymnax", "envpool", "dm_control", "mujoco"}
    assert all(pins[name] == version for name, version in named)
