"""docs/bonuses/: one page a bonus, with the options, columns and costs of the code."""

import json
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
from re3_jax.runs.build import make_bonus
from re3_jax.runs.config import config_class, flatten
from re3_jax.runs.option_names import option_name
from re3_jax.runs.options import OF_ENCODERS, OF_SEARCHES
from re3_jax.runs.resolve import resolve

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REWARDING = {bonus.name: bonus for bonus in BONUSES.values() if bonus.rewards}
SECTIONS = [
    "Reward", "When to use it", "When it fails", "Cost of an update", "Options",
    "In Python", "Columns of `train.csv`", "Pre-training", "Curves",
]  # fmt: skip
VIEW = EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 50, num_states=20)
DIVISORS = {"running_std", "running_mean"}
"""Columns that depend on how a bonus is normalised."""


def page(name):
    return (DOCS / "bonuses" / f"{name}.md").read_text()


def section(name, heading):
    return page(name).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_committed_tables_are_what_the_command_writes(tmp_path, monkeypatch, capsys):
    for path, text in bonus_pages.written(DOCS, ROOT).items():
        assert path.read_text() == text, "make figure FIG=bonus_pages, and commit the pages"
    monkeypatch.chdir(tmp_path)
    assert bonus_pages.main([]) == 2
    assert "in the root of the repository" in capsys.readouterr().err


def test_costs_of_two_machines_name_the_agents_of_each():
    costs = json.loads((ROOT / "benchmarks" / "results" / "bonuses.json").read_text())
    for part, has_avx512 in (("minigrid", True), ("ppo", False), ("pixels", True)):
        costs[part]["hardware"] |= {"cpu": "A", "avx512": has_avx512, "cores": 2}
    line = bonus_pages.cost_table(BONUSES["re3"], costs).rpartition("\n")[2]
    expected = "A2C and RAD: A with AVX-512, 2 cores; PPO: A without AVX-512, 2 cores; "
    assert line == f"{expected}[all bonuses](../bonuses.md#cost)."
    # Only RAD was timed with it.
    line = bonus_pages.cost_table(BONUSES["atc"], costs).rpartition("\n")[2]
    assert line.startswith("A with AVX-512, 2 cores; [")


def test_every_bonus_has_a_page_in_the_navigation_and_in_the_table():
    pages = {path.stem for path in (DOCS / "bonuses").glob("*.md")}
    assert pages == REWARDING.keys()
    site = (ROOT / "mkdocs.yml").read_text()
    assert sorted(re.findall(r"- bonuses/(\w+)\.md$", site, re.MULTILINE)) == sorted(pages)
    table = (DOCS / "bonuses.md").read_text()
    for name in pages:
        assert f"\n| [`{name}`](bonuses/{name}.md) |" in table


@pytest.mark.parametrize("name", REWARDING)
def test_a_page_has_its_sections(name):
    assert re.findall(r"^## (.+)$", page(name), re.MULTILINE) == SECTIONS


def shown_as(value):
    """A default as a table has it."""
    if isinstance(value, bool) or value is None:
        return {True: "on", False: "off", None: "none"}[value]
    return f"`{value}`"


def has_no_effect(bonus, leaf):
    """Whether an option of RE3 concerns only encoders that this bonus does not have."""
    if bonus.weights and leaf in OF_ENCODERS:
        return True
    return bool(bonus.weights or bonus.is_learned) and leaf == "ensemble_size"


@pytest.mark.parametrize("name", REWARDING)
def test_a_page_has_every_option_with_its_default(name):
    """Those of `re3` stand on its own page; another page names those that have an effect."""
    bonus, text = REWARDING[name], section(name, "Options")
    rows = dict(re.findall(r"^\| `(--[\w.-]+)` \| (\S+) \| .{10,} \|$", text, re.MULTILINE))
    named = set(re.findall(r"`(--re3\.[\w-]+)`", text))
    for dotted, default in (flatten(config_class()()) | bonus.values).items():
        group, _, leaf = dotted.rpartition(".")
        option = option_name(dotted)
        # Batches are searched by default there, without these.
        of_ring = bonus.is_learned and dotted in OF_SEARCHES
        if group not in bonus.groups or dotted in bonus.unused:
            assert option not in rows
        elif group == "re3" and name != "re3" and (of_ring or dotted not in bonus.values):
            assert option not in rows
            assert (option in named) != has_no_effect(bonus, leaf)
        elif isinstance(default, str | bool | None):
            assert rows[option] == shown_as(default)
        else:
            assert float(rows[option].replace(",", "")) == default


def reported(name):
    """The columns of a bonus, as it is traced for a view of MiniGrid."""
    bonus = make_bonus(resolve("doorkey_6x6", "a2c", name))

    def of_rollout(frames, number, real, flag):
        key = jax.random.key(0)
        step = Step(frames, number, frames, flag, flag, number, real)
        state, index = bonus.observe(bonus.init(key, VIEW, len(number)), step)
        batch = IntrinsicBatch(frames, number, frames, index, jnp.int32(0), real)
        _, state, info = bonus.reward(state, batch)
        return {**info, **bonus.update(state, batch, key)[1]}

    kinds = ((7, 7, 3), np.uint8), ((), np.int32), ((), np.float32), ((), bool)
    given = [jax.ShapeDtypeStruct((16, *shape), kind) for shape, kind in kinds]
    return set(jax.eval_shape(of_rollout, *given))


@pytest.mark.parametrize("name", REWARDING)
def test_a_page_names_the_columns_that_the_bonus_reports(name):
    """A bonus with weights from a file is a state entropy like RE3, with another encoder."""
    said = set(re.findall(r"`(\w+)`", section(name, "Columns of `train.csv`")))
    found = reported("re3" if REWARDING[name].weights else name)
    assert found <= said and said - found <= DIVISORS
