"""Robustness of random encoders to noise and colours, and to how they are made.

The paper (Section 4.1, "Robustness to noise and perturbations via ensembles") shows pictures: with
an ensemble, more neighbours are similar states. This figure has such a picture, and scores over
several tasks and seeds. The paper's sensitivity analysis trains agents with other k and other
initialisations. This figure only scores them, and other depths and lengths of the latent: scores
say which frames are near, not what an agent learns.

    make figure FIG=robustness [ARGS="--tasks hopper_hop --seeds 3"]
"""

from collections.abc import Iterator, Sequence

import jax
import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.distance import cdist  # type: ignore[import-untyped]

from experiments.figures import agreement, command, frames, robustness_chart
from experiments.figures.agreement import Measured
from experiments.figures.disturbances import CONDITIONS, background_colours
from experiments.figures.frames import Frames
from experiments.figures.random_encoders import Draw, latents, members, of_depth, released
from experiments.figures.similarity import Distances, nearest, of_pixels
from re3_jax.runs import side_by_side

ONE, FIVE, PIXELS, TRUE_STATE = "1 encoder", "5 encoders", "raw pixels", "true state"

ENSEMBLE = released(ensemble_size=5)

VARIANTS: dict[str, Draw] = {
    "Xavier": released(encoder_init="xavier"),
    "He": released(encoder_init="he"),
    "orthogonal": released(encoder_init="orthogonal"),
    "1 convolution": of_depth(1),
    "2 convolutions": of_depth(2),
    "6 convolutions": of_depth(6),
    "4x4 patches": released(torso="patches"),
    "latent of 10": released(latent_dim=10),
}
"""One difference each from `ONE`: PyTorch's initialisation, 4 convolutions, a latent of 50."""

OF_COLOURS = "tinted", "recoloured"
"""Conditions in which each frame's background has a colour of its own."""

SHOWN = "clean", "noise 25", "recoloured"
"""Conditions of the picture."""


def disturbed(images: np.ndarray, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """The frames in each condition; each has its own random numbers."""
    for number, (name, disturb) in enumerate(CONDITIONS.items()):
        yield name, disturb(images, np.random.default_rng([seed, number]))


def representations(images: np.ndarray, seed: int) -> Iterator[tuple[str, Sequence[Distances]]]:
    """(name, distances between the frames); `ONE` has those of each member of the ensemble.

    The distance of an ensemble is the mean over its members. `intrinsic.re3` takes this mean, too,
    but there each member finds its own neighbours. The paper explains its pictures by "averaging
    features", which the mean latent does.
    """
    key, size = jax.random.key(seed), images.shape[1]
    of_members = [latents(params, images) for params in members(ENSEMBLE(key, size))]
    apart = [cdist(of_member, of_member) for of_member in of_members]
    yield ONE, apart
    yield FIVE, [np.mean(apart, axis=0)]
    for name, vectors in (
        ("mean latent of 5 encoders", np.mean(of_members, axis=0)),
        ("1 encoder, latent of 250", latents(released(latent_dim=250)(key, size), images)),
    ):
        yield name, [cdist(vectors, vectors)]
    yield PIXELS, [of_pixels(images)]


def measure(found: Frames, seed: int) -> Iterator[Measured]:
    """The distances to score, see `agreement.of_seeds`.

    Where backgrounds have colours of their own, they are scored again: by how well they find
    similar colours.
    """
    for condition, images in disturbed(found.images, seed):
        colours = background_colours(found.images, images) if condition in OF_COLOURS else None
        for name, distances in representations(images, seed):
            yield Measured(condition, name, distances)
            if colours is not None:
                wanted = cdist(colours, colours)
                yield Measured(colour_in(condition), name, distances, wanted)
    for name, draw in VARIANTS.items():
        vectors = latents(draw(jax.random.key(seed), found.images.shape[1]), found.images)
        yield Measured("clean", name, [cdist(vectors, vectors)])


def colour_in(condition: str) -> str:
    """What the table calls the search for similar colours in that condition."""
    return f"{condition}: colour"


def _picture(words: command.Words) -> Figure:
    found, queries = frames.shown(words, words.tasks[0])
    true = agreement.of_true_states(found)[queries, : words.k]
    parts: dict[str, list[np.ndarray]] = {"frame": []}
    for condition, images in disturbed(found.images, frames.SHOWN_SEED):
        if condition not in SHOWN:
            continue
        parts["frame"].append(images[queries[:, None]])
        for name, (distances, *_) in representations(images, frames.SHOWN_SEED):
            if name in (ONE, FIVE, PIXELS):
                order = nearest(distances, found.episodes)[queries, : words.k]
                parts.setdefault(name, []).append(images[order])
        parts.setdefault(TRUE_STATE, []).append(images[true])
    names = [name for name in SHOWN for _ in queries]
    return side_by_side.draw({part: np.concatenate(rows) for part, rows in parts.items()}, names)


def _make(words: command.Words) -> command.Lines:
    table = agreement.table("robustness", words, measure, [ONE, PIXELS])
    yield words.out / "table.csv"
    robustness_chart.draw(table, ONE, list(VARIANTS)).savefig(words.out / "scores.png")
    yield words.out / "scores.png"
    # JPEG: the noise makes a PNG several times as large.
    _picture(words).savefig(words.out / f"{words.tasks[0]}.jpg")
    yield words.out / f"{words.tasks[0]}.jpg"


main = command.of("robustness", _make, agreement.OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
