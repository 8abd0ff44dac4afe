"""The table of docs/accelerators.md is that of the committed results."""

import json
import re
from pathlib import Path

import pytest

from re3_jax.accelerators.targets import TARGETS

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("compile_*.json"))

COPIES = {
    # A chunk of several seeds turns flat observations when it begins and ends.
    ("v5e", "brax:halfcheetah", 4, 1): 205e6,
    ("v6e", "brax:halfcheetah", 4, 1): 205e6,
    # RE3's ring of 10,000 latents, once in a chunk.
    ("v5e", "doorkey_6x6", 1, 1): 5.2e6,
    ("v5e", "doorkey_6x6", 4, 4): 5.2e6,
}
"""Bytes of the copies that docs/accelerators.md says are left, on a device."""


def row(target, run):
    """A line of the table."""
    needed = _size(run["needed_bytes"]) + ("" if run["fits"] else ", too much")
    kernels = sum(program["instructions"] for program in run["programs"].values())
    devices = f"{run['devices']} {target}"
    cells = run["env"], run["agent"], run["seeds"], devices, needed
    bounds = f"{run['most_env_frames_per_second']:,}", f"{kernels:,.0f}"
    return f"| {' | '.join(map(str, (*cells, *bounds)))} |"


def rows_of(page):
    """The lines of the table under "Will it fit"."""
    table = (ROOT / page).read_text().partition("## Will it fit")[2].partition("## ")[0]
    return [line for line in table.splitlines() if re.match(r"\| \w+[:\w-]* \| \w+ \| \d", line)]


def test_the_page_has_every_result():
    shown = rows_of("docs/accelerators.md")
    whole = [json.loads(path.read_text()) for path in RESULTS]
    expected = [row(w["target"]["name"], run) for w in whole for run in w["runs"] if "fits" in run]
    assert expected and sorted(shown) == sorted(expected)
    assert (short := rows_of("README.md")) and set(short) <= set(expected)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_no_program_copies_a_replay_or_talks_between_seeds(path):
    whole = json.loads(path.read_text())
    assert whole["target"] == TARGETS[whole["target"]["name"]]._asdict()
    for run in whole["runs"]:
        left = COPIES.get((whole["target"]["name"], *(run[n] for n in ("env", "seeds", "devices"))))
        for name, program in run["programs"].items():
            if "refused" in program:
                continue
            assert program["collectives"] == 0
            if name == "store":
                assert max(program["temporary_bytes"], program["largest_copy_bytes"]) < 50e6
            if name == "act":  # Without the replay.
                continue
            # Arguments are a replay, but for little; PPO and A2C have rings of a few MB.
            most = left or max(0.07 * program["argument_bytes"], 5e6)
            assert program["largest_copy_bytes"] < most, (run["env"], run["agent"], name)


def test_the_page_has_the_bytes_of_the_search():
    whole = json.loads((ROOT / "benchmarks" / "results" / "knn_h100_bytes.json").read_text())
    page = (ROOT / "docs" / "accelerators.md").read_text()
    for case in whole["cases"]:
        sizes = (
            *(f"{case[n]:,}" for n in ("queries", "rows", "dimension")),
            _size(case["must_bytes"]),
        )
        for title, name in (("XLA", "xla"), ("Pallas", "kernel")):
            of = case[name]
            cells = title, _size(of["bytes"]), of["ratio_to_must"], f"{of['instructions']:,}"
            assert f"| {' | '.join(map(str, (*sizes, *cells, of['least_ms'])))} |" in page


def test_the_page_has_the_divided_ring():
    (run,) = json.loads((ROOT / "benchmarks" / "results" / "ring_h100.json").read_text())["runs"]
    program = run["programs"]["train"]
    sizes = (f"{program[f'{what}_bytes'] / 1e9:.2f} GB" for what in ("argument", "temporary"))
    counts = f"{program['largest_copy_bytes']:,} bytes", f"{program['collectives']:.0f}"
    page = (ROOT / "docs" / "accelerators.md").read_text()
    assert f"| a chunk of 100 updates | {' | '.join((*sizes, *counts))} |" in page


def test_the_page_of_hosts_has_the_divided_batch():
    """The first update, which is also the actor's; one device's row is of the other results."""
    page = (ROOT / "docs" / "distributed.md").read_text()
    folder, of = ROOT / "benchmarks" / "results", {"seeds": 1, "env": "cheetah_run_sparse"}
    whole, split = (
        json.loads((folder / f"{n}_h100.json").read_text()) for n in ("compile", "split")
    )
    on_one = [run for run in whole["runs"] if run.items() >= of.items() and run["devices"] == 1]
    runs = [run for run in (*on_one, *split["runs"]) if run["agent"] in ("rad", "drq")]
    for run in runs:
        program = run["programs"]["update 1"]
        cells = (
            *(run["agent"], run["devices"], f"{program['operations'] / 1e9:.1f}"),
            *(_size(program["bytes_accessed"]), f"{program['collectives']:.0f}"),
            *(f"{1e3 * program['least_seconds']:.3f}", f"{run['most_env_frames_per_second']:,}"),
        )
        assert f"| {' | '.join(map(str, cells))} |" in page
    assert len(runs) == 6


def _size(number):
    return f"{number / 1e9:.2f} GB" if number >= 1e8 else f"{number / 1e6:.0f} MB"
