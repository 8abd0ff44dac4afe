"""Writes docs/reproduction.md: the paper's figures, tables and claims, and what came of them here.

    make figure FIG=reproduction

Reads the committed results and trains nothing.
"""

from pathlib import Path

from experiments.figures import command
from experiments.reproduction import page
from re3_jax.runs.errors import UsageError, refusing


def _make(words: command.Words) -> command.Lines:
    root = Path()
    if not (root / "results").is_dir():
        raise UsageError("there is no folder results: start this in the root of the repository")
    with refusing(OSError):
        words.out.write_text(page.write(root)[0])
    yield words.out


OPTIONS: command.Options = {"--out": {"type": Path, "default": Path("docs/reproduction.md")}}

main = command.of("reproduction", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
