"""`re3-jax COMMAND ...`: the command line of an installed package.

`re3-jax train ...` is `python -m re3_jax.commands.train ...`, and so are the other commands.
"""

import difflib
import runpy
import sys
from collections.abc import Sequence

from re3_jax.runs.errors import UsageError, in_one_sentence

COMMANDS = {
    "train": "train several seeds, and write a run folder",
    "evaluate": "evaluate the last checkpoint of a run",
    "compare": "draw runs side by side, with a table",
    "report": "one HTML file about a run, or about several side by side",
    "watch": "a live view of a run that trains elsewhere",
    "look": "pictures of a run: latents, visited states, frames that its encoder finds alike",
    "profile": "where the time of a run goes",
    "compile": "what a run takes on a GPU or TPU that is not here",
    "doctor": "whether this machine can run re3_jax, and how fast",
}


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command that the first word names, which ends the process; or prints the list."""
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("-h", "--help"):
        print("usage: re3-jax COMMAND ...; COMMAND --help lists its options\n")
        print(*(f"  {name:<10}{what}" for name, what in COMMANDS.items()), sep="\n")
        return 0
    name, *rest = words
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}? Known:" if near else "choose from"
        raise UsageError(f"there is no command {name}: {hint} {', '.join(COMMANDS)}")
    sys.argv[1:] = rest
    runpy.run_module(f"re3_jax.commands.{name}", run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
