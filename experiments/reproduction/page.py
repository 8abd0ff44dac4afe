"""The page docs/reproduction.md from all entries."""

import textwrap
from pathlib import Path

from experiments.reproduction import (
    appendix,
    atari,
    compute,
    control,
    method,
    minigrid,
    pretraining,
    rules,
    sensitivity,
)
from experiments.reproduction.entry import TESTS, Entry, Finding, Section, Verdict
from experiments.reproduction.results import Results

SECTIONS = (
    Section("Section 1, Introduction", method.INTRODUCTION),
    Section("Section 3, Method", (*method.ENTRIES, *sensitivity.DECAY)),
    Section("Section 4.1, DeepMind Control: with and without RE3", control.ONLINE),
    Section(
        "Section 4.1, DeepMind Control: other encoders and bonuses",
        (*control.OTHER_ENCODERS, *control.OTHER_BONUSES),
    ),
    Section("Section 4.1, Compute-efficiency", compute.ENTRIES),
    Section("Section 4.1, Pre-training and fine-tuning", pretraining.ENTRIES),
    Section("Section 4.1, Ensembles and sensitivity", sensitivity.ENTRIES),
    Section("Section 4.2, MiniGrid", minigrid.MAIN),
    Section("Section 4.3, Atari", atari.MAIN),
    Section(
        "Appendix A, Details on DeepMind Control",
        (*appendix.CONTROL, *sensitivity.LOGARITHM, sensitivity.WEIGHT),
    ),
    Section("Appendix B, More tasks of DeepMind Control", control.MORE_TASKS),
    Section("Appendix C, Details on MiniGrid", (*minigrid.DETAILS, sensitivity.ALONE)),
    Section("Appendix D, Details on Atari", atari.DETAILS),
    Section("Appendix E, More games of Atari", atari.MORE_GAMES),
    Section("Appendix F, Floating-point operations", compute.APPENDIX),
    Section("Appendix G, Contrastive pre-training on MiniGrid", minigrid.CONTRASTIVE),
    Section("Appendix H, On-policy RE3", appendix.ON_POLICY),
)

CONTRIBUTIONS = (
    "RE3 improves the sample-efficiency of model-free and model-based agents: Figures 4, 11, 13, "
    "14 and 15.",
    "It does better than learned encoders and bonuses that learn: Figures 5, 6, 11, 13 and 16.",
    "It is compute-efficient: Figure 7.",
    "It learns diverse behaviours without a reward, which help fine-tuning: Figures 8, 9 and 11.",
)
"""Of Section 1, and the figures that show each."""

OUTSIDE = {
    "bonus_faults": "diagnostics of a right bonus and of two with planted faults",
    "bonus_losses": "losses of the learned bonuses over 1,000 updates",
    "coverage": "how broadly runs of a task visited its true states",
    "coverage_walker_quadruped": "the same on two tasks where RE3 shows no difference",
    "coverage_walker_poses": "the same of the walker's poses alone",
    "deep_sea_search": "the search of Rainbow's settings on DeepSea",
    "dmc_small_drq": "DrQ with and without RE3; the paper has DrQ alone",
    "dreamer": "Dreamer on a task of ours, a bar in pixels",
    "gymnax_cartpole": "CartPole, to show the contract with gymnax",
    "minatar_search": "a search of Rainbow's settings on MinAtar",
    "minigrid_hard": "PPO with eight bonuses on five hard tasks of MiniGrid",
    "minigrid_hard_betas": "the search of weights behind it",
    "minigrid_hard_more": "RISE, and RND as its authors have it, with PPO on DoorKey-8x8",
    "minigrid_pretraining": "exact entropy of the states that A2C visits without a reward",
    "pretraining_poses": "entropy of poses alone in runs of Walker and Cheetah without a reward",
    "ppo": "PPO, an agent that the paper does not have",
    "ppo_known_returns": "PPO where other implementations have numbers",
    "quickstart_doorkey_6x6": "the output of the first command in the README",
    "rainbow": "Rainbow on MinAtar and DeepSea",
    "small_search": "the search for the size `small`",
}
"""Folders of results that are no part of the paper."""

HEAD = (
    "Every figure, table and claim of [the paper](https://arxiv.org/abs/2102.09430): what ran "
    "here, and what came of it. `make figure FIG=reproduction` writes this page from the committed "
    "results, and a test compares the two. Figures, tables, sections and equations are numbered as "
    "in the paper. Returns are means with their 95% interval. Where nothing has run, the command "
    "is that of the paper's size."
)

WIDTH = 120

COLUMNS = "The paper says", "Command", "What ran here", "Result", "Verdict"


def write(root: Path) -> tuple[str, set[str]]:
    """The page, and the names of the files that it was made of.

    Args:
      root: of the repository.
    """
    results = Results(root)
    found = {section: [(one, one.find(results)) for one in section.entries] for section in SECTIONS}
    tables = [_section(section.title, rows) for section, rows in found.items()]
    head = "# Reproduction\n\n" + _wrapped(HEAD)
    parts = [head, _rules(), _summary(found), _contributions(), *tables, _outside()]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n", results.read


def _wrapped(text: str, bullet: str = "") -> str:
    return textwrap.fill(bullet + text, WIDTH, subsequent_indent=" " * len(bullet))


def _rules() -> str:
    lines = [_wrapped(rule, "- ") for rule in rules.IN_WORDS]
    return "\n".join(["## How a verdict is made\n", *lines])


def _summary(found: dict[Section, list[tuple[Entry, Finding]]]) -> str:
    rows = {section.title: [finding for _, finding in of] for section, of in found.items()}
    every = [finding for of_section in rows.values() for finding in of_section]
    lines = [
        f"| {title} | " + " | ".join(_count(of_section, verdict) for verdict in Verdict) + " |"
        for title, of_section in (*rows.items(), ("**all**", every))
    ]
    return "\n".join(["## Summary\n", *_header("Part of the paper", *Verdict), *lines])


def _count(findings: list[Finding], verdict: Verdict) -> str:
    """How many have the verdict, and how many of these by tests and not by results."""
    chosen = [finding for finding in findings if finding.verdict is verdict]
    by_tests = sum(finding.ran == TESTS for finding in chosen)
    more = f" ({by_tests} by tests)" if by_tests else ""
    return f"{len(chosen)}{more}" if chosen else ""


def _contributions() -> str:
    lines = [_wrapped(claim, "- ") for claim in CONTRIBUTIONS]
    return "\n".join(
        ["Section 1 lists four contributions; each holds as far as its figures do:\n", *lines]
    )


def _section(title: str, rows: list[tuple[Entry, Finding]]) -> str:
    return "\n".join([f"## {title}\n", *_header(*COLUMNS), *(_row(*row) for row in rows)])


def _row(entry: Entry, finding: Finding) -> str:
    command = finding.command or entry.command
    verdict = f"**{finding.verdict}**" + (f": {finding.reason}" if finding.reason else "")
    shown = "; ".join(f"`{one}`" for one in command.split("; ") if one)
    cells = f"{entry.item}. {entry.statement}", shown, finding.ran, finding.result, verdict
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _header(*columns: str) -> list[str]:
    return ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]


def _outside() -> str:
    lines = [f"- `results/{folder}`: {what}" for folder, what in OUTSIDE.items()]
    return "\n".join(["## Results that are no part of the paper\n", *lines])
