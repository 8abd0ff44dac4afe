"""How numbers decide a verdict. The page prints `IN_WORDS`."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.reproduction.entry import Verdict
from experiments.reproduction.results import Interval, Row, interval
from re3_jax.plural import number_of
from re3_jax.runs import statistics
from re3_jax.runs.curves import Curve, areas

FEWEST_SEEDS = 4
"""With three of each, even a complete separation has p = 0.1 (Mann and Whitney, two-sided)."""

SIGNIFICANT = 0.05

FEWEST_FOR_INTERVALS = 3
"""Student's intervals of so few are wide enough, but two seeds are no comparison."""

WITHIN = 0.02
"""Largest relative difference from a count of operations that the paper states."""

STABLE = 0.1
"""Largest standard deviation of an estimate, as a share of its mean."""

ROUGHLY_TWICE = 1.75, 2.25
COMPARABLE = 1.05
SMALL_SHARE = 0.05

IN_WORDS = (
    "*A is better than B*: the 95% interval of the probability that a run of A is above a run of B "
    "(ties count half; percentile bootstrap over seeds) lies above 0.5, and p of a permutation "
    f"test, two-sided, is below {SIGNIFICANT}: of few seeds that interval is too narrow. Runs are "
    "compared by the area under the curve from frame 0, pre-training included, because what the "
    "paper claims is sample-efficiency. Where results are paired by seed, the 95% interval of the "
    "mean difference (Student's t over seeds) lies above 0. Other rows must have 95% intervals of "
    "the mean that lie apart. Of several such pairs more than half must (both tasks of two; for "
    '"several" in the paper two are enough), and all that a statement names must have run.',
    "*A number*: the 95% interval of our mean contains the paper's number. A wide interval "
    "contains much, so look at its width.",
    f'*A count of operations*: differs by at most {WITHIN:.0%}. "Roughly twice" is '
    f'{ROUGHLY_TWICE[0]} to {ROUGHLY_TWICE[1]} times, "comparable" at most {COMPARABLE} times.',
    "*No difference*: 0.5 is in every 95% interval of that probability (*no worse*: none lies "
    "below 0.5). This does not prove equality.",
    f"Fewer than {FEWEST_SEEDS} seeds of each are no comparison, and the verdict is `not "
    "reproduced`: three against three that do not overlap still have p = 0.1. Intervals that lie "
    f"apart need {FEWEST_FOR_INTERVALS}, because those of so few seeds are wide.",
    f"*A stable estimate*: its standard deviation is below {STABLE:.0%} of its mean; the interval "
    "lies below, on more than half of the tasks.",
    "p is corrected for the number of comparisons only where the result says so (Holm); verdicts "
    "go by what is not corrected.",
    f"*A small cost*: at most {SMALL_SHARE:.0%} of the time of an update.",
    "*At a smaller size*: fewer frames, smaller images or networks, or a smaller task than the "
    "paper's.",
    "*Tests*: equal to an independent implementation, or to numbers printed in the paper.",
)
"""The rules as the page has them."""

Judged = tuple[Verdict, str]
"""A verdict, and why it is not `reproduced`."""


class Comparison(NamedTuple):
    """How probably a run of one kind is above a run of another.

    Attributes:
      probability: with its interval.
      seeds: the smaller number of the two.
      p: of the permutation test.
    """

    probability: Interval
    seeds: int
    p: float

    @property
    def likelihood(self) -> str:
        """The numbers as the page has them."""
        return f"with probability {self.probability}, p = {self.p:.2g}"

    @property
    def is_won(self) -> bool:
        """Whether it shows that the one is above the other."""
        return self.probability.low > 0.5 and self.p < SIGNIFICANT

    def turned(self) -> "Comparison":
        """The same of the other above this one; ties count half."""
        value, low, high = self.probability
        return self._replace(probability=Interval(1 - value, 1 - high, 1 - low))


Judge = Callable[[Sequence[Comparison], Verdict], Judged]
"""(comparisons, the verdict if the statement holds) -> what they decide."""


NOT_FINITE: Judged = Verdict.NOT_REPRODUCED, "a result is not finite: no comparison"


def _undecided(found: Sequence[Any], seeds: int, fewest: int = FEWEST_SEEDS) -> Judged | None:
    """The verdict on comparisons or intervals that decide nothing; None on others.

    NaN is neither above nor below anything.
    """
    if seeds < fewest:
        return Verdict.NOT_REPRODUCED, too_few(seeds)
    return None if np.isfinite(jax.tree.leaves(found)).all() else NOT_FINITE


def wins(needed: int) -> Judge:
    """`better` of so many."""
    return lambda comparisons, reproduced: better(comparisons, needed, reproduced)


def in_words(compared: Comparison | None, what: str) -> str:
    """How probably ours is higher, to follow the two values; empty if there are too few seeds."""
    if compared is None or compared.seeds < FEWEST_SEEDS:
        return ""
    return f", {what} {compared.likelihood}"


def by_area(ours: Curve, theirs: Curve) -> Comparison:
    """Compares areas under the curves up to the last frame that both have."""
    end = int(min(ours.env_frames[-1], theirs.env_frames[-1]))
    pair = areas(ours, end), areas(theirs, end)
    probability = statistics.probability_of_improvement
    bounds = statistics.bootstrap_interval(probability, *pair)
    found = Interval(*map(float, (probability(*pair), *bounds)))
    seeds = min(len(ours.returns), len(theirs.returns))
    return Comparison(found, seeds, statistics.permutation_p_value(*pair))


def by_column(row: Row, baseline: Row, column: str) -> Comparison | None:
    """What a table says about a row and its baseline; None if it says nothing."""
    if not row.get(column):
        return None
    seeds = min(int(row["seeds"]), int(baseline["seeds"]))
    return Comparison(interval(row, column), seeds, float(row[f"{column}_p"]))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values of that many comparisons, corrected (Holm, 1979)."""
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(np.argsort(p_values)):
        highest = max(highest, min((len(p_values) - rank) * p_values[i], 1.0))
        corrected[i] = highest
    return corrected


def better(comparisons: Sequence[Comparison], needed: int, reproduced: Verdict) -> Judged:
    """Whether at least `needed` of the comparisons are won.

    Args:
      comparisons: at least one; those of too few seeds decide nothing.
      needed: how many the paper's statement asks for; more than have run cannot be won.
      reproduced: the verdict if so, which tells the size.
    """
    decided = [one for one in comparisons if one.seeds >= FEWEST_SEEDS]
    if not decided:
        return Verdict.NOT_REPRODUCED, too_few(min(one.seeds for one in comparisons))
    if undecided := _undecided(decided, FEWEST_SEEDS):
        return undecided
    won = sum(one.is_won for one in decided)
    lost = sum(one.turned().is_won for one in decided)
    if won >= needed:
        return reproduced, ""
    if len(comparisons) == 1 and not won:
        return Verdict.NOT_REPRODUCED, "worse" if lost else "no difference shown"
    more = f", {lost} worse" * bool(lost)
    if few := len(comparisons) - len(decided):
        more += f", {few} with fewer than {FEWEST_SEEDS} seeds"
    more += f", {needed} needed" * (needed > len(comparisons))
    return Verdict.NOT_REPRODUCED, f"better in {won} of {len(comparisons)}{more}"


def apart(pairs: Sequence[tuple[Interval, Interval]], seeds: int, reproduced: Verdict) -> Judged:
    """Whether in more than half of the pairs all of the first interval is above the second.

    Args:
      pairs: ours and theirs; at least one.
      seeds: the smallest number behind an interval.
      reproduced: the verdict if so.
    """
    if undecided := _undecided(pairs, seeds, FEWEST_FOR_INTERVALS):
        return undecided
    won = sum(ours.low > theirs.high for ours, theirs in pairs)
    lost = sum(ours.high < theirs.low for ours, theirs in pairs)
    if won > len(pairs) / 2:
        return reproduced, ""
    if len(pairs) == 1:
        return Verdict.NOT_REPRODUCED, "worse" if lost else "no difference shown"
    return Verdict.NOT_REPRODUCED, f"apart in {won} of {len(pairs)}" + f", {lost} worse" * bool(
        lost
    )


def above_zero(differences: Sequence[Interval], seeds: int, reproduced: Verdict) -> Judged:
    """`apart` of differences, ours less theirs with the same seeds, from 0."""
    verdict, reason = apart([(each, Interval(0, 0, 0)) for each in differences], seeds, reproduced)
    return verdict, reason.replace("apart", "above 0")


def alike(comparisons: Sequence[Comparison], reproduced: Verdict) -> Judged:
    """Whether no comparison shows a difference."""
    seeds = min(comparison.seeds for comparison in comparisons)
    if undecided := _undecided(comparisons, seeds):
        return undecided
    probabilities = [comparison.probability for comparison in comparisons]
    differing = sum(not p.low <= 0.5 <= p.high for p in probabilities)
    if differing:
        return Verdict.NOT_REPRODUCED, f"{differing} of {len(comparisons)} differ"
    return reproduced, "no difference shown"


def not_worse(comparisons: Sequence[Comparison], reproduced: Verdict) -> Judged:
    """Whether no comparison shows that ours is worse."""
    seeds = min(comparison.seeds for comparison in comparisons)
    if undecided := _undecided(comparisons, seeds):
        return undecided
    is_worse = any(comparison.probability.high < 0.5 for comparison in comparisons)
    if is_worse:
        return Verdict.NOT_REPRODUCED, "worse"
    differ = all(comparison.probability.low > 0.5 for comparison in comparisons)
    return reproduced, "" if differ else "no difference shown"


def contains(found: Interval, seeds: int, number: float, reproduced: Verdict) -> Judged:
    """Whether the interval of our mean contains the paper's number."""
    if undecided := _undecided(found, seeds):
        return undecided
    if found.low <= number <= found.high:
        return reproduced, ""
    return Verdict.NOT_REPRODUCED, "higher" if found.low > number else "lower"


def below(found: Interval, seeds: int, number: float, reproduced: Verdict) -> Judged:
    """Whether the interval of our mean lies below a number."""
    if undecided := _undecided(found, seeds):
        return undecided
    return (reproduced, "") if found.high < number else (Verdict.NOT_REPRODUCED, "higher")


def all_ran(judged: Judged, missing: Sequence[str]) -> Judged:
    """What was decided, unless rows that the statement names have not run."""
    if judged[0] is Verdict.NOT_REPRODUCED or not missing:
        return judged
    return Verdict.NOT_REPRODUCED, f"{' and '.join(missing)} not run"


def small(share: float, reproduced: Verdict) -> Judged:
    """Whether a share of the time of an update is small."""
    if share <= SMALL_SHARE:
        return reproduced, ""
    return Verdict.NOT_REPRODUCED, f"{share:.0%} of the time of an update"


def too_few(seeds: int) -> str:
    """Why so few seeds decide nothing."""
    return f"{number_of(seeds, 'seed')}: no comparison"
