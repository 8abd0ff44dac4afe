"""The layers of the package: which modules import which, read from the source."""

import ast
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AGENTS = sorted(file.parent.name for file in (ROOT / "re3_jax/agents").glob("*/learner.py"))
RUNS, COMMANDS = "re3_jax/runs/", "re3_jax/commands/"


def modules(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found
    return found


def imports(path: Path) -> set[str]:
    """Dotted names of the modules that a file imports, and of what it imports from them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return {name for name in found if name.startswith(("re3_jax", "experiments"))}


def imported_by(folder: str) -> dict[str, set[str]]:
    return {str(path.relative_to(ROOT)): imports(path) for path in modules(folder)}


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("re3_jax/training", [f"re3_jax.agents.{name}" for name in AGENTS]),
        ("re3_jax/agents", ["re3_jax.training"]),
        ("re3_jax/intrinsic", ["re3_jax.agents", "re3_jax.training"]),
        ("re3_jax/replay", ["re3_jax.agents", "re3_jax.intrinsic", "re3_jax.training"]),
        ("re3_jax/envs", ["re3_jax.agents", "re3_jax.intrinsic", "re3_jax.training"]),
        ("re3_jax/knn", ["re3_jax.agents", "re3_jax.intrinsic", "re3_jax.training"]),
        ("re3_jax/interop", ["re3_jax.agents"]),
        ("re3_jax/runs", ["re3_jax.commands"]),
        ("re3_jax", ["experiments", "tests", "benchmarks"]),
    ],
)
def test_lower_layers_do_not_import_higher_ones(folder, forbidden):
    for path, names in imported_by(folder).items():
        for name, room in itertools.product(names, forbidden):
            assert not f"{name}.".startswith(f"{room}."), f"{path} imports {name}"


def test_the_library_knows_neither_runs_nor_commands():
    for path, names in imported_by("re3_jax").items():
        # The package itself offers `train` and `load`, and imports them when they are asked for.
        if not path.startswith((RUNS, COMMANDS, "re3_jax/__init__.py")):
            for name in names:
                room = f"{name}.".replace(".", "/")
                assert not room.startswith((RUNS, COMMANDS)), f"{path} imports {name}"


def test_only_loops_of_other_libraries_use_the_wrappers_for_them():
    for path, names in imported_by("re3_jax").items():
        assert path.startswith("re3_jax/interop/") or not any(
            name.startswith("re3_jax.interop") for name in names
        ), path


@pytest.mark.parametrize("agent", AGENTS)
def test_agents_do_not_import_one_another(agent):
    others = [f"re3_jax.agents.{name}." for name in AGENTS if name != agent]
    for path, names in imported_by(f"re3_jax/agents/{agent}").items():
        for name in names:
            assert not f"{name}.".startswith(tuple(others)), f"{path} imports {name}"


def test_imports_have_no_cycles():
    """Checks imports at module level only; an import within a function cannot fail at start-up."""
    parsed = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in modules("re3_jax")
    }
    graph: dict[str, set[str]] = {name: set() for name in parsed}
    for name, path in parsed.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom):
                # A module imported from its package does not depend on the whole package.
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    graph[name].add(whole if whole in parsed else str(node.module))
            elif isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names}
        graph[name] = graph[name] & parsed.keys() - {name}
    done: set[str] = set()

    def visit(name, trail):
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, [*trail, name])
            done.add(name)

    for name in graph:
        visit(name, [])


def test_what_a_run_imports_and_the_package_shows():
    code = (
        "import sys, re3_jax; assert {'train', 'load', 'Run', 'UsageError'} <= {*dir(re3_jax)}\n"
        "assert 'jax' not in sys.modules, 'jax'\n"
        "import re3_jax.runs.run\n"
        "assert 'runs' in dir(re3_jax)\n"
        "late = {'matplotlib', 'scipy.stats', 'dm_control', 'brax'} & {*sys.modules}\n"
        "assert not late, late\n"
        "assert isinstance(re3_jax.Run, type)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_parts_of_the_package_come_when_they_are_used():
    code = (
        "import re3_jax\n"
        "assert all(getattr(re3_jax, name) for name in re3_jax.PARTS)\n"
        "assert callable(re3_jax.intrinsic.from_config) and callable(re3_jax.knn.kth_distance)\n"
        "assert {*re3_jax.PARTS} <= {*dir(re3_jax)} and 'import_module' not in dir(re3_jax)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
