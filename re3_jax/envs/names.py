"""The one sentence said when a name is not known."""

import difflib
from collections.abc import Iterable


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """A ValueError that says what was asked for and which known names are nearest.

    Args:
      kind: what is being named ("task", "suite").
      name: what was asked for.
      known: every name that would have been right.
    """
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=3, cutoff=0.5)
    if near:
        remedy = "did you mean " + " or ".join(by_lower_case[match] for match in near) + "?"
    else:
        remedy = "known: " + ", ".join(sorted(by_lower_case.values()))
    return ValueError(f"unknown {kind} {name!r}; {remedy}")
