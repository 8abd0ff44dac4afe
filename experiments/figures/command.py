"""What the commands of all figures share: options, output folders, exit codes."""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from re3_jax.runs.errors import Parser, in_one_sentence, refusing

Words = Namespace
"""Values of options."""

Lines = Iterator[Any]
"""The files written; each is printed as soon as it exists."""

Options = dict[str, Mapping[str, Any]]
"""Option -> its keywords for argparse."""


def at_least_one(word: str) -> int:
    """The type of an option that counts."""
    if not word.isdecimal() or int(word) < 1:
        raise ArgumentTypeError(f"{word} is no whole number above 0")
    return int(word)


OF_RUNS: Options = {
    "--seeds": {"type": at_least_one, "help": "by default the figure's"},
    "--jobs": {"type": int, "default": 1, "help": "runs at a time, each on its cores"},
    "--runs": {"type": Path, "default": Path("runs/figures"), "help": "folder of all runs"},
}
"""Options of a figure that trains missing runs."""

STEPS: Options = {"--steps": {"type": at_least_one, "help": "env frames; by default the figure's"}}

STATE: Options = {
    "--state": {"action": "store_true", "help": "say how far all runs are, and do nothing"}
}

FINISHED: Options = {
    "--finished": {"action": "store_true", "help": "train nothing, draw what is finished"}
}


def some_of(names: Iterable[str]) -> Mapping[str, Any]:
    """An option that takes any of these values, by default all of them."""
    return {"nargs": "+", "default": list(names), "choices": list(names)}


def of(name: str, make: Callable[[Words], Lines], options: Options) -> Callable[..., int]:
    """The command of the module `name`: (words of the command line) -> exit code.

    It adds the option `--out`, by default the folder of the module's name in `runs/drawn`, so that
    no try replaces committed results.
    """

    @in_one_sentence
    def main(argv: Sequence[str] | None = None) -> int:
        parser = Parser(prog=f"python -m experiments.figures.{name}")
        drawn = Path("runs/drawn") / name
        words_of_out = f"folder of pictures and tables (default: {drawn})"
        out = {"--out": {"type": Path, "default": drawn, "help": words_of_out}}
        for option, keywords in (options | out | options).items():
            parser.add_argument(option, **keywords)
        words = parser.parse_args(argv)
        with refusing(OSError):
            for line in make(words):
                print(line)
        return 0

    return main
