"""What the commands of all figures share: options, where they write, how they end."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.errors import UsageError

Options = dict[str, Mapping[str, Any]]
"""Each with the keywords of argparse."""

OF_RUNS: Options = {
    "--seeds": {"type": int, "help": "by default the figure's"},
    "--jobs": {"type": int, "default": 1, "help": "runs at a time, each on its cores"},
    "--runs": {"type": Path, "default": Path("runs/figures"), "help": "folder of all runs"},
}
"""Of a figure that trains what is missing."""

STEPS: Options = {"--steps": {"type": int, "help": "env frames; by default the figure's"}}


def run(
    name: str,
    make: Callable[[argparse.Namespace], Iterable[object]],
    options: Options,
    argv: Sequence[str] | None = None,
) -> int:
    """The command of a figure.

    Args:
      name: of its module, and of its folder in `results` where `--out` names no other.
      make: (values of the options) -> lines to print, each as soon as it is there.
      options: beside `--out`.
      argv: words of the command line.

    Returns:
      the exit code.
    """
    parser = argparse.ArgumentParser(prog=f"python -m experiments.figures.{name}")
    out = {"--out": {"type": Path, "default": Path("results") / name}}
    for option, keywords in (options | out | options).items():
        parser.add_argument(option, **keywords)
    try:
        for line in make(parser.parse_args(argv)):
            print(line)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
