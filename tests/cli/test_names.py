"""`make help`, the README and the docs name exactly what is registered."""

import re
from pathlib import Path
from typing import get_args

import pytest

from re3_jax.runs.agents import AGENTS
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.config import PresetName
from re3_jax.runs.option_names import option_name

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = {"agent": set(AGENTS), "bonus": set(BONUSES), "preset": set(get_args(PresetName))}


def named(kind: str, text: str) -> set[str]:
    """The values of `KIND=` and `--kind`, except on lines with a plugin."""
    lines = (line for line in text.splitlines() if "--plugin" not in line)
    values = re.findall(rf"(?:\b{kind.upper()}=|--{kind} )([a-z]\w*)", "\n".join(lines))
    return set(values)


@pytest.mark.parametrize("kind", NAMES)
def test_make_help_lists_all_of_them(kind):
    (listed,) = re.findall(rf"\[{kind.upper()}=([a-z0-9_|]+)\]", (ROOT / "Makefile").read_text())
    assert set(listed.split("|")) == NAMES[kind]


@pytest.mark.parametrize("kind", NAMES)
def test_pages_name_only_what_exists(kind):
    found = {(page.name, name) for page in PAGES for name in named(kind, page.read_text())}
    assert len({name for _, name in found}) > 1
    assert not {(page, name) for page, name in found if name not in NAMES[kind]}


@pytest.mark.parametrize("kind", NAMES)
def test_pages_name_every_one(kind):
    """As `name`, or as a value of an option."""
    text = "\n".join(page.read_text() for page in PAGES)
    assert {name for name in NAMES[kind] if f"`{name}`" in text} | named(kind, text) >= NAMES[kind]


def test_the_readme_has_every_agent_and_bonus():
    readme = (ROOT / "README.md").read_text()
    assert {name for name in AGENTS if re.search(rf"\b{name}\b", readme, re.IGNORECASE)} == set(
        AGENTS
    )
    (row,) = (line for line in readme.splitlines() if line.startswith("| **Bonuses** |"))
    rewards = {bonus.name for bonus in BONUSES.values() if bonus.rewards}
    assert {name for name in rewards if f"`{name}`" in row} | named("bonus", row) == rewards


def test_the_table_of_bonuses_is_that_of_their_entries():
    text = (ROOT / "docs" / "bonuses.md").read_text().partition("| `BONUS` |")[2]
    table = text.partition("\n\n")[0]
    cell = r"(?:`none`|\[`(?P<name>\w+)`\]\(bonuses/(?P=name)\.md\))"
    rows = re.findall(rf"^\| {cell} \|(.*)\|(.*)\|.*\|$", table, re.MULTILINE)
    rows = [(name or "none", *cells) for name, *cells in rows]
    assert {name for name, *_ in rows} == set(BONUSES)
    for name, rewarded, options in rows:
        groups = {option_name(f"{group}.x").removesuffix(".x") for group in BONUSES[name].groups}
        assert set(re.findall(r"--\w+", options)) == groups
        assert (rewarded.strip() != "nothing") == BONUSES[name].rewards


def test_the_table_of_suites_has_every_agent():
    text = (ROOT / "docs" / "environments.md").read_text()
    rows = re.findall(r"^\| .*\| (.*) \|$", text.partition("## ")[0], re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(AGENTS)
