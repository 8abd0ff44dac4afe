"""The paper's compute figure: floating-point operations of RAD with and without bonuses.

    make figure FIG=flops [ARGS="--task cheetah_run_sparse --presets released"]

Counts a run of each row in two ways, side by side: by the paper's rule
(`experiments.operations`), with the sizes of the first preset, and from the programs of every
preset (`experiments.program_operations`). Trains nothing. Writes operations.png, table.csv, and
counts.json with the operations of each program.
"""

import dataclasses
import json
from functools import partial
from typing import Any, NamedTuple, get_args

import jax
from matplotlib.figure import Figure

from experiments import operations, program_operations
from experiments.figures import command
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.runs import build, curves, suites
from re3_jax.runs.config import BonusName, PresetName, RunConfig
from re3_jax.runs.errors import UsageError, refusing
from re3_jax.runs.resolve import resolve

ROWS: dict[BonusName, str] = {
    "none": "RAD",
    "re3": "RAD + SE w/ Random (RE3)",
    "contrastive": "RAD + SE w/ Contrastive",
    "inverse_dynamics": "RAD + SE w/ Inverse dynamics",
    "rnd": "RAD + RND",
    "icm": "RAD + ICM",
}
"""Bonus -> label. The paper does not count the last two."""

PAPERS_RULE = "paper's rule"

COLUMNS = (
    *("bonus", "label", "counted", "operations", "times_rad"),
    *("operations_of_searches", "share_of_searches", "stated", "stated_of_searches"),
)


class Count(NamedTuple):
    """Operations of one run of a row.

    Attributes:
      bonus: its bonus.
      counted: `PAPERS_RULE`, or the preset of the programs that XLA counted.
      of_all: all of them. The paper leaves out searches; XLA's count has them.
      of_searches: those of the searches for neighbours; 0 without.
    """

    bonus: BonusName
    counted: str
    of_all: float
    of_searches: float


def by_paper(bonus: BonusName, config: RunConfig, spec: EnvSpec) -> Count:
    """Operations by the paper's rule, which has one update for each agent step.

    Its searches begin after the random steps. Raises KeyError if it does not count the bonus.
    """
    sac, box = config.sac, spec.action_space
    assert isinstance(box, Box)
    image = sac.crop_size, sac.crop_size, spec.observation_shape[-1]
    networks = operations.networks(sac, image, box.shape[0])
    agent_steps = config.steps // spec.action_repeat
    total = agent_steps * operations.of_iteration(bonus, networks, sac.batch_size)
    searched, searches = program_operations.latents_searched(config), 0.0
    if searched:
        updates = range(sac.initial_agent_steps, agent_steps + 1)
        dim = config.re3.latent_dim
        searches = operations.of_searches(updates, sac.batch_size, searched, dim)
    return Count(bonus, PAPERS_RULE, float(total), searches)


def _config(task: str, bonus: BonusName, preset: PresetName) -> RunConfig:
    config = dataclasses.replace(resolve(task, bonus=bonus, preset=preset), seeds=1)
    if config.agent != "rad" or suites.host_of(config.env) is None:
        raise UsageError(f"RAD has no pixels of {task}: give a task of DeepMind Control")
    return config


def _table_rows(counts: list[Count]) -> list[list[object]]:
    plain = {count.counted: count.of_all for count in counts if count.bonus == "none"}
    in_words = operations.STATED_IN_WORDS
    found: list[list[object]] = []
    for bonus, counted, total, searches in counts:
        times = f"{total / plain[counted]:.3f}" if counted in plain else ""
        stated = operations.STATED.get(bonus, 0)
        of_searches = f"{operations.STATED_SEARCHES:.4g}" if bonus == "re3" else ""
        numbers = f"{total:.5g}", times, f"{searches:.5g}", f"{searches / total:.4f}"
        by_paper = f"{stated:.4g}" if stated else in_words.get(bonus, ""), of_searches
        found.append([bonus, ROWS[bonus], counted, *numbers, *by_paper])
    return found


def _draw(counts: list[Count]) -> Figure:
    ways = list(dict.fromkeys(count.counted for count in counts))
    bonuses = list(dict.fromkeys(count.bonus for count in counts))
    height = 0.8 / len(ways)
    figure = Figure((8.2, 0.9 + 0.8 * len(bonuses)), dpi=130, layout="constrained")
    axes = figure.subplots()
    for number, (way, colour) in enumerate(zip(ways, curves.COLOURS, strict=False)):
        shown = [count for count in counts if count.counted == way]
        offset = height * (number - (len(ways) - 1) / 2)
        places = [bonuses.index(count.bonus) + offset for count in shown]
        is_ruled = way == PAPERS_RULE
        label = way if is_ruled else f"programs of the preset {way}"
        bars = partial(axes.barh, places, height=0.9 * height)
        bars([count.of_all for count in shown], color=colour, label=label)
        if not is_ruled:
            last = "k-NN, as a part of the programs" if way == ways[-1] else None
            bars([count.of_searches for count in shown], color="black", label=last)
    for bonus, stated in operations.STATED.items():
        if bonus in bonuses:
            place = bonuses.index(bonus)
            axes.plot([stated] * 2, [place - 0.5, place + 0.5], "k:", label="stated by the paper")
    axes.set_yticks(range(len(bonuses)), [ROWS[bonus] for bonus in bonuses])
    axes.invert_yaxis()
    axes.set(xlabel="floating-point operations of one run", xlim=(0, None))
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    return figure


def _make(words: command.Words) -> command.Lines:
    ruled: list[Count] = []
    counts: list[Count] = []
    calls: dict[str, dict[str, Any]] = {}
    for preset in words.presets:
        for bonus in words.rows:
            config = _config(words.task, bonus, preset)
            spec = build.task_spec(config)
            if preset == words.presets[0] and bonus in operations.EXTRA_FORWARD_PASSES:
                ruled.append(by_paper(bonus, config, spec))
            with refusing(ValueError):
                programs, totals = program_operations.of_run(config, spec)
            calls.setdefault(preset, {})[bonus] = programs._asdict() | {"updates": totals.updates}
            counts.append(Count(bonus, preset, totals.of_all, totals.of_searches))
            yield f"{ROWS[bonus]}, {preset}: {totals.of_all:.4g}"
    words.out.mkdir(parents=True, exist_ok=True)
    curves.write_csv(words.out / "table.csv", COLUMNS, _table_rows([*ruled, *counts]))
    report = {
        "task": words.task,
        "env_frames": config.steps,
        "lowered_for": program_operations.PLATFORM,
        "jax": jax.__version__,
        "operations_of_one_call": calls,
    }
    (words.out / "counts.json").write_text(json.dumps(report, indent=2) + "\n")
    _draw([*ruled, *counts]).savefig(words.out / "operations.png")
    yield words.out / "operations.png"


OPTIONS: command.Options = {
    "--task": {"default": "hopper_hop", "help": "the paper states numbers of hopper_hop"},
    "--rows": command.some_of(ROWS),
    "--presets": {"nargs": "+", "default": ["paper", "released"], "choices": get_args(PresetName)},
}

main = command.of("flops", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
