"""What the page says about one figure, table or claim of the paper."""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from experiments.reproduction.results import Results


class Verdict(StrEnum):
    """The last column of the page; `rules` says how numbers decide."""

    REPRODUCED = "reproduced"
    SMALLER = "reproduced at a smaller size"
    NOT_REPRODUCED = "not reproduced"
    NOT_RUN = "not run"


TESTS = "tests"
"""What ran, where a test decides."""


class Finding(NamedTuple):
    """What committed results say about an entry.

    Attributes:
      verdict: in one word.
      result: our numbers with their intervals, or why there are none.
      ran: what ran: task, preset, seeds, frames; empty if nothing did.
      reason: why the verdict is not `reproduced`, or what it rests on; may be empty.
      command: what made the results, if it is not the entry's command.
    """

    verdict: Verdict
    result: str
    ran: str = ""
    reason: str = ""
    command: str = ""


Find = Callable[[Results], Finding]


class Entry(NamedTuple):
    """One row of the page.

    Attributes:
      item: where it is in the paper, such as `Figure 4`.
      statement: what the paper says there, with its numbers.
      command: runs it at the paper's size; empty if there is nothing to run, or if `find` says it.
      find: looks at the committed results.
    """

    item: str
    statement: str
    command: str
    find: Find


class Section(NamedTuple):
    """One table of the page."""

    title: str
    entries: tuple[Entry, ...]


def not_run(reason: str) -> Finding:
    """Nothing ran, and why."""
    return Finding(Verdict.NOT_RUN, reason)


def never(reason: str) -> Find:
    """For an entry that no committed result can serve."""
    return lambda results: not_run(reason)


def too_long(cost: Callable[[Results], str]) -> Find:
    """For an entry that nothing serves because its runs take so long, as `cost` words it."""
    return lambda results: not_run(cost(results))


def tested(result: str, *tests: str, target: str = "test") -> Find:
    """For what a test compares with something that was not written here.

    Args:
      result: what the tests show.
      tests: `tests/file.py::function`; the command runs their files.
      target: of make; `test-all` if one of them takes minutes.
    """
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    words = " ".join(files)
    words = f'"{words}"' if len(files) > 1 else words
    command = f"make {target} TESTS={words}"
    found = Finding(Verdict.REPRODUCED, result, TESTS, command=command)
    return lambda results: found
