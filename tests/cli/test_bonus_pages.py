"""docs/bonuses/: one page a bonus, with the options, columns and costs of the code."""

import dataclasses
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.figures import bonus_pages
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.config import flatten, option_name
from re3_jax.runs.resolve import resolve

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REWARDING = {bonus.name: bonus for bonus in BONUSES.values() if bonus.rewards}
SECTIONS = [
    "Reward", "When to use it", "When it fails", "Cost of an update", "Options",
    "Columns of `train.csv`", "Pre-training", "Curves",
]  # fmt: skip
OWN = re.compile(r"^\| `(--[\w.-]+)` \| (\S+) \| (.+) \|$", re.MULTILINE)


def page(name):
    return (DOCS / "bonuses" / f"{name}.md").read_text()


def section(name, heading):
    return page(name).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_committed_tables_are_what_the_command_writes():
    for path, text in bonus_pages.written(DOCS, ROOT).items():
        assert path.read_text() == text, "make figure FIG=bonus_pages, and commit the pages"


def test_every_bonus_has_a_page_in_the_navigation_and_in_the_table():
    pages = {path.stem for path in (DOCS / "bonuses").glob("*.md")}
    assert pages == REWARDING.keys()
    navigation = re.findall(r"- bonuses/(\w+)\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(navigation) == sorted(pages)
    table = (DOCS / "bonuses.md").read_text()
    for name in pages:
        assert f"\n| [`{name}`](bonuses/{name}.md) |" in table


@pytest.mark.parametrize("name", REWARDING)
def test_a_page_has_its_sections(name):
    assert re.findall(r"^## (.+)$", page(name), re.MULTILINE) == SECTIONS


@pytest.mark.parametrize("name", REWARDING)
def test_a_page_has_every_option_with_its_default(name):
    """Those of `re3` stand on its own page; the others name them."""
    bonus = REWARDING[name]
    tables = dict(BONUSES.items()) and flatten(type(resolve("doorkey_8x8"))(env="doorkey_8x8"))
    shown = {option: (default, words) for option, default, words in OWN.findall(page(name))}
    for dotted, default in (tables | bonus.values).items():
        group, option = dotted.partition(".")[0], option_name(dotted)
        if group not in bonus.groups or dotted in bonus.unused:
            assert option not in shown
        elif group == "re3" and name != "re3" and dotted not in bonus.values:
            assert option not in shown
        else:
            said, words = shown[option]
            plain = {None: "none", True: "on", False: "off"}
            same = default in plain and said == plain[default]
            assert same or said.strip("`") == str(default) or float(said.replace(",", "")) == default
            assert len(words) > 10
    named = set(re.findall(r"`(--re3\.[\w-]+)`", section(name, "Options")))
    if "re3" in bonus.groups and name != "re3":
        effective = {n for n in tables if n.startswith("re3.") and n not in bonus.unused}
        refused = {"--re3.ensemble-size"}
        of_encoder = {option_name(f"re3.{leaf}") for leaf in bonus_pages.OF_ENCODERS}
        expected = {option_name(n) for n in effective}
        if bonus.weights or bonus.is_learned:
            expected -= refused
        if bonus.weights:
            expected -= of_encoder
        assert named | {"--re3.beta"} >= expected and named <= expected | {"--re3.beta"}
