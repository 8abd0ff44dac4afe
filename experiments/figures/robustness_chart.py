"""The chart of scores by representation, condition, k and variant of the encoder."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.agreement import ALL_TASKS, KS, Table
from re3_jax.runs import statistics
from re3_jax.runs.curves import COLOURS

K = 3
"""The paper's for DeepMind Control."""


def draw(table: Table, baseline: str, variants: Sequence[str]) -> Figure:
    """Above a panel for each condition; below recall by k, and variants of the encoder.

    Points are means over seeds, bars their 95% intervals.
    """
    tasks, conditions, names, _ = (list(dict.fromkeys(part)) for part in zip(*table, strict=True))
    shown = [name for name in names if name not in variants]
    figure = Figure((18, 8), dpi=100, layout="constrained")
    above, below = figure.subfigures(2, 1, squeeze=False)[:, 0]
    (panels,) = above.subplots(1, len(conditions), sharey=True, squeeze=False)
    for axes, condition in zip(panels, conditions, strict=True):
        _by_task(axes, table, tasks, condition, shown)
    panels[0].set_ylabel(f"recall at {K} (mean, 95% interval)")
    above.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=9)
    task = ALL_TASKS if ALL_TASKS in tasks else tasks[0]
    by_k, of_variants = below.subplots(1, 2)
    _by_k(by_k, table, task, conditions[0], shown)
    _variants(of_variants, table, task, conditions[0], [baseline, *variants])
    return figure


def _by_task(
    axes: Axes, table: Table, tasks: Sequence[str], condition: str, names: Sequence[str]
) -> None:
    for number, name in enumerate(names):
        at = np.arange(len(tasks)) + 0.8 * (number - (len(names) - 1) / 2) / len(names)
        values = [table[task, condition, name, K]["recall"] for task in tasks]
        _points(axes, at, values, COLOURS[number], label=name)
    chance = [table[task, condition, names[0], K]["chance_recall"].mean() for task in tasks]
    axes.plot(chance, "k:", label="chance")
    axes.set(title=condition, xticks=range(len(tasks)))
    axes.set_xticklabels([task.replace("_", "\n", 1) for task in tasks], fontsize=8)


def _by_k(axes: Axes, table: Table, task: str, condition: str, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        values = [table[task, condition, name, k]["recall"] for k in KS]
        _points(axes, np.array(KS), values, COLOURS[number], "o-")
    axes.plot(KS, [table[task, condition, names[0], k]["chance_recall"].mean() for k in KS], "k:")
    axes.set(title=f"{condition}, {task}", xlabel="k", ylabel="recall at k", xticks=KS)
    axes.set_ylim(bottom=0)


def _variants(axes: Axes, table: Table, task: str, condition: str, names: Sequence[str]) -> None:
    values = [table[task, condition, name, K]["recall"] for name in names]
    _points(axes, np.arange(len(names)), values, COLOURS[0])
    axes.set(title=f"{condition}, {task}: one difference from 1 encoder", ylabel=f"recall at {K}")
    axes.set_xticks(range(len(names)), names, rotation=25, ha="right")
    axes.set_ylim(bottom=0)


def _points(
    axes: Axes,
    x: np.ndarray,
    values: Sequence[np.ndarray],
    colour: str,
    form: str = "o",
    label: str | None = None,
) -> None:
    mean, low, high = np.array([statistics.mean_interval(of_seeds) for of_seeds in values]).T
    bars = np.nan_to_num([mean - low, high - mean])
    axes.errorbar(x, mean, yerr=bars, fmt=form, color=colour, ms=4, label=label)
    axes.grid(alpha=0.25, axis="y")
    axes.spines[["top", "right"]].set_visible(False)
