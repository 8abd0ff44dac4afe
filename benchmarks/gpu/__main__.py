"""`python -m benchmarks.gpu [--out FOLDER] [--minutes M]`: what to know of a GPU, in half an hour.

Runs the steps of `benchmarks.gpu.steps` in order of value. After each, the folder has its JSON, and
a table, summary.md, of all. A step that fails or takes too long is recorded with the reason. The
same command goes on where it stopped, so that it can be called for nine minutes at a time. On a CPU
the sizes are those of a test.
"""

import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu import session
from benchmarks.gpu.steps import steps
from re3_jax.runs import installing, lock
from re3_jax.runs.errors import Parser, UsageError, in_one_sentence

MINUTES = 25.0


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (0, 2 or 130)."""
    begun = time.monotonic()
    parser = Parser("python -m benchmarks.gpu", allow_abbrev=False)
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), help="folder of results")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of this call, at most")
    parser.add_argument("--only", nargs="+", metavar="STEP", help="these steps")
    words = parser.parse_args(argv)
    if not 0 < words.minutes < math.inf:
        raise UsageError(f"--minutes {words.minutes:g} is no time: give a number above 0")
    folder = words.out.resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {words.out} cannot be made ({error.strerror})") from None
    machine = _machine()
    hardware = machine["hardware"]
    all_steps = steps(folder, hardware["platform"] == "cpu", machine["torch"])
    names = [step.name for step in all_steps]
    if unknown := [name for name in words.only or () if name not in names]:
        raise UsageError(f"there is no step {unknown[0]}: choose from {', '.join(names)}")
    with lock.held(folder):
        try:
            seconds = 60 * words.minutes - (time.monotonic() - begun)
            session.run(all_steps, folder, seconds, hardware, _say, words.only)
        except KeyboardInterrupt:
            print(f"stopped; the results so far: {folder / session.SUMMARY}", file=sys.stderr)
            return 130
    print((folder / session.SUMMARY).read_text())
    return 0


def _machine() -> dict:
    """The machine, asked in another process: this one must leave the device's memory to them."""
    command = [sys.executable, "-m", "benchmarks.gpu.device"]
    asked = subprocess.run(command, capture_output=True, text=True, cwd=installing.ROOT)
    if asked.returncode != 0:
        said = (asked.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UsageError(f"JAX does not work here ({said}): make doctor says more")
    return dict(json.loads(asked.stdout))


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    # The step that runs must end with this process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
