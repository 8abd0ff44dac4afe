"""docs/deviations.md names every option that separates the presets, with both values."""

import re
from pathlib import Path

import pytest

from experiments import presets
from experiments.config import field_types, flatten, option_name
from re3_jax.envs.registry import PAPER_TASKS

PAGE = Path(__file__).parents[2] / "docs" / "deviations.md"
NUMBERS = {"5": 5, "8": 8, "0.01": 0.01, "1e-8": 1e-8}


def options_in(text):
    names = {option_name(name): name for name in field_types(presets.RunConfig)}
    return {names[option] for option in re.findall(r"--[a-z][a-z0-9.\-]+", text)}


def rows():
    table = PAGE.read_text().partition("## A2C + RE3 on MiniGrid")[2].partition("###")[0]
    cells = [line.strip("|").split("|") for line in table.splitlines() if re.match(r"\| \d", line)]
    return [[cell.strip() for cell in row[1:]] for row in cells]


@pytest.mark.parametrize("task", PAPER_TASKS)
def test_the_table_names_what_separates_paper_from_released(task):
    paper = flatten(presets.resolve(task, preset="paper"))
    released = flatten(presets.resolve(task, preset="released"))
    differing = {name for name in paper if paper[name] != released[name]} - {"preset"}
    named = set.union(*(options_in(row[-1]) for row in rows()))
    assert named - {"re3.count_self"} == differing
    assert paper["re3.count_self"] and released["re3.count_self"]


def test_the_table_gives_the_values_of_the_presets():
    paper = flatten(presets.resolve("doorkey_6x6", preset="paper"))
    released = flatten(presets.resolve("doorkey_6x6", preset="released"))
    numeric = [row for row in rows() if row[1] in NUMBERS]
    assert len(numeric) == 2
    for _, in_paper, in_released, option in numeric:
        (name,) = options_in(option)
        assert (paper[name], released[name]) == (NUMBERS[in_paper], NUMBERS[in_released])
    worded = {tuple(re.findall(r"`(\w+)`", row[-1])): options_in(row[-1]).pop() for row in rows()}
    checked = set()
    for values, name in worded.items():
        if values and values[0] in ("none", "reward"):
            assert (paper[name], released[name]) == values
            checked.add(name)
    assert checked == {"re3.normalize", "a2c.bonus_target"}
    assert (paper["re3.first_neighbour"], paper["re3.last_neighbour"]) == (2, 3)
    assert (released["re3.first_neighbour"], released["re3.last_neighbour"]) == (1, 5)


def test_every_option_that_the_page_names_exists():
    assert len(options_in(PAGE.read_text())) >= 12
