"""Pages: links lead somewhere, error sentences are the source's, Python blocks run."""

import ast
import re
import tomllib
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.initializers import Layer
from re3_jax.intrinsic import IntrinsicReward, pretrained
from re3_jax.networks import conv_stack
from re3_jax.networks.atc import ATCEncoder
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.resolve import resolve

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
        "observations": jnp.zeros((5, 8, 4)),
        "action": jnp.zeros(8, jnp.int32),
        "next_observation": observation,
        "terminated": jnp.zeros(8, bool),
        "truncated": jnp.zeros(8, bool),
        "agent_steps": jnp.int32(0),
    }
    exec(block, names)
    reward = names["r_int"]
    assert reward.shape == (8,) and jnp.isfinite(reward).all()


ATC = ATCEncoder(conv_stack.of_layers((), ()), Layer(np.zeros((4, 5)), np.zeros(5)))


@pytest.mark.parametrize("name", [name for name in BONUSES if name != "none"])
def test_the_python_of_a_bonus_page_makes_the_bonus(name, monkeypatch):
    monkeypatch.setattr(pretrained, "load_imagenet", lambda path: None)
    monkeypatch.setattr(pretrained, "load_atc", lambda path: ATC)
    text = (DOCS / "bonuses" / f"{name}.md").read_text()
    (block,) = re.findall(r"^## In Python\n\n```python\n(.*?)^```", text, re.DOTALL | re.M)
    names = {"num_steps": 5, "num_lanes": 2}
    exec(block, names)
    spec = EnvSpec("e", (7, 7, 3), np.dtype(np.uint8), Discrete(2), 9, num_states=4)
    if name in ("imagenet", "atc"):
        assert isinstance(names["bonus"], IntrinsicReward)
    else:
        config = resolve("doorkey_6x6", bonus=name)
        theirs = BONUSES[name].make(config, config.re3)
        ours, expected = (
            jax.eval_shape(partial(each.init, spec=spec, num_lanes=2), jax.random.key(0)).bonus
            for each in (names["bonus"], theirs)
        )
        assert type(ours) is type(expected)


def test_the_hooks_of_git_use_the_ruff_of_the_lock():
    lock = (ROOT / "requirements-dev.txt").read_text()
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    (version,) = re.findall(r"^ruff==(\S+)$", lock, re.MULTILINE)
    assert f"ruff-pre-commit\n    rev: v{version}\n" in hooks
