"""`make try-docs`: runs every command of README, docs and `make help` in a clone per Python.

    python3 tests/try_docs.py [--pythons python3.11 python3.12 python3.13] [--only WORDS]

Needs only Python, git and make. PRESET=debug shortens runs, and the options of `SHORT` shorten
figures, benchmarks and tests; otherwise a command is what the page says. The clone holds the last
commit. Prints one line per command and a table at the end; exits 1 if a command failed.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
NOT_TRIED = "reproduction.md"
"""Names runs of days; `tests/cli/test_reproduction.py` checks its commands."""

FOUND = (*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "bonuses").glob("*.md"))
DOCS = [str(page.relative_to(ROOT)) for page in FOUND if page.name != NOT_TRIED]
PAGES = ["README.md", "help", *sorted(DOCS)]
STARTS = ("make ", ".venv/bin/python -m ", "python -m experiments", "pip install ")

SHORT = {
    "test": 'TESTS="tests/unit/test_schedules.py tests/parity/test_state_entropy.py"',
    "test-all": "TESTS=tests/learning/test_example.py",
    "torture": "ARGS=--quick",
    "gpu": 'ARGS="--only resume_a2c"',
    "bench": "BENCH=minigrid_env",
    "bench a2c": 'ARGS="--seeds 1 --turns 1"',
    "bench sac_update": 'ARGS="--preset small --rounds 1 --transitions 2000"',
    "bench rainbow_update": 'ARGS="--rounds 1 --transitions 5000"',
    "bench dreamer_update": 'ARGS="--updates 1"',
    "bench dmc_env": 'ARGS="--tasks pendulum_swingup --lanes 1"',
    "bench knn": 'ARGS="--rounds 1"',
    "bench bonuses": 'ARGS="--rounds 1 --seeds 1 --transitions 500"',
    "bench debug_presets": 'ARGS="--only gymnax"',
    "bench loops": 'ARGS="--rounds 1 --only purejaxrl_ppo"',
    "figure minigrid": 'ARGS="--presets debug --seeds 1 --tasks doorkey_6x6 --rows none re3"',
    "figure minigrid_betas": 'ARGS="--preset debug --seeds 1 --tasks doorkey_6x6 --rows re3"',
    "figure minigrid_ablations": 'ARGS="--seeds 1 --steps 4000 --groups ensemble"',
    "figure minigrid_hard": (
        'ARGS="--preset debug --steps 2000 --seeds 1 --tasks doorkey_8x8 --rows none re3"'
    ),
    "figure minigrid_hard_betas": (
        'ARGS="--preset debug --seeds 1 --tasks doorkey_8x8 --rows counts"'
    ),
    "figure minigrid_hard_more": 'ARGS="--steps 40960 --seeds 1 --rows rise"',
    "figure minigrid_deviations": 'ARGS="--seeds 1 --steps 4000"',
    "figure minigrid_pretraining": 'ARGS="--seeds 1 --frames 6400 --rows re3 random"',
    "figure bonus_faults": 'ARGS="--seeds 1 --steps 4000"',
    "figure flops": 'ARGS="--presets debug --rows none re3"',
    "figure neighbours": 'ARGS="--tasks hopper_hop --seeds 1 --frames 200"',
    "figure robustness": 'ARGS="--tasks hopper_hop --seeds 1 --frames 200"',
}
"""Target and its figure or benchmark -> the options that shorten it."""

REFUSED = {
    "weights resnet50": "the file must be fetched by hand",
    "weights params.pkl": "the file must be fetched by hand",
    "tensorboard,wandb,mlflow": "W&B and MLflow are not in the lock",
}
"""Commands that must end with exit code 2 and one sentence here, and why."""

BARE = ("make run", "make compare", "make report", ".venv/bin/python -m experiments.train")
"""Commands that pages mention without the options they need."""

NOT_RUN = {
    "make try-docs": "this very command",
    "make compile": "compilers of 3 GB, and minutes for each run",
    "FIG=name": "stands for any name",
    'RUNS="a b"': "stands for any folders",
    "RUN=folder": "stands for any folder",
}


class Result(NamedTuple):
    """The outcome of one command."""

    page: str
    asked: str
    run: str
    code: int
    expected: int
    seconds: float
    said: str


def commands_of(text: str) -> Iterator[str]:
    """Commands in code blocks and in code within sentences, without comments, each once."""
    text = re.sub(r"\s*\\\n\s*", " ", text)
    fenced = re.findall(
        r"^(?: {4}| {2}|)((?:make|\.venv|python -m|pip) [^\n]+)$", text, re.MULTILINE
    )
    inline = re.findall(r"`((?:make|\.venv|python -m|pip)[^`]+)`", text)
    seen = set()
    for found in [*fenced, *inline]:
        command = re.split(r"\s{2,}|\s+#|\s+\[", " ".join(found.split("\n")).strip())[0]
        command = command.replace("ENV=...", "ENV=doorkey_8x8")
        if command.startswith(STARTS) and command not in (*BARE, *seen):
            seen.add(command)
            yield command
    # "or ENV=cheetah_run_sparse: ..." under `make run ENV=doorkey_6x6`.
    yield from (f"make run {task}" for task in re.findall(r"^ +or (ENV=\w+)", text, re.MULTILINE))


def shortened(command: str) -> str:
    """The command, shortened for a trial."""
    if command.startswith("pip install"):
        return f"$PYTHON -m venv try && try/bin/{command} -q && try/bin/python -c 'import re3_jax'"
    if command.startswith("python -m experiments.train"):
        return ".venv/" + command.replace("python", "bin/python", 1) + " --preset debug"
    words = command.split()
    if words[:2] in (["make", "run"], ["make", "profile"]):
        kept = re.sub(r" (PRESET|STEPS)=\S+", "", command)
        return f"{kept} PRESET=debug"
    if words[0] == "make" and len(words) > 1:
        name = next((word.partition("=")[2] for word in words[2:] if word[:2] in ("FI", "BE")), "")
        extra = SHORT.get(f"{words[1]} {name}".strip(), "")
        kept = re.sub(r' (ARGS|TESTS)=("[^"]*"|\S+)', "", command) if extra else command
        return f"{kept} {extra}".strip()
    return command


def page_text(page: str, clone: Path) -> str:
    """A page of the clone, or the output of `make help`."""
    if page != "help":
        return (clone / page).read_text()
    done = subprocess.run(["make", "help"], cwd=clone, capture_output=True, text=True, check=True)
    return done.stdout


def tries(clone: Path, only: str) -> Iterator[tuple[str, str, str, int]]:
    """Page, command, the shortened command and the expected exit code."""
    seen = set()
    found = [(page, command) for page in PAGES for command in commands_of(page_text(page, clone))]
    # Commands that remove the environment come last.
    for page, command in sorted(found, key=lambda one: one[1] == "make clean"):
        run = shortened(command)
        if any(words in command for words in NOT_RUN) or only not in run:
            continue
        # Commands of a page may need the output of earlier ones.
        if run in seen and "OUT=" not in run:
            continue
        seen.add(run)
        yield page, command, run, 2 if any(words in run for words in REFUSED) else 0


def try_all(python: str, only: str, cache: str) -> list[Result]:
    """Runs every command, one after another, in a fresh clone (io)."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="try-docs-") as folder:
        clone, last_page = Path(folder) / "re3_jax", ""
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        environment = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "MAKEFLAGS")}
        # Named once, as a user would name it; the clone keeps its environment.
        environment["PYTHON"] = shutil.which(python) or python
        environment["XDG_CACHE_HOME"] = cache
        for page, asked, run, expected in tries(clone, only):
            if page != last_page:
                shutil.rmtree(clone / "runs", ignore_errors=True)
            last_page = page
            started = time.perf_counter()
            done = subprocess.run(
                ["bash", "-c", run], cwd=clone, env=environment, capture_output=True, text=True
            )
            seconds = time.perf_counter() - started
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-8:]
            result = Result(page, asked, run, done.returncode, expected, seconds, "\n".join(said))
            results.append(result)
            verdict = "ok" if result.code == expected else f"FAILED ({result.code})"
            print(f"{python:<11} {verdict:<11} {seconds:6.1f} s  {page}: {run}", flush=True)
            if result.code != expected:
                print("    " + result.said.replace("\n", "\n    "), flush=True)
    return results


def main() -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--pythons", nargs="+", default=["python3.11", "python3.12", "python3.13"], metavar="NAME"
    )
    parser.add_argument("--only", default="", metavar="WORDS", help="commands that contain it")
    parser.add_argument("--list", action="store_true", help="say what would be run, and end")
    options = parser.parse_args()
    if options.list:
        for page, asked, run, _ in tries(ROOT, options.only):
            print(f"{page}: {asked}\n    {run}")
        return 0
    failed = 0
    with contextlib.suppress(KeyboardInterrupt), tempfile.TemporaryDirectory() as cache:
        for python in options.pythons:
            results = try_all(python, options.only, cache)
            bad = [result for result in results if result.code != result.expected]
            failed += len(bad)
            print(f"{python}: {len(results) - len(bad)} of {len(results)} commands as documented")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
