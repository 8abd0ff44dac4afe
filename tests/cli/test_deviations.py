"""docs/deviations.md names every option that separates the presets, with both values."""

import csv
import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from re3_jax.envs import registry
from re3_jax.envs.registry import PAPER_TASKS
from re3_jax.runs import statistics
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.config import RunConfig, field_types, flatten
from re3_jax.runs.option_names import option_name
from re3_jax.runs.resolve import resolve

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "deviations.md"
NUMBERS = {"5": 5, "8": 8, "0.01": 0.01, "1e-8": 1e-8}
SMALL = {
    "dmc.image_size": (100, 48),
    "dmc.renderer": ("gl", "warp"),
    "sac.crop_size": (84, 40),
    "re3.image_crop": (84, 40),
    "sac.frame_differences": (False, True),
    "sac.torso": ("rad", "patches"),
    "sac.num_filters": (32, 16),
    "re3.torso": ("rad", "patches"),
    "re3.num_filters": (32, 16),
    "sac.hidden_dim": (1024, 256),
    "sac.updates_per_step": (1, 2),
    "sac.batch_size": (512, 64),
    "sac.actor_learning_rate": (2e-4, 1e-3),
    "sac.critic_learning_rate": (2e-4, 1e-3),
    "sac.n_steps": (1, 3),
    "dmc.action_repeat": (2, 4),
    "re3.rho": (1e-5, pytest.approx(2e-5, rel=1e-4)),
    "sac.initial_agent_steps": (1_000, 500),
    "re3.search_size": (None, 10_000),
    "re3.first_neighbour": (4, 3),
    "re3.last_neighbour": (4, 3),
    "re3.count_self": (True, False),
    "evaluation.every_env_frames": (10_000, 25_000),
    "evaluation.episodes": (10, 2),
    "seeds": (5, 1),
}
"""What the page says of `released` and `small` on cheetah_run_sparse."""
SMALL_DREAMER = {
    "dreamer.conv_depth": (32, 8),
    "dreamer.head_units": (400, 200),
    "dreamer.updates_per_burst": (100, 50),
    "dreamer.batch_size": (50, 16),
    "dreamer.sequence_length": (50, 16),
    "re3.first_neighbour": (53, 18),
    "re3.last_neighbour": (53, 18),
    "steps": (500_000, 150_000),
    "dmc.renderer": ("gl", "warp"),
    "evaluation.episodes": (1, 4),
    "seeds": (3, 1),
}
"""What it says of Dreamer on finger_spin."""


DMC_SECTION = PAGE.read_text().partition("## RAD and DrQ")[2].partition("`PRESET=recommended`")[0]


def options_in(text):
    own = [
        f"{bonus.groups[0]}.{field.name}"
        for bonus in BONUSES.values()
        if bonus.config is not None
        for field in dataclasses.fields(bonus.config)
    ]
    names = {option_name(name): name for name in [*field_types(RunConfig), *own]}
    options = re.findall(r"--[a-z][a-z0-9.\-]+", text)
    return {names[re.sub(r"\.no-", ".", option)] for option in options}


def rows(section="## A2C with RE3 on MiniGrid", end="###"):
    """The cells of a table's rows without their numbers; the last two are Option and Test."""
    table = PAGE.read_text().partition(section)[2].partition(end)[0]
    cells = [line.strip("|").split("|") for line in table.splitlines() if re.match(r"\| \d", line)]
    return [[cell.strip() for cell in row[1:]] for row in cells]


def differences(task, agent=None):
    """Options in which `paper` and `released` differ, without the preset's name."""
    paper = flatten(resolve(task, agent, preset="paper"))
    released = flatten(resolve(task, agent, preset="released"))
    return {name for name in paper if paper[name] != released[name]} - {"preset"}


@pytest.mark.parametrize("task", [task for task in PAPER_TASKS if not registry.is_host(task)])
def test_the_table_names_what_separates_paper_from_released(task):
    named = set.union(*(options_in(row[-2]) for row in rows()))
    assert named - {"re3.count_self"} == differences(task)
    assert resolve(task, preset="paper").re3.count_self
    assert resolve(task, preset="released").re3.count_self


@pytest.mark.parametrize("task", [t for t in PAPER_TASKS if registry.suite(t) == "atari"])
def test_nothing_separates_them_on_atari(task):
    """The authors published no code for it."""
    assert differences(task) == set()


@pytest.mark.parametrize("task", [task for task in PAPER_TASKS if registry.suite(task) == "dmc"])
@pytest.mark.parametrize("agent", ["rad", "drq"])
def test_the_table_of_deepmind_control_names_what_separates_them(task, agent):
    rad, _, drq = DMC_SECTION.partition("With `AGENT=drq`")
    named = options_in(rad) | (options_in(drq) if agent == "drq" else set())
    named -= set() if resolve(task, preset="released").seeds == 3 else {"seeds"}
    assert named == differences(task, agent)


def test_the_table_of_small_names_what_separates_it_from_the_released_size():
    options = (resolve("cheetah_run_sparse", preset=name) for name in ("released", "small"))
    released, small = map(flatten, options)
    # Other bonuses have the sizes of RE3's.
    groups = {"", "sac", "dmc", "re3", "evaluation"}
    different = {
        name
        for name in small
        if small[name] != released[name] and name.rpartition(".")[0] in groups and name != "preset"
    }
    assert (
        set.union(*(options_in(row[-2]) for row in rows("## `small`", "With `AGENT"))) == different
    )
    assert different == SMALL.keys()


def test_small_has_the_values_of_its_table():
    values = [flatten(resolve("cheetah_run_sparse", preset=name)) for name in ("released", "small")]
    assert {name: tuple(value[name] for value in values) for name in SMALL} == SMALL


def test_small_has_the_values_of_its_dreamer_table():
    options = (resolve("finger_spin", "dreamer", preset=name) for name in ("released", "small"))
    released, small = map(flatten, options)
    different = {name for name in small if small[name] != released[name]} - {"preset"}
    named = set.union(*(options_in(row[-2]) for row in rows("With `AGENT=dreamer`")))
    assert named == different
    assert {name: (released[name], small[name]) for name in different} == SMALL_DREAMER


def test_the_table_of_dreamer_gives_the_values_of_the_presets():
    table = {
        "dreamer.head_order": ("layer_norm_then_tanh", "tanh_then_layer_norm"),
        "re3.normalize": ("running_std", "released_running_std"),
        "dmc.sparse_threshold": ("exclusive", "inclusive"),
        "evaluation.episodes": (10, 1),
    }
    named = set.union(*(options_in(row[-2]) for row in rows("## Dreamer", "What both have")))
    assert named == table.keys()
    # Rows 29 and 30, and what RE3 makes no use of in Dreamer.
    others = {"pretrain_reward", "seeds", "re3.image_input"}
    assert differences("hopper_stand", "dreamer") == named | others
    values = [
        flatten(resolve("hopper_stand", "dreamer", preset=name)) for name in ("paper", "released")
    ]
    assert {name: tuple(value[name] for value in values) for name in table} == table


def test_the_table_of_deepmind_control_gives_the_values_of_the_presets():
    paper = flatten(resolve("cheetah_run_sparse", preset="paper"))
    released = flatten(resolve("cheetah_run_sparse", preset="released"))
    worded = 0
    for *_, option, _ in rows("## RAD and DrQ", "With `AGENT=drq`"):
        values = tuple(re.findall(r"`([a-z_]+)`", option))
        if values:
            (name,) = options_in(option)
            assert (paper[name], released[name]) == values
            worded += 1
    assert worded == 4


@pytest.mark.parametrize(("page", "least"), [(PAGE, 20), (PAGE.parent / "ppo.md", 8)])
def test_every_test_that_the_page_names_exists(page, least):
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text())
    assert len(named) >= least
    for file, test in named:
        text = (ROOT / file).read_text()
        assert not test or f"def {test}(" in text, f"{file}::{test}"


def test_every_row_names_a_test():
    lines = re.findall(r"^\| \d+ \|.*$", PAGE.read_text(), re.MULTILINE)
    unnamed = [line for line in lines if not re.search(r"\| (`tests/[^|]*|the same) \|$", line)]
    assert lines and not unnamed


def test_rows_are_numbered_without_gaps():
    numbers = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, len(numbers) + 1))


def test_the_table_gives_the_values_of_the_presets():
    paper = flatten(resolve("doorkey_6x6", preset="paper"))
    released = flatten(resolve("doorkey_6x6", preset="released"))
    numeric = [row for row in rows() if row[1] in NUMBERS]
    assert len(numeric) == 2
    for _, in_paper, in_released, option, _ in numeric:
        (name,) = options_in(option)
        assert (paper[name], released[name]) == (NUMBERS[in_paper], NUMBERS[in_released])
    worded = {tuple(re.findall(r"`(\w+)`", row[-2])): options_in(row[-2]).pop() for row in rows()}
    checked = set()
    for values, name in worded.items():
        if values and values[0] in ("none", "reward"):
            assert (paper[name], released[name]) == values
            checked.add(name)
    assert checked == {"re3.normalize", "a2c.bonus_target"}
    assert (paper["re3.first_neighbour"], paper["re3.last_neighbour"]) == (2, 3)
    assert (released["re3.first_neighbour"], released["re3.last_neighbour"]) == (1, 5)


ROWS = {
    "`released`": "released",
    "with 5 frames per process": "5 frames per process",
    "with RMSprop epsilon 0.01": "RMSprop eps 0.01",
    "with the bonus in the reward": "bonus in the reward",
    "with neighbours 2 to 3": "neighbours 2 to 3",
    "without normalisation": "no normalisation",
    "with the exact running std": "exact running std",
    "`paper`": "paper",
    "`paper` with RMSprop epsilon 1e-8": "paper, RMSprop eps 1e-8",
    "`released` without bonus": "no bonus (released)",
}
"""The page's words for the rows of `results/minigrid_deviations/table.csv`."""


def committed(path):
    with (ROOT / "results" / path).open() as lines:
        return list(csv.DictReader(lines))


def with_interval(row):
    mean, *bounds = (float(row[f"final_return_mean{suffix}"]) for suffix in ("", "_low", "_high"))
    return f"{mean:.2f} ({' to '.join(f'{bound:.2f}' for bound in bounds)})"


def compared(row):
    values = [row[f"larger_area_than_released{end}"] for end in ("", "_low", "_high", "_p")]
    if not all(values):
        return []
    probability, low, high, p = map(float, values)
    said = "<0.0001" if p < 1e-4 else f"{p:.2f}"
    return [f"{probability:.2f} ({low:.2f} to {high:.2f}), {said}"]


def test_the_returns_of_the_page_are_those_of_committed_runs():
    section = PAGE.read_text().partition("### Which of them decides")[2].partition("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in section.splitlines() if " (" in line]
    shown = {row[0]: row[1:] for row in cells if row[0] in ROWS}
    found = {row["label"]: row for row in committed("minigrid_deviations/table.csv")}
    assert shown.keys() == ROWS.keys() and len(ROWS) == len(found)
    for words, label in ROWS.items():
        area = f"{float(found[label]['area_under_curve']):.3f}"
        assert shown[words] == [with_interval(found[label]), area, *compared(found[label])]


def test_the_comparisons_of_the_page_are_of_committed_runs():
    text = " ".join(PAGE.read_text().split())
    ends = []
    for name in ("bonus_in_the_reward", "released"):
        runs = committed(f"minigrid_deviations/{name}.csv")
        last = max(int(run["env_frames"]) for run in runs)
        kept = [float(run["return_mean"]) for run in runs if int(run["env_frames"]) == last]
        ends.append(np.array(kept))
    probability = statistics.probability_of_improvement
    low, high = statistics.bootstrap_interval(probability, *ends)
    interval = f"(95% interval {low:.2f} to {high:.2f})"
    assert f"with probability {probability(*ends):.2f} {interval}" in text
    of_task = {
        (path, row["label"]): row
        for path in ("minigrid/doorkey_8x8_seeds_11_to_40/recommended", "minigrid/released")
        for row in committed(f"{path}.csv")
        if row["task"] == "doorkey_8x8"
    }
    fresh, released = dict.fromkeys(path for path, _ in of_task)
    searched, plain = of_task[fresh, "A2C + RE3"], of_task[fresh, "A2C"]
    assert (
        f"`recommended` ends at {with_interval(searched)} and its A2C without bonus at "
        f"{with_interval(plain)}, seeds 11 to 40; `released` with RE3 at "
        f"{with_interval(of_task[released, 'A2C + RE3'])}, seeds 1 to 10"
    ) in text
    presets = "recommended", "released"
    weights = [resolve("doorkey_8x8", preset=preset).re3.beta for preset in presets]
    assert weights == [float(searched["beta"]), 0.01] == [0.005, 0.01]
    assert "weight, 0.005, the last that of the paper's table, 0.01" in text


def test_every_option_that_the_page_names_exists():
    assert len(options_in(PAGE.read_text())) >= 12
