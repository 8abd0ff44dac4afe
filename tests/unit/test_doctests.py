"""The examples in docstrings run and print what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

from tests.kept_runners import kept_runners

ROOT = Path(__file__).parents[2]

WITH_EXAMPLES = (
    *("envs.checking", "interop.numpy_bonus", "interop.state_file", "intrinsic.base"),
    *("intrinsic.checking", "intrinsic.re3", "knn.exact"),
    *(
        "random_encoder",
        "replay.distinct_ring",
        "replay.frame_ring",
        "replay.latent_ring",
        "replay.prioritized",
    ),
    *("replay.sequence_ring", "replay.transition_ring", "schedules", "state_entropy"),
    "runs.interface",
)
"""The modules of the package that a user calls first; each has an example."""


def test_every_module_with_an_example_is_tried():
    found = {
        ".".join(path.relative_to(ROOT / "re3_jax").with_suffix("").parts)
        for path in (ROOT / "re3_jax").rglob("*.py")
        if ">>> " in path.read_text()
    }
    assert found == set(WITH_EXAMPLES)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_print_what_they_say(name, monkeypatch):
    from re3_jax.runs import machine

    # This process keeps its own settings of JAX.
    monkeypatch.setattr(machine, "use_cpu_devices", lambda count: None)
    module = importlib.import_module(f"re3_jax.{name}")
    with kept_runners():
        results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0
