"""docs/reproduction.md: made of the committed results, complete, its verdicts decided by rules."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import PermutationMethod, mannwhitneyu

from experiments.figures import reproduction
from experiments.reproduction import page, rules
from experiments.reproduction.entry import Verdict
from experiments.reproduction.results import Interval
from experiments.reproduction.rules import Comparison
from re3_jax.runs.curves import Curve, areas
from tests.cli.documented import config_of, variables

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproduction.md"
REPRODUCED, SMALLER, NOT_REPRODUCED, NOT_RUN = Verdict
ENTRIES = [entry for section in page.SECTIONS for entry in section.entries]


@pytest.fixture(scope="module")
def written():
    return page.write(ROOT)


def test_the_committed_page_is_what_the_command_writes(written, tmp_path, monkeypatch):
    assert PAGE.read_text() == written[0], "make figure FIG=reproduction, and commit the page"
    monkeypatch.chdir(ROOT)
    assert reproduction.main(["--out", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text() == written[0]


def test_another_folder_than_the_root_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert reproduction.main([]) == 2
    assert "in the root of the repository" in capsys.readouterr().err


def test_every_folder_of_results_is_used_or_named_as_outside_the_paper(written):
    used = {name.split("/")[1] for name in written[1] if name.startswith("results/")}
    folders = {path.name for path in (ROOT / "results").iterdir() if path.is_dir()}
    assert folders - used - page.OUTSIDE.keys() == set()
    assert page.OUTSIDE.keys() <= folders
    assert not page.OUTSIDE.keys() & used


@pytest.mark.parametrize(
    ("kind", "last"), [("Figure", 16), ("Table", 3), ("Algorithm", 2), ("Equation", 4)]
)
def test_every_figure_table_algorithm_and_equation_has_an_entry(kind, last):
    named = [re.findall(rf"^{kind}s? ([\d, ]+)", entry.item) for entry in ENTRIES]
    numbers = {int(n) for found in named for words in found for n in re.findall(r"\d+", words)}
    assert numbers == set(range(1, last + 1))


def test_commands_work(written):
    """Options are known, and figures, benchmarks and tests exist."""
    commands = set(re.findall(r"`(make [\w-]+ [^`]+)`", written[0]))
    assert len(commands) > 40
    for command in commands:
        target, values = command.split()[1], variables(command)
        if target == "run":
            config_of(command)
        elif target in ("test", "test-all"):
            assert all((ROOT / name).is_file() for name in values["TESTS"].split())
        elif target == "figure":
            assert (ROOT / f"experiments/figures/{values['FIG']}.py").is_file()
        else:
            assert target == "bench" and (ROOT / f"benchmarks/{values['BENCH']}.py").is_file()


def test_the_tests_that_entries_name_exist():
    folder = ROOT / "experiments" / "reproduction"
    text = "".join(path.read_text() for path in folder.glob("*.py"))
    named = re.findall(r"\"(tests/[\w/]+\.py)::(\w+)\"", text)
    assert len(named) > 40
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"


@pytest.mark.parametrize(("seeds", "can_differ"), [(3, False), (rules.FEWEST_SEEDS, True)])
def test_the_fewest_seeds_that_can_differ(seeds, can_differ):
    low, high = np.arange(seeds), np.arange(seeds) + 10
    assert (mannwhitneyu(low, high, method="exact").pvalue < 0.05) == can_differ


def compared(low, high, seeds=5, p=0.01):
    return Comparison(Interval((low + high) / 2, low, high), seeds, p)


@pytest.mark.parametrize(
    ("probabilities", "needed", "verdict"),
    [
        ([(0.6, 1.0)], 1, REPRODUCED),
        ([(0.4, 1.0)], 1, NOT_REPRODUCED),
        ([(0.5, 1.0)], 1, NOT_REPRODUCED),
        ([(0.6, 1.0, 5, 0.06)], 1, NOT_REPRODUCED),
        ([(0.6, 1.0, 5, 0.05)], 1, NOT_REPRODUCED),
        ([(0.6, 1.0), (0.0, 0.2), (0.7, 0.9)], 2, REPRODUCED),
        ([(0.6, 1.0), (0.3, 0.7), (0.4, 0.9)], 2, NOT_REPRODUCED),
    ],
)
def test_better_is_an_interval_above_one_half_and_a_small_p(probabilities, needed, verdict):
    comparisons = [compared(*one) for one in probabilities]
    assert rules.better(comparisons, needed, REPRODUCED)[0] is verdict
    smaller = SMALLER if verdict is REPRODUCED else verdict
    assert rules.better(comparisons, needed, SMALLER)[0] is smaller


def test_a_comparison_has_as_many_seeds_as_the_smaller_of_its_rows():
    few, many = (Curve("", np.array([0, 10]), np.ones((seeds, 2))) for seeds in (3, 9))
    assert rules.by_area(few, many).seeds == rules.by_area(many, few).seeds == 3
    row = {"better_than_first": "1", "better_than_first_low": "1", "better_than_first_high": "1"}
    row["better_than_first_p"] = "0.01"
    for pair in ("3", "9"), ("9", "3"):
        ours, theirs = ({**row, "seeds": seeds} for seeds in pair)
        assert rules.by_column(ours, theirs, "better_than_first").seeds == 3


def test_comparisons_of_too_few_seeds_decide_nothing():
    few, won, lost = compared(1, 1, 3, 0.1), compared(0.6, 1.0), compared(0.0, 0.4)
    assert rules.better([few, won], 1, SMALLER) == (SMALLER, "")
    judged = rules.better([few, won, lost], 2, SMALLER)
    assert judged == (NOT_REPRODUCED, "better in 1 of 3, 1 worse, 1 with fewer than 4 seeds")


def test_alike_and_no_worse():
    equal, better, worse = compared(0.3, 0.7), compared(0.6, 1.0), compared(0.0, 0.4)
    assert rules.alike([equal, equal], SMALLER) == (SMALLER, "no difference shown")
    for differs in (better, worse):
        assert rules.alike([equal, differs], SMALLER) == (NOT_REPRODUCED, "1 of 2 differ")
    assert rules.not_worse([better], REPRODUCED) == (REPRODUCED, "")
    no_difference = REPRODUCED, "no difference shown"
    assert rules.not_worse([equal, better], REPRODUCED) == no_difference
    assert rules.not_worse([equal, worse], REPRODUCED) == (NOT_REPRODUCED, "worse")


def test_numbers_and_intervals_that_lie_apart():
    found = Interval(0.5, 0.4, 0.6)
    for number, verdict in ((0.49, REPRODUCED), (0.3, NOT_REPRODUCED), (0.7, NOT_REPRODUCED)):
        assert rules.contains(found, 5, number, REPRODUCED)[0] is verdict
    assert rules.below(found, 5, 0.7, REPRODUCED)[0] is REPRODUCED
    assert rules.below(found, 5, 0.55, REPRODUCED)[0] is NOT_REPRODUCED
    pairs = [(found, Interval(0.2, 0.1, 0.3)), (found, Interval(0.4, 0.3, 0.5))]
    assert rules.apart(pairs[:1], 3, REPRODUCED)[0] is REPRODUCED
    assert rules.apart(pairs, 3, REPRODUCED) == (NOT_REPRODUCED, "apart in 1 of 2")


def test_what_is_not_finite_decides_nothing():
    nan = Interval(*[float("nan")] * 3)
    comparison = compared(0.6, 1.0)._replace(probability=nan)
    judged = [
        rules.better([comparison], 1, REPRODUCED),
        rules.alike([comparison], REPRODUCED),
        rules.not_worse([comparison], REPRODUCED),
        rules.contains(nan, 5, 1.0, REPRODUCED),
        rules.below(nan, 5, 2.0, REPRODUCED),
        rules.apart([(nan, Interval(0, 0, 0))], 5, REPRODUCED),
        rules.above_zero([nan], 5, REPRODUCED),
    ]
    assert set(judged) == {rules.NOT_FINITE}
    curves = np.zeros((5, 3)), np.full((5, 3), [0.0, np.nan, 1.0])
    ours, theirs = (Curve("any", np.array([0, 50, 100]), returns) for returns in curves)
    assert rules.better([rules.by_area(ours, theirs)], 1, REPRODUCED) == rules.NOT_FINITE


@pytest.mark.parametrize("seeds", [1, 2])
def test_two_seeds_are_no_comparison(seeds):
    clear, found = [compared(1.0, 1.0, seeds)], Interval(1.0, 0.9, 1.1)
    judged = [
        rules.better(clear, 1, REPRODUCED),
        rules.alike([compared(0.5, 0.5, seeds)], REPRODUCED),
        rules.not_worse(clear, REPRODUCED),
        rules.contains(found, seeds, 1.0, REPRODUCED),
        rules.below(found, seeds, 2.0, REPRODUCED),
        rules.apart([(found, Interval(0, 0, 0))], seeds, REPRODUCED),
    ]
    assert {verdict for verdict, _ in judged} == {NOT_REPRODUCED}
    assert all(reason.endswith("no comparison") for _, reason in judged)


def test_areas_end_between_two_evaluations():
    """The mean of x / 100 over 0 to 100 is 1 / 2, and of x / 50 over 50 to 100 three quarters."""
    rising = Curve("", np.array([0, 150]), np.array([[0.0, 1.5]]))
    assert areas(rising, 100) == pytest.approx([0.5])
    late = Curve("", np.array([50, 150]), np.array([[1.0, 3.0]]))
    assert areas(late, 100) == pytest.approx([0.75])


def test_areas_count_pre_training_as_height_0():
    """A mean height over all frames, by hand: the second curve begins after 100 frames."""
    ours = Curve("", np.array([0, 100, 200]), np.array([[0.0, 1.0, 1.0]] * 4))
    theirs = Curve("", np.array([100, 200]), np.array([[1.0, 1.0]] * 4))
    found = rules.by_area(ours, theirs)
    expected = mannwhitneyu([0.75] * 4, [0.5] * 4, method=PermutationMethod()).pvalue
    assert found == Comparison(Interval(1, 1, 1), 4, pytest.approx(expected))
    theirs = theirs._replace(returns=np.array([[2.0, 1.0]] * 4))
    assert rules.by_area(ours, theirs).probability == Interval(0.5, 0.5, 0.5)


def test_a_comparison_in_words():
    ends = {"": "0.94", "_low": "0.62", "_high": "1", "_p": "0.0571429"}
    row = {f"better_than_none{end}": value for end, value in ends.items()} | {"seeds": "4"}
    compared = rules.by_column(row, {"seeds": "5"}, "better_than_none")
    said = ", higher with probability 0.94 (0.62 to 1.00), p = 0.057"
    assert rules.in_words(compared, "higher") == said
    assert compared.turned().likelihood.endswith("0.060 (0.000 to 0.380), p = 0.057")
    assert rules.in_words(compared._replace(seeds=3), "higher") == ""


def test_holms_correction_rejects_what_its_steps_reject():
    """From the smallest on, p of rank i is compared with level / (n - i) until one is above."""
    rng = np.random.default_rng(0)
    for level in (0.05, 0.3):
        p = rng.beta(0.2, 2, size=16)
        thresholds = level / (16 - np.arange(16))
        rejected = np.cumprod(np.sort(p) <= thresholds)
        assert 0 < rejected.sum() < 16
        corrected = np.sort(rules.holm(p))
        assert (corrected <= level).tolist() == rejected.astype(bool).tolist()
    assert rules.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert rules.holm([0.6, 0.9]) == [1, 1]
