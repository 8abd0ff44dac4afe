"""Learning curves with a 95% band, and their table, from the eval.csv of runs.

    python -m experiments.figures.curves LABEL=RUN_DIR [LABEL=RUN_DIR ...] --out FILE.png

Runs of the same label are pooled. Beside FILE.png, FILE.csv holds the table.
"""

from pathlib import Path

import matplotlib

from experiments.figures import command
from re3_jax.runs import comparison, curves, run_folder
from re3_jax.runs.errors import UsageError

SUFFIXES = (".png", ".pdf", ".svg")


def _make(words: command.Words) -> command.Lines:
    if words.out.suffix not in SUFFIXES:
        raise UsageError(f"--out {words.out} is no picture: end its name in {', '.join(SUFFIXES)}")
    if (words.out.parent / run_folder.CONFIG).exists():
        raise UsageError(
            f"--out {words.out} is in the folder of a run, whose tables have such names: choose "
            "another folder"
        )
    folders: dict[str, list[Path]] = {}
    for word in words.runs:
        label, equals, folder = word.partition("=")
        if not equals:
            raise UsageError(f"'{word}' is not a labelled run: write it as LABEL=RUN_DIR")
        folders.setdefault(label, []).append(Path(folder))
    for label, paths in folders.items():
        comparison.refuse_repeated_seeds(label, paths)
    drawn = [curves.load(label, paths) for label, paths in folders.items()]
    words.out.parent.mkdir(parents=True, exist_ok=True)
    # A dollar sign in a label is no formula.
    with matplotlib.rc_context({"text.parse_math": False}):
        curves.save(curves.picture(drawn, words.title), words.out)
    curves.write_table(drawn, words.out.with_suffix(".csv"))
    yield words.out
    yield words.out.with_suffix(".csv")


OPTIONS: command.Options = {
    "runs": {"nargs": "+", "metavar": "LABEL=RUN_DIR"},
    "--out": {"type": Path, "required": True, "metavar": "FILE.png"},
    "--title": {"default": ""},
}

main = command.of("curves", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
