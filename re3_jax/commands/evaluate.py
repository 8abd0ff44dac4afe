"""`python -m re3_jax.commands.evaluate --run DIR`: evaluates the last checkpoint of a run."""

import argparse
import contextlib
import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from re3_jax.runs import evaluation, given_files, machine, plugins, run_folder
from re3_jax.runs import video as mp4
from re3_jax.runs.build import build, fitted, prepared
from re3_jax.runs.errors import Parser, UsageError, in_one_sentence, refuse_lack_of_memory, refusing
from re3_jax.training.checkpoint import CheckpointStore

STRIP_EVERY = 6


def evaluate(
    run: Path,
    episodes: int | None,
    greedy: bool | None,
    video: Path | None = None,
    strip: tuple[Path, int] | None = None,
) -> None:
    """Prints statistics per seed of the newest intact checkpoint in `run`, as JSON.

    Args:
      run: a run folder.
      episodes: episodes per seed; the run's own number by default.
      greedy: take the most probable action; by default as the run does.
      video: MP4 to write of the first seed's first episode; DeepMind Control and Atari only.
      strip: picture to write of the same, and the distance of its frames.

    Raises:
      UsageError: there is no run or no intact checkpoint.
    """
    stored = run_folder.stored_config(run, "name the folder of a run with --run")
    run_folder.check_files(stored, run, [given_files.WEIGHTS])
    if not run_folder.has_checkpoint(run):
        raise UsageError(f"{run} has no checkpoint to evaluate: train it first")
    if video or strip:
        evaluation.check_films(stored)
    config, spec = prepared(fitted(evaluation.asked(stored, episodes, greedy)))
    warn = functools.partial(print, file=sys.stderr)
    runner = build(config, spec, warn)
    frames: list[np.ndarray] = []
    with (
        refusing(ValueError),
        contextlib.closing(runner),
        contextlib.closing(CheckpointStore(run / run_folder.CHECKPOINTS)) as store,
    ):
        found = store.restore(runner.template(config.seeds), warn)
        if found is None:
            raise UsageError(f"{run} has no checkpoint to evaluate: train it first")
        state, record = found
        stats = runner.start_evaluation(state, frames if video or strip else None)()
    printed = {"run": str(run), **evaluation.described(config, stats, record["env_frames"])}
    # Before the pictures, which may fail.
    print(json.dumps(run_folder.without_nan(printed), indent=2), flush=True)
    if video is not None:
        mp4.write(video, frames)
    if strip is not None:
        path, every = strip
        mp4.write_strip(path, frames, every)


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Prints the statistics, and writes the pictures asked for."""
    parser = Parser(prog="python -m re3_jax.commands.evaluate")
    parser.add_argument("--run", type=Path, required=True, metavar="DIR")
    parser.add_argument("--episodes", type=int, help="episodes per seed (default: the run's)")
    parser.add_argument(
        "--greedy",
        action=argparse.BooleanOptionalAction,
        help="take the most probable action (default: as the run does)",
    )
    parser.add_argument("--video", type=Path, metavar="FILE.mp4", help="write one episode")
    parser.add_argument("--strip", type=Path, metavar="FILE.png", help="frames of one episode")
    parser.add_argument("--every", type=int, help="distance of the frames of --strip (default: 6)")
    plugins.add_option(parser)
    words = parser.parse_args(argv)
    if words.every is not None and (words.every < 1 or not words.strip):
        raise UsageError(f"--every {words.every} shows nothing: give at least 1, and --strip")
    if words.video:
        mp4.check_name(words.video)
    strip = (words.strip, words.every or STRIP_EVERY) if words.strip else None
    run_folder.load_plugin(words.run, words.plugin)
    machine.keep_compiled_programs()
    with refuse_lack_of_memory("--episodes"):
        evaluate(words.run, words.episodes, words.greedy, words.video, strip)
    return 0


if __name__ == "__main__":
    sys.exit(main())
