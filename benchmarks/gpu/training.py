"""`python -m benchmarks.gpu.training --out FOLDER ...`: begins a run or goes on with it.

Takes the options of `re3_jax.commands.train`. SIGTERM stops the run after a checkpoint. Prints what
summary.json then says, which a run that was stopped before its first evaluation does not have.
"""

import contextlib
import json
import sys
from pathlib import Path

from re3_jax.commands import train
from re3_jax.runs import run_folder

STOPPED = 143


def main(words: list[str]) -> int:
    """Trains; returns the exit code of training, 0 in place of that after SIGTERM."""
    out = Path(words[words.index("--out") + 1])
    resumes = (out / run_folder.CONFIG).exists()
    with contextlib.redirect_stdout(sys.stderr):
        code = train.main(["--out", str(out), "--resume"] if resumes else words)
    if code in (0, STOPPED):
        summary = out / "summary.json"
        print(summary.read_text() if summary.exists() else json.dumps({"complete": False}))
    return 0 if code == STOPPED else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
