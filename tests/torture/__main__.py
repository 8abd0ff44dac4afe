"""Does to runs what machines do, and counts what was lost.

    python -m tests.torture [--quick] [--only KIND] [--kills N] [--agents AGENT ...]
      [--folder FOLDER] [--out FILE]

Every trial's outcome is kept in FOLDER, so the same command goes on after a stop. Prints a JSON
object; exits with 1 if a trial did not survive, or a byte or a row was lost.
"""

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import hardware
from re3_jax.runs import machine
from tests.torture import trials
from tests.torture.devices import other_devices
from tests.torture.kills import goodput, random_kills
from tests.torture.ledger import Ledger
from tests.torture.rehearsal import CASES, Rehearsal

Trials = Callable[[Ledger, str, Rehearsal, Path], None]


def _of_files(writes: int, flips: int, refusals: int, clocks: int) -> dict[str, Trials]:
    """Trials at every `writes`-th file call, `flips`-th byte and `refusals`-th refused write."""
    return {
        "killed_at_every_write": partial(trials.killed_at_every_write, every=writes),
        "flipped_bytes": partial(trials.flipped_bytes, every=flips),
        "refused_writes": partial(trials.refused_writes, every=refusals),
        "jumping_clocks": partial(trials.jumping_clocks, count=clocks),
    }


REHEARSED = {
    "a2c": _of_files(writes=1, flips=1, refusals=7, clocks=10),
    "rad": _of_files(writes=5, flips=2, refusals=41, clocks=3)
    | {"lost_workers": partial(trials.lost_workers, count=3)},
}
QUICK = {"a2c": _of_files(writes=70, flips=30, refusals=150, clocks=1)}


def torture(
    folder: Path,
    quick: bool,
    only: str = "",
    kills: int = 0,
    agents: Sequence[str] = tuple(CASES),
) -> Ledger:
    """Runs the trials whose names contain `only`; their outcomes are kept in `folder`.

    Of `agents`, each is killed at random `kills` times.
    """
    ledger = Ledger(folder / "trials.jsonl")
    for agent, kinds in (QUICK if quick else REHEARSED).items():
        if wanted := {name: run for name, run in kinds.items() if only in name}:
            rehearsal = Rehearsal(agent, folder / agent)
            for name, run in wanted.items():
                run(ledger, agent, rehearsal, folder / agent / name)
                shutil.rmtree(folder / agent / name, ignore_errors=True)
            rehearsal.close()
    if not quick and only in "other_devices":
        other_devices(ledger, "a2c", folder / "devices")
    if not quick and only in "random_kills":
        for agent in agents:
            random_kills(ledger, agent, folder / agent / "kills", kills)
    return ledger


def _kept(folder: Path) -> dict[str, Any]:
    """What `goodput` found, in this call or before."""
    path = folder / "goodput.json"
    if not path.exists():
        path.write_text(json.dumps(goodput(folder / "goodput")))
    return dict(json.loads(path.read_text()))


def main() -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few trials of one agent")
    parser.add_argument("--only", default="", metavar="KIND", help="trials whose name contains it")
    parser.add_argument("--kills", type=int, default=20, help="random kills of each agent")
    parser.add_argument("--agents", nargs="+", default=[*CASES], choices=CASES, help="killed ones")
    parser.add_argument("--folder", type=Path, default=Path("runs/torture"))
    parser.add_argument("--out", type=Path, help="where to write the JSON object as well")
    options = parser.parse_args()
    machine.keep_compiled_programs()
    folder = options.folder.resolve()
    ledger = torture(folder, options.quick, options.only, options.kills, options.agents)
    counts = ledger.counts()
    totals = {
        name: sum(row[name] for row in counts)
        for name in ("tried", "survived", "differing_bytes", "lost_rows")
    }
    report = {
        "command": shlex.join(["python", "-m", "tests.torture", *sys.argv[1:]]),
        "hardware": hardware.describe(),
        **totals,
    }
    report["of_each"] = counts
    if not options.quick and options.only in "goodput":
        try:
            report["kill_every_30_seconds"] = _kept(folder)
        except RuntimeError as error:
            report["kill_every_30_seconds"] = f"not measured: {error}"
    text = json.dumps(report, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")
    lost = totals["tried"] - totals["survived"] + totals["differing_bytes"] + totals["lost_rows"]
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
