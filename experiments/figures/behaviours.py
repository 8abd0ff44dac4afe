"""The paper's strips of behaviours: what pre-training on bonuses and acting at random look like.

    make figure FIG=behaviours [ARGS="--tasks hopper_hop --frames 25000"]

The last whole episode of each run of `pretraining`, trained if necessary: with sampled actions, as
during training. It is simulated again and drawn larger than the agent saw it (`replayed`). Writes
strips.png, frames at equal intervals, and a video of each row: how every seed's episode begins.
"""

import dataclasses
import io

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure
from PIL import Image

from experiments.figures import command, pretraining, replayed
from re3_jax.envs.host import renderer
from re3_jax.runs import video
from re3_jax.runs.errors import UsageError, refusing

SEEDS = 1

SIDE = 160
"""Of a drawn frame, in pixels."""

SHOWN = 12
"""Frames in a strip."""

FILMED = 100
"""Frames of each seed in a video."""

Frames = UInt8[np.ndarray, "step height width 3"]


def last_episode(played: replayed.Played) -> Frames:
    """The frames of the last whole episode, one before each action.

    Raises:
      UsageError: no episode is whole, or nothing here can draw it.
    """
    if len(played.starts) < 2:
        raise UsageError(f"{played.folder} has no whole episode: give more --frames")
    first, end = played.starts[-2:]
    config = dataclasses.replace(played.config, image_size=SIDE)
    with refusing(ValueError, ImportError, OSError):
        drawn_by = renderer.choose_here(config)
        screen, frames = None, []
        for step, lane in enumerate(replayed.play(played)):
            screen = screen or renderer.make(drawn_by, [lane], SIDE)
            if first <= step < end:
                frames.append(screen.draw([0])[0])
    return np.stack(frames)


def draw(strips: dict[str, Frames]) -> Figure:
    """One row per title."""
    size = 1.05 * SHOWN, 1.3 * len(strips)
    figure = Figure(size, dpi=100, layout="constrained")
    places = figure.subplots(len(strips), SHOWN, squeeze=False)
    for row, (title, frames) in zip(places, strips.items(), strict=True):
        # It is wider than its frame, which the layout would widen.
        above = row[0].text(0, 1.04, title, fontsize=8, transform=row[0].transAxes)
        above.set_in_layout(False)
        chosen = np.linspace(0, len(frames) - 1, SHOWN).astype(int)
        for axes, frame in zip(row, frames[chosen], strict=True):
            axes.imshow(frame)
            axes.set_axis_off()
    return figure


def _make(words: command.Words) -> command.Lines:
    explored = pretraining.explored(words, words.seeds or SEEDS)
    words.out.mkdir(parents=True, exist_ok=True)
    strips: dict[str, Frames] = {}
    for (task, name), played in explored.items():
        title = f"{pretraining.TASKS[task]}: {pretraining.METHODS[name].label}"
        episodes = [last_episode(one) for one in played]
        strips |= {
            f"{title}, seed {one.seed}": frames
            for one, frames in zip(played, episodes, strict=True)
        }
        path = words.out / f"{task}-{name}.mp4"
        video.write(path, [*np.concatenate([frames[:FILMED] for frames in episodes])])
        yield path
    path, drawn = words.out / "strips.png", io.BytesIO()
    picture = draw(strips)
    pretraining.note_missing(picture, words, words.seeds or SEEDS, len(strips))
    picture.savefig(drawn)
    # With 256 colours it takes a third of the bytes.
    Image.open(drawn).convert("RGB").quantize(256).save(path, optimize=True)
    yield path


main = command.of("behaviours", _make, pretraining.OF_EXPLORING | command.OF_RUNS)

if __name__ == "__main__":
    raise SystemExit(main())
