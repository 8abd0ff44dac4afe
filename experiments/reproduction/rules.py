"""How numbers decide a verdict. The page prints `IN_WORDS`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from experiments.reproduction.entry import Verdict
from experiments.reproduction.results import Interval, Row, interval
from re3_jax.plural import number_of
from re3_jax.runs import statistics
from re3_jax.runs.curves import Curve, areas

FEWEST_SEEDS = 4
"""With three of each, even a complete separation has p = 0.1 (Mann and Whitney, two-sided)."""

FEWEST_FOR_INTERVALS = 3
"""Student's intervals of so few are wide enough, but two seeds are no comparison."""

WITHIN = 0.02
"""Largest relative difference from a count of operations that the paper states."""

ROUGHLY_TWICE = 1.75, 2.25
COMPARABLE = 1.05

IN_WORDS = (
    "*A is better than B*: the 95% interval of the probability that a run of A is above a run of B "
    "(ties count half; percentile bootstrap over seeds) lies above 0.5. MiniGrid compares areas "
    "under the curve from frame 0, pre-training included; other tables compare returns at the end. "
    "Of few seeds that interval is narrow: p is that of a permutation test, two-sided. "
    "Where results are paired by seed, the 95% interval of the mean difference (Student's t over "
    "seeds) lies above 0. Other rows must have 95% intervals of the mean that lie apart.",
    "*A number*: the 95% interval of our mean contains the paper's number. A wide interval "
    "contains much, so look at its width.",
    f'*A count of operations*: differs by at most {WITHIN:.0%}. "Roughly twice" is '
    f'{ROUGHLY_TWICE[0]} to {ROUGHLY_TWICE[1]} times, "comparable" at most {COMPARABLE} times.',
    "*No difference*: 0.5 is in every 95% interval of that probability (*no worse*: none lies "
    "below 0.5). This does not prove equality.",
    f"Fewer than {FEWEST_SEEDS} seeds of each are no comparison, and the verdict is `not "
    "reproduced`: three against three that do not overlap still have p = 0.1. Intervals that lie "
    f"apart need {FEWEST_FOR_INTERVALS}, because those of so few seeds are wide.",
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
      p: of the permutation test, if the table has it.
    """

    probability: Interval
    seeds: int
    p: float | None = None

    def turned(self) -> "Comparison":
        """The same of the other above this one; ties count half."""
        value, low, high = self.probability
        return self._replace(probability=Interval(1 - value, 1 - high, 1 - low))


Judge = Callable[[Sequence[Comparison], Verdict], Judged]
"""(comparisons, the verdict if the statement holds) -> what they decide."""


def wins(needed: int) -> Judge:
    """`better` of so many."""
    return lambda comparisons, reproduced: better(comparisons, needed, reproduced)


def in_words(compared: Comparison | None, what: str = "higher") -> str:
    """How probably ours is higher, to follow the two values; empty if there are too few seeds."""
    if compared is None or compared.seeds < FEWEST_SEEDS:
        return ""
    p = "" if compared.p is None else f", p = {compared.p:.2g}"
    return f", {what} with probability {compared.probability}{p}"


def by_area(ours: Curve, theirs: Curve) -> Comparison:
    """Compares areas under the curves up to the last frame that both have."""
    end = int(min(ours.env_frames[-1], theirs.env_frames[-1]))
    pair = areas(ours, end), areas(theirs, end)
    probability = statistics.probability_of_improvement
    bounds = statistics.bootstrap_interval(probability, *pair)
    found = Interval(*map(float, (probability(*pair), *bounds)))
    return Comparison(found, min(len(ours.returns), len(theirs.returns)))


def by_column(row: Row, baseline: Row, column: str = "better_than_none") -> Comparison | None:
    """What a table says about a row and its baseline; None if it says nothing."""
    if not row.get(column):
        return None
    p = float(row[f"{column}_p"]) if row.get(f"{column}_p") else None
    return Comparison(interval(row, column), min(int(row["seeds"]), int(baseline["seeds"])), p)


def better(comparisons: Sequence[Comparison], needed: int, reproduced: Verdict) -> Judged:
    """Whether at least `needed` of the comparisons are won.

    Args:
      comparisons: at least one.
      needed: how many the paper's statement asks for; more than have run cannot be won.
      reproduced: the verdict if so, which tells the size.
    """
    seeds = min(comparison.seeds for comparison in comparisons)
    if seeds < FEWEST_SEEDS:
        return Verdict.NOT_REPRODUCED, too_few(seeds)
    won = sum(comparison.probability.low > 0.5 for comparison in comparisons)
    lost = sum(comparison.probability.high < 0.5 for comparison in comparisons)
    if won >= needed:
        return reproduced, ""
    if len(comparisons) == 1 and not won:
        return Verdict.NOT_REPRODUCED, "worse" if lost else "no difference shown"
    more = f", {lost} worse" * bool(lost) + f", {needed} needed" * (needed > len(comparisons))
    return Verdict.NOT_REPRODUCED, f"better in {won} of {len(comparisons)}{more}"


def apart(pairs: Sequence[tuple[Interval, Interval]], seeds: int, reproduced: Verdict) -> Judged:
    """Whether in more than half of the pairs all of the first interval is above the second.

    Args:
      pairs: ours and theirs; at least one.
      seeds: the smallest number behind an interval.
      reproduced: the verdict if so.
    """
    if seeds < FEWEST_FOR_INTERVALS:
        return Verdict.NOT_REPRODUCED, too_few(seeds)
    won = sum(ours.low > theirs.high for ours, theirs in pairs)
    lost = sum(ours.high < theirs.low for ours, theirs in pairs)
    if won > len(pairs) / 2:
        return reproduced, ""
    if len(pairs) == 1:
        return Verdict.NOT_REPRODUCED, "worse" if lost else "no difference shown"
    return Verdict.NOT_REPRODUCED, f"apart in {won} of {len(pairs)}"


def above_zero(differences: Sequence[Interval], seeds: int, reproduced: Verdict) -> Judged:
    """`apart` of differences, ours less theirs with the same seeds, from 0."""
    verdict, reason = apart([(each, Interval(0, 0, 0)) for each in differences], seeds, reproduced)
    return verdict, reason.replace("apart", "above 0")


def alike(comparisons: Sequence[Comparison], reproduced: Verdict) -> Judged:
    """Whether no comparison shows a difference."""
    seeds = min(comparison.seeds for comparison in comparisons)
    if seeds < FEWEST_SEEDS:
        return Verdict.NOT_REPRODUCED, too_few(seeds)
    probabilities = [comparison.probability for comparison in comparisons]
    differing = sum(not p.low <= 0.5 <= p.high for p in probabilities)
    if differing:
        return Verdict.NOT_REPRODUCED, f"{differing} of {len(comparisons)} differ"
    return reproduced, ""


def not_worse(comparisons: Sequence[Comparison], reproduced: Verdict) -> Judged:
    """Whether no comparison shows that ours is worse."""
    seeds = min(comparison.seeds for comparison in comparisons)
    if seeds < FEWEST_SEEDS:
        return Verdict.NOT_REPRODUCED, too_few(seeds)
    is_worse = any(comparison.probability.high < 0.5 for comparison in comparisons)
    return (Verdict.NOT_REPRODUCED, "worse") if is_worse else (reproduced, "")


def contains(found: Interval, seeds: int, number: float, reproduced: Verdict) -> Judged:
    """Whether the interval of our mean contains the paper's number."""
    if seeds < FEWEST_SEEDS:
        return Verdict.NOT_REPRODUCED, too_few(seeds)
    if found.low <= number <= found.high:
        return reproduced, ""
    return Verdict.NOT_REPRODUCED, "higher" if found.low > number else "lower"


def below(found: Interval, seeds: int, number: float, reproduced: Verdict) -> Judged:
    """Whether the interval of our mean lies below a number."""
    if seeds < FEWEST_SEEDS:
        return Verdict.NOT_REPRODUCED, too_few(seeds)
    return (reproduced, "") if found.high < number else (Verdict.NOT_REPRODUCED, "higher")


def too_few(seeds: int) -> str:
    """Why so few seeds decide nothing."""
    return f"{number_of(seeds, 'seed')}: no comparison"
