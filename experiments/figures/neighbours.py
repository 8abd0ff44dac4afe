"""The paper's first figure: nearest neighbours by a random encoder and by the true state.

For some frames it shows the nearest frames by the distance between latents of RE3's untrained
encoder, by that between raw pixels, and by that between the simulator's positions. The paper's
figure has no raw pixels and no scores; the table has both, with an interval over seeds.

    make figure FIG=neighbours [ARGS="--tasks cheetah_run --seeds 1"]
"""

from collections.abc import Iterator

import jax
from scipy.spatial.distance import cdist  # type: ignore[import-untyped]

from experiments.figures import agreement, command, frames, random_encoders
from experiments.figures.agreement import Measured
from experiments.figures.frames import Frames
from experiments.figures.similarity import nearest, of_pixels
from re3_jax.runs import side_by_side

CONDITION = "clean"
ENCODER = "random encoder"
PIXELS = "raw pixels"
TRUE_STATE = "true state"


def measure(found: Frames, seed: int) -> Iterator[Measured]:
    """The distances to score, see `agreement.of_seeds`."""
    params = random_encoders.released()(jax.random.key(seed), found.images.shape[1])
    latents = random_encoders.latents(params, found.images)
    yield Measured(CONDITION, ENCODER, [cdist(latents, latents)])
    yield Measured(CONDITION, PIXELS, [of_pixels(found.images)])


def _make(words: command.Words) -> command.Lines:
    agreement.table("neighbours", words, measure, [ENCODER])
    yield words.out / "table.csv"
    for task in words.tasks:
        found, queries = frames.shown(words, task)
        orders = {
            one.representation: nearest(one.distances[0], found.episodes)
            for one in measure(found, frames.SHOWN_SEED)
        }
        orders[TRUE_STATE] = agreement.of_true_states(found)
        shown = {"frame": queries[:, None]}
        shown |= {name: order[queries, : words.k] for name, order in orders.items()}
        path = words.out / f"{task}.png"
        side_by_side.draw({name: found.images[at] for name, at in shown.items()}).savefig(path)
        yield path


main = command.of(
    "neighbours", _make, agreement.OPTIONS | {"--queries": {"type": int, "default": 4}}
)

if __name__ == "__main__":
    raise SystemExit(main())
