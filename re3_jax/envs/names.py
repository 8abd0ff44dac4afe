"""The one sentence said when a name is not known, and what to do about a missing package."""

import difflib
import sys
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


def pip_install(*packages: str) -> str:
    """The command that installs packages into the environment of this process.

    Args:
      packages: as pip takes them; what the shell would not leave alone is quoted.
    """
    words = (f'"{package}"' if set(package) & set("[]<> ") else package for package in packages)
    return f"{sys.executable} -m pip install {' '.join(words)}"
