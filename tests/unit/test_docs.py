"""Pages: links lead somewhere, error sentences are the source's, Python blocks run."""

import ast
import re
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "results/README.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted(DOCS.glob("tutorials/*.py")),
]


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as mkdocs names them."""
    headings = re.findall(r"^(?:# )?#+ (.+)$", prose(page), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)", prose(page)):
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(found), f"{page.name} links to {target}#{anchor}"


def sentences_of_the_source() -> list[str]:
    """Every text of the package, with ... for each value in it."""
    found = []
    for path in (ROOT / "re3_jax").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (getattr(part, "value", "") for part in node.values)
                found.append("".join(part if isinstance(part, str) else "..." for part in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_every_sentence_of_the_troubleshooting_page_is_one_of_the_source():
    page = (DOCS / "troubleshooting.md").read_text()
    asked = re.findall(r"^> (.+)$", page, re.MULTILINE)
    assert len(asked) > 15
    known = sentences_of_the_source()
    assert [one for one in asked if not any(one in sentence for sentence in known)] == []


def test_the_table_of_extras_is_that_of_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    rows = re.findall(r"^\| (`.+?) \|", (DOCS / "install.md").read_text(), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == extras.keys()


def test_every_folder_of_results_has_a_section():
    headings = re.findall(r"^### (\w+)$", prose(ROOT / "results" / "README.md"), re.MULTILINE)
    folders = [path.name for path in (ROOT / "results").iterdir() if path.is_dir()]
    assert sorted(headings) == sorted(folders)


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_code_of_a_page_runs(page):
    (block,) = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.M)
    observation = jnp.zeros((8, 4))
    names = {
        "key": jax.random.key(0),
        "num_lanes": 8,
        "observation": observation,
        "action": jnp.zeros(8, jnp.int32),
        "next_observation": observation,
        "terminated": jnp.zeros(8, bool),
        "truncated": jnp.zeros(8, bool),
        "agent_steps": jnp.int32(0),
    }
    exec(block, names)
    reward = names["r_int"]
    assert reward.shape == (8,) and jnp.isfinite(reward).all()


def test_the_hooks_of_git_use_the_ruff_of_the_lock():
    lock = (ROOT / "requirements-dev.txt").read_text()
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    (version,) = re.findall(r"^ruff==(\S+)$", lock, re.MULTILINE)
    assert f"ruff-pre-commit\n    rev: v{version}\n" in hooks
