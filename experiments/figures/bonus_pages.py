"""Writes the tables of options and costs in docs/bonuses.md and docs/bonuses/.

    make figure FIG=bonus_pages

Options, defaults and their meaning are those of the code, costs those of
`benchmarks/results/bonuses.json`. A table replaces what stands between `<!-- NAME -->` and
`<!-- end -->`; the rest of a page is written by hand.
"""

import json
import re
from pathlib import Path
from typing import Any

from experiments.figures import command
from re3_jax.runs.bonuses import BONUSES, Bonus
from re3_jax.runs.config import config_class
from re3_jax.runs.errors import UsageError, refusing
from re3_jax.runs.option_names import option_name, option_with
from re3_jax.runs.options import OF_ENCODERS, OF_SEARCHES

ENTRY = Path("bonuses.md")
COSTS = Path("benchmarks") / "results" / "bonuses.json"
SHARED = "re3"
"""The group of options that stands on its own page alone; others link to it."""

IN_RING = "vcse in the ring"
"""A row of the measurements that is no bonus of its own."""


def page_of(bonus: Bonus) -> Path:
    """The page of a bonus within docs/."""
    return Path("bonuses") / f"{bonus.name}.md"


def defaults(bonus: Bonus) -> dict[str, Any]:
    """Options, dotted, of the table on a bonus's page, and their defaults."""
    groups = [group for group in bonus.groups if group != SHARED or bonus.name == SHARED]
    found = {
        f"{group}.{name}": value
        for group in groups
        for name, value in vars(_config(group)).items()
        if f"{group}.{name}" not in bonus.unused
    }
    return {**found, **{n: v for n, v in bonus.values.items() if not _is_of_ring(bonus, n)}}


def _is_of_ring(bonus: Bonus, option: str) -> bool:
    """Whether an option has an effect only with neighbours in the ring."""
    return bonus.is_learned and option in OF_SEARCHES


def shared(bonus: Bonus) -> list[str]:
    """Options, dotted, of the page of `SHARED` that have an effect on another bonus, too."""
    if bonus.name == SHARED or SHARED not in bonus.groups:
        return []
    without: set[str] = set(OF_ENCODERS) if bonus.weights else set()
    if bonus.weights or bonus.is_learned:
        without.add("ensemble_size")
    dotted = [f"{SHARED}.{name}" for name in vars(_config(SHARED)) if name not in without]
    elsewhere = {*bonus.unused, *defaults(bonus)}
    return [name for name in dotted if name not in elsewhere]


def options_table(bonus: Bonus) -> str:
    """The options of a bonus with their defaults and what they mean."""
    rows = ["| option | default | |", "|---|---|---|"]
    for name, value in defaults(bonus).items():
        group, _, leaf = name.rpartition(".")
        meaning = _meanings(type(_config(group)))[leaf]
        rows.append(f"| `{option_name(name)}` | {_shown(value)} | {meaning} |")
    if others := shared(bonus):
        of_ring = [name for name in others if _is_of_ring(bonus, name)]
        others = [name for name in others if name not in of_ring]
        words = f"It also has these options of [RE3](re3.md#options): {_named(others)}"
        if of_ring and bonus.neighbours is not None:
            words += f"; with `{option_with(bonus.neighbours, 'ring')}` also {_named(of_ring)}"
        rows += ["", f"{words}."]
    return "\n".join(rows)


def _named(options: list[str]) -> str:
    return ", ".join(f"`{option_name(name)}`" for name in options)


def cost_table(bonus: Bonus, costs: dict[str, Any]) -> str:
    """Milliseconds of an update without and with a bonus."""
    pixels = costs["pixels"]["bonuses"]
    rows = ["| | without | with it | ratio |", "|---|---|---|---|"]
    for part, agent in (("minigrid", "A2C"), ("ppo", "PPO")):
        grid, seeds = costs[part]["bonuses"], costs[part]["seeds"]
        if (found := grid.get(bonus.name)) is not None:
            what = f"{agent} on DoorKey-8x8, {seeds} seeds, with the rollout"
            rows.append(_cost_row(what, grid, found))
    for name, words in ((bonus.name, ""), (IN_RING, ", `--vcse.neighbours ring`")):
        if name in pixels and name.startswith(bonus.name):
            found, plain = pixels[name], pixels["none"]
            rows.append(_cost_row(f"RAD, `PRESET=small`{words}", pixels, found))
            rows.append(
                f"| the same, work on a new frame{words} | {plain['ms_store_one']:.2f} ms "
                f"| {found['ms_store_one']:.2f} ms | |"
            )
    agents_of: dict[str, list[str]] = {}
    for part, agent in (("minigrid", "A2C"), ("ppo", "PPO"), ("pixels", "RAD")):
        if bonus.name in costs[part]["bonuses"]:
            agents_of.setdefault(_machine(costs[part]["hardware"]), []).append(agent)
    words = "; ".join(
        machine if len(agents_of) == 1 else f"{' and '.join(agents)}: {machine}"
        for machine, agents in agents_of.items()
    )
    return "\n".join([*rows, "", f"{words}; [all bonuses](../bonuses.md#cost)."])


def _machine(hardware: dict[str, Any]) -> str:
    vectors = "with AVX-512" if hardware["avx512"] else "without AVX-512"
    return f"{hardware['cpu']} {vectors}, {hardware['cores']} cores"


def costs_table(costs: dict[str, Any]) -> str:
    """Ratios of all bonuses, for the entry page."""
    grid, ppo, pixels = (costs[part]["bonuses"] for part in ("minigrid", "ppo", "pixels"))
    rows = [
        "| | A2C | PPO | RAD | ms of a frame | operations of RAD |",
        "|---|---|---|---|---|---|",
    ]
    for name in [*grid, *(name for name in pixels if name not in grid)]:
        on_grid, on_pixels = grid.get(name, {}), pixels.get(name, {})
        shown = "`vcse`, `--vcse.neighbours ring`" if name == IN_RING else f"`{name}`"
        cells = (
            _ratio(on_grid.get("times_plain")),
            _ratio(ppo.get(name, {}).get("times_plain")),
            _ratio(on_pixels.get("times_plain")),
            on_pixels.get("ms_store_one", ""),
            on_pixels.get("paper_operations_times_plain") or "",
        )
        rows.append(f"| {shown} | {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(rows)


def written(docs: Path, root: Path) -> dict[Path, str]:
    """The pages, each with its present tables.

    Args:
      docs: the folder of the pages.
      root: that of the repository.
    """
    costs = json.loads((root / COSTS).read_text())
    pages = {docs / ENTRY: _replaced((docs / ENTRY).read_text(), costs=costs_table(costs))}
    for bonus in BONUSES.values():
        if bonus.rewards:
            page = docs / page_of(bonus)
            tables = {"options": options_table(bonus), "cost": cost_table(bonus, costs)}
            pages[page] = _replaced(page.read_text(), **tables)
    return pages


def _config(group: str) -> Any:
    """The defaults of a group of options."""
    return getattr(config_class()(), group)


def _meanings(config: type) -> dict[str, str]:
    """What the docstrings of a dataclass and its bases say about each field."""
    found: dict[str, str] = {}
    for parent in reversed(config.__mro__):
        text = (parent.__doc__ or "").partition("Attributes:\n")[2].partition("\n\n")[0]
        for name, words in re.findall(r"^      (\w+): (.+(?:\n        .+)*)", text, re.MULTILINE):
            found[name] = " ".join(words.split()).replace("|", r"\|")
    return found


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "on", False: "off"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else f"`{value}`"


def _cost_row(what: str, rows: dict[str, Any], found: dict[str, Any]) -> str:
    plain, ratio = rows["none"]["ms"], _ratio(found["times_plain"])
    return f"| {what} | {plain:.1f} ms | {found['ms']:.1f} ms | {ratio} |"


def _ratio(times: float | None) -> str:
    return "" if times is None else f"{times:.0f}" if times >= 10 else f"{times:.1f}"


def _replaced(page: str, **tables: str) -> str:
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise UsageError(f"a page has no table between {begin.strip()} and {end}")
        page = f"{before}{begin}\n{table}\n\n{end}{after}"
    return page


def _make(words: command.Words) -> command.Lines:
    if not COSTS.is_file():
        raise UsageError(f"there is no {COSTS}: start this in the root of the repository")
    with refusing(OSError):
        for page, text in written(words.out, Path()).items():
            page.write_text(text)
            yield page


OPTIONS: command.Options = {"--out": {"type": Path, "default": Path("docs")}}

main = command.of("bonus_pages", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
