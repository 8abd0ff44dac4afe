"""Outcomes of trials, kept line by line, so that a torture that was stopped goes on."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

SURVIVED = ("exact", "fell back", "refused")


class Outcome(NamedTuple):
    """What one trial came to.

    Attributes:
      result: `exact` (equal to the run that nothing happened to), `fell back` (equal, and it said
        that it passed over a damaged checkpoint), `refused` (one sentence, exit code 2),
        `differs` or `crashed`.
      differing_bytes: of the final state, its replay's frames included.
      differing_rows: of the tables.
      said: the last line of a run that was not exact.
    """

    result: str
    differing_bytes: int = 0
    differing_rows: int = 0
    said: str = ""


class Ledger:
    """Trials by kind, agent and name."""

    def __init__(self, path: Path):
        """Goes on with the lines in `path`."""
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self._found: dict[tuple[str, str, str], Outcome] = {}
        for kind, agent, name, *outcome in map(json.loads, lines):
            self._found[kind, agent, name] = Outcome(*outcome)

    def try_once(
        self, kind: str, agent: str, name: str, trial: Callable[..., Outcome], *arguments: Any
    ) -> None:
        """Calls `trial` with `arguments` unless its outcome is known."""
        if (kind, agent, name) in self._found:
            return
        outcome = trial(*arguments)
        self._found[kind, agent, name] = outcome
        with self._path.open("a") as lines:
            lines.write(json.dumps([kind, agent, name, *outcome]) + "\n")
        if outcome.result not in SURVIVED:
            print(f"{kind}, {agent}, {name}: {outcome}", flush=True)

    def count(self, kind: str, agent: str) -> int:
        """How many trials are known."""
        return sum(key[:2] == (kind, agent) for key in self._found)

    def counts(self) -> list[dict[str, Any]]:
        """One row for each kind of trial and agent."""
        rows = []
        for kind, agent in dict.fromkeys((kind, agent) for kind, agent, _ in self._found):
            those = [o for key, o in self._found.items() if key[:2] == (kind, agent)]
            results = Counter(outcome.result for outcome in those)
            rows.append(
                {
                    "kind": kind,
                    "agent": agent,
                    "tried": len(those),
                    "survived": sum(results[name] for name in SURVIVED),
                    "of_each": dict(results),
                    "differing_bytes": sum(outcome.differing_bytes for outcome in those),
                    "lost_rows": sum(outcome.differing_rows for outcome in those),
                }
            )
        return rows
