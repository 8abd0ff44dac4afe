"""The three pictures of `make look`."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int, Shaped
from matplotlib.figure import Figure

from re3_jax.runs import side_by_side
from re3_jax.runs.looking.frames import Pictures

DIRECTIONS = 4
"""States of a cell of MiniGrid: the agent's directions."""


def of_latents(
    latents: Float[np.ndarray, "point latent"], colours: Mapping[str, Float[np.ndarray, " point"]]
) -> Figure:
    """The first two principal components of latents, once for each of the colours.

    Axes name the share of the variance that they show.
    """
    points, shares = principal_components(latents)
    figure = Figure(figsize=(4.6 * len(colours), 4.1), dpi=130, layout="constrained")
    for axes, (title, values) in zip(
        figure.subplots(1, len(colours), squeeze=False)[0], colours.items(), strict=True
    ):
        # The largest values are drawn last: rare rewards are not hidden.
        order = np.argsort(values, kind="stable")
        shown = axes.scatter(*points[order].T, c=values[order], s=7, cmap="viridis", lw=0)
        figure.colorbar(shown, ax=axes, shrink=0.85)
        axes.set(title=title, xticks=[], yticks=[])
        axes.set_xlabel(f"1st component, {shares[0]:.0%} of the variance")
        axes.set_ylabel(f"2nd component, {shares[1]:.0%}")
    return figure


def principal_components(
    latents: Float[np.ndarray, "point latent"],
) -> tuple[Float[np.ndarray, "point 2"], Float[np.ndarray, " 2"]]:
    """The first two principal components, and the share of the variance of each; zero without."""
    centred = latents.astype(np.float64) - latents.mean(axis=0)
    left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
    found, shares = np.zeros((len(latents), 2)), np.zeros(2)
    kept = min(2, len(lengths))
    found[:, :kept] = left[:, :kept] * lengths[:kept]
    total = np.sum(lengths**2)
    if total > 0:
        shares[:kept] = lengths[:kept] ** 2 / total
    return found, shares


def of_neighbours(
    images: Pictures,
    latents: Float[np.ndarray, "point latent"],
    queries: Int[np.ndarray, " query"],
    k: int,
) -> Figure:
    """Frames, each beside the k others whose latents are nearest, the nearest first."""
    away = np.linalg.norm(latents[queries, None].astype(np.float64) - latents[None], axis=2)
    away[np.arange(len(queries)), queries] = np.inf
    order = np.argsort(away, axis=1, kind="stable")[:, :k]
    parts = {"frame": images[queries[:, None]], "nearest in latent space": images[order]}
    return side_by_side.draw(parts)


def of_states(
    rows: Mapping[str, Shaped[np.ndarray, "seed y x direction"]], seeds: Sequence[int]
) -> Figure:
    """Heat maps of a room of MiniGrid: one row for each measure, one panel for each seed.

    A panel shows the sum of a measure over the directions of a cell.
    """
    panels = np.stack([values.sum(axis=-1, dtype=float) for values in rows.values()])
    figure = Figure(
        figsize=(2.5 * len(seeds) + 0.6, 2.7 * len(rows)), dpi=130, layout="constrained"
    )
    places = figure.subplots(len(rows), len(seeds), squeeze=False)
    for row, title, maps in zip(places, rows, panels, strict=True):
        largest = maps.max() or 1.0
        for axes, seed, one in zip(row, seeds, maps, strict=True):
            shown = axes.imshow(one, cmap="magma", vmin=0, vmax=largest)
            axes.set(xticks=[], yticks=[], title=f"seed {seed}")
        row[0].set_ylabel(title, fontsize=9)
        figure.colorbar(shown, ax=[*row], shrink=0.8)
    return figure
