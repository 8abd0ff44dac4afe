"""Error messages for unknown names, and the command that installs a missing package."""

import difflib
import re
import sys
from collections.abc import Iterable


def unknown_name(
    kind: str, name: str, known: Iterable[str], where: str | None = None
) -> ValueError:
    """A ValueError that states the unknown name and the nearest known ones.

    Args:
      kind: kind of thing named ("task", "suite").
      name: the unknown name.
      known: all valid names.
      where: said if none of them is near; by default all of them.
    """
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    # Gymnasium's names have a version, and their own namespace instead of a suite.
    bare = re.sub(r"(noframeskip)?-v\d+$", "", name.lower())
    bare = re.sub(r"^minatar/(.*)", r"\1-minatar", bare.removeprefix("ale/"))
    near = [candidate for candidate in by_lower_case if bare == candidate.rpartition(":")[2]]
    near += difflib.get_close_matches(name.lower(), by_lower_case, n=3, cutoff=0.5)
    near = [*dict.fromkeys(near)][:3]
    if near:
        remedy = "did you mean " + " or ".join(by_lower_case[match] for match in near) + "?"
    else:
        remedy = where or "known: " + ", ".join(sorted(by_lower_case.values()))
    return ValueError(f"unknown {kind} {name!r}; {remedy}")


def pip_install(*packages: str) -> str:
    """The command that installs packages into the environment of this process.

    Args:
      packages: arguments of `pip install`; those with shell characters are quoted.
    """
    words = (f'"{package}"' if set(package) & set("[]<> ") else package for package in packages)
    return f"{sys.executable} -m pip install {' '.join(words)}"
