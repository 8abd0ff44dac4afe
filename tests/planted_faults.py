"""Plants faults, one at a time, in a copy of the project and reports which tests catch them.

    python -m tests.planted_faults [--only WORDS] [--jobs N] [--out FILE]

A fault replaces one text by another in one file. The tests named with it run in the copy, first
those of `make test`, then, if these pass, those that only `make test-all` runs. Prints one line per
fault and a JSON object; exits with 1 if a fault is not caught.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults import FAULTS, Fault

ROOT = Path(__file__).parent.parent
COPIED = ("re3_jax", "experiments", "tests", "examples", "docs", "pyproject.toml", "README.md")


def caught_by(folder: Path, tests: str) -> str:
    """The tier that fails: fast, slow or none."""
    for tier, marks in (("fast", "not slow"), ("slow", "slow")):
        options = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-m", marks]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests.split()],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        # 5: the files have no test of this tier.
        if done.returncode == 1:
            return tier
        if done.returncode not in (0, 5):
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return "none"


def plant(fault: Fault) -> dict[str, str]:
    """Plants one fault in a copy of the project; which tier catches it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in COPIED:
            source = ROOT / part
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, folder / part)
        file = folder / fault.file
        text = file.read_text()
        if text.count(fault.right) != 1:
            raise SystemExit(f"{fault.file} has not exactly one {fault.right!r}")
        file.write_text(text.replace(fault.right, fault.wrong))
        started = time.perf_counter()
        tier = caught_by(folder, fault.tests)
    seconds = round(time.perf_counter() - started)
    print(f"{tier:<5} {seconds:4d} s  {fault.name}", file=sys.stderr, flush=True)
    return {"fault": fault.name, "file": fault.file, "caught_by": tier}


def main() -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="WORDS", help="faults that contain it")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time")
    parser.add_argument("--out", type=Path, help="where to write the JSON object as well")
    options = parser.parse_args()
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(plant, (fault for fault in FAULTS if options.only in fault.name)))
    tiers = [row["caught_by"] for row in found]
    report = {
        "command": "python -m tests.planted_faults",
        "faults": len(found),
        "caught_by_make_test": tiers.count("fast"),
        "caught_by_make_test_all_only": tiers.count("slow"),
        "not_caught": tiers.count("none"),
        "of_each": found,
    }
    text = json.dumps(report, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")
    return int("none" in tiers)


if __name__ == "__main__":
    sys.exit(main())
