"""`python -m benchmarks.gpu.resume --out FOLDER ...`: is a killed and resumed run the same?

Takes the options of `re3_jax.commands.train`. Runs them once undisturbed; then once more, with a
SIGKILL at the second evaluation, and resumes. Prints as JSON what differs in the final state and in
the tables. The second run loads the programs that the first one compiled, as a resumed run does.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.resume.compare import rows
from tests.torture.differences import differing
from tests.torture.rehearsal import differing_rows

POLL_SECONDS = 0.02


def train(*words: str) -> None:
    """One run to its end.

    Raises:
      subprocess.CalledProcessError: it failed.
    """
    command = [sys.executable, "-m", "re3_jax.commands.train", *words]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def train_until_killed(out: Path, *words: str) -> int:
    """Kills a run once its second evaluation has begun; returns its env frames then.

    Raises:
      RuntimeError: the run ended first.
    """
    command = [sys.executable, "-m", "re3_jax.commands.train", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while (reached := evaluated(out)) == 0:
            if process.poll() is not None:
                raise RuntimeError(f"the run ended (exit code {process.returncode}) before a kill")
            time.sleep(POLL_SECONDS)
        process.kill()
    if process.returncode == 0:
        raise RuntimeError("the run ended before it could be killed: give it more --steps")
    return reached


def evaluated(out: Path) -> int:
    """Env frames of the last row of states.csv; 0 without one."""
    table = out / "states.csv"
    found = rows(table) if table.exists() else []
    return int(found[-1]["env_frames"]) if found else 0


def first_difference(out: Path, reference: Path) -> int | None:
    """Env frames at which the digests of the two runs first differ."""
    pairs = zip(rows(out / "states.csv"), rows(reference / "states.csv"), strict=False)
    return next((int(b["env_frames"]) for a, b in pairs if a != b), None)


def main(words: list[str]) -> None:
    """Prints the JSON."""
    place = words.index("--out")
    folder, words = Path(words[place + 1]), words[:place] + words[place + 2 :]
    shutil.rmtree(folder, ignore_errors=True)
    reference, out = folder / "reference", folder / "killed"
    train(*words, "--out", str(reference))
    killed_at = train_until_killed(out, *words, "--out", str(out))
    train("--out", str(out), "--resume")
    differences = differing(out, reference)
    report: dict[str, Any] = {
        "killed_at_env_frames": killed_at,
        "differing_bytes": sum(difference.bytes for difference in differences.values()),
        "differing_rows": differing_rows(out, reference),
        "differs_from_env_frames": first_difference(out, reference),
        # Whether frames or what was computed of them came first.
        "first_differing_rows": {name: found.first_row for name, found in differences.items()},
    }
    print(json.dumps(report))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
