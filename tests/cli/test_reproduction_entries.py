"""Entries of docs/reproduction.md pick their results up when the files appear."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from experiments.reproduction import control, page
from experiments.reproduction.entry import Verdict
from experiments.reproduction.results import Results
from re3_jax.runs import curves
from re3_jax.runs.curves import Curve

ROOT = Path(__file__).parents[2]
REPRODUCED, SMALLER, NOT_REPRODUCED, NOT_RUN = Verdict
ENTRIES = [entry for section in page.SECTIONS for entry in section.entries]


@pytest.fixture
def root(tmp_path):
    """A repository with measurements and counts alone, no runs."""
    shutil.copytree(ROOT / "benchmarks" / "results", tmp_path / "benchmarks" / "results")
    shutil.copytree(ROOT / "results" / "flops", tmp_path / "results" / "flops")
    return tmp_path


def found(root, *words):
    """The finding of the one entry with these words."""
    text = {entry: f"{entry.item}. {entry.statement}" for entry in ENTRIES}
    (entry,) = (entry for entry in ENTRIES if all(word in text[entry] for word in words))
    return entry.find(Results(root))


def write(path, label, finals, better=None, **cells):
    """Appends a row of a figure's table: `finals` are the seeds' last returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    curve = Curve(label, np.array([0, 500_000]), np.array([[0.0, final] for final in finals]))
    for name, values in (better or {}).items():
        ends = ("", "_low", "_high", "_p")
        cells |= {f"{name}{end}": f"{x}" for end, x in zip(ends, values, strict=True)}
    rows = path.read_text().splitlines()[1:] if path.exists() else []
    curves.write_table([curve], path, **{name: [value] for name, value in cells.items()})
    first, *new = path.read_text().splitlines()
    path.write_text("\n".join([first, *rows, *new]) + "\n")


def test_without_runs_what_needs_them_has_not_run_and_says_why(root):
    for entry in ENTRIES:
        finding = entry.find(Results(root))
        assert finding.result
        is_measured = finding.verdict is REPRODUCED
        assert is_measured or finding.verdict is NOT_RUN and not finding.ran
    assert found(root, "Figure 4", "hopper_hop").verdict is NOT_RUN
    assert "days on two CPU cores" in found(root, "Figure 4", "hopper_hop").result
    assert found(root, "Figure 7", "7.233e+16").verdict is REPRODUCED


NOTHING = [""] * 4
NONE = {"larger_area_than_none": NOTHING, "better_than_none": NOTHING}
FEW = "3 seeds: no comparison"
SURE, UNCLEAR = (1, 0.9, 1, 0.008), (0.6, 0.4, 0.8, 0.7)


def dmc(folder, seeds, better, task="cheetah_run_sparse", label="RAD"):
    table = folder / "table.csv"
    write(table, label, [1.0] * seeds, NONE, task=task)
    high = {"larger_area_than_none": better, "better_than_none": UNCLEAR if better[0] else NOTHING}
    write(table, f"{label} + RE3", np.linspace(590, 610, seeds), high, task=task)


@pytest.mark.parametrize(
    ("folder", "seeds", "better", "verdict"),
    [
        ("dmc", 5, SURE, REPRODUCED),
        ("dmc_small", 5, SURE, SMALLER),
        ("dmc", 5, UNCLEAR, NOT_REPRODUCED),
        # The bootstrap's interval of few seeds is too narrow.
        ("dmc", 5, (0.9, 0.6, 1, 0.06), NOT_REPRODUCED),
        ("dmc", 2, (1, 1, 1, 0.33), NOT_REPRODUCED),
        ("dmc", 1, NOTHING, NOT_REPRODUCED),
    ],
)
def test_runs_of_deepmind_control(root, folder, seeds, better, verdict):
    dmc(root / "results" / folder, seeds, better)
    finding = found(root, "Figure 4", "cheetah_run_sparse")
    assert finding.verdict is verdict
    assert f"{seeds} seed" in finding.ran
    assert f"--seeds {seeds} --steps 500000" in finding.command
    assert ("higher at the end with probability 0.60" in finding.result) == (seeds > 2)
    stated = found(root, "601.6", "reaches")
    # At a smaller size, the paper's number says nothing.
    at_size = folder == "dmc"
    assert stated.verdict is ((REPRODUCED if seeds > 2 else NOT_REPRODUCED) if at_size else NOT_RUN)


def test_the_authors_returns_of_that_agent_task_and_frame_are_beside_ours(root):
    (root / control.AUTHORS).parent.mkdir(parents=True)
    shutil.copyfile(ROOT / control.AUTHORS, root / control.AUTHORS)
    dmc(root / "results" / "dmc", 5, SURE)
    # Section 4.1 has the mean, 601.6.
    said = "600 (590 to 610) with RE3 (the authors' 5 seeds: 602 (496 to 708)), 1.00 ("
    assert said in found(root, "Figure 4", "cheetah_run_sparse").result
    dmc(root / "results" / "dmc", 5, SURE, label="Dreamer")
    assert "the authors' 5 seeds: 607 (" in found(root, "Figure 4", "Dreamer").result


def test_runs_of_the_papers_size_come_before_smaller_ones(root):
    dmc(root / "results" / "dmc_small", 5, UNCLEAR)
    assert found(root, "Figure 4", "cheetah_run_sparse").verdict is NOT_REPRODUCED
    dmc(root / "results" / "dmc", 5, SURE)
    assert found(root, "Figure 4", "cheetah_run_sparse").verdict is REPRODUCED


def test_runs_that_have_only_begun_come_after_a_comparison(root):
    dmc(root / "results" / control.WHOLE_LENGTH, 1, NOTHING, "pendulum_swingup")
    finding = found(root, "Figure 4", "pendulum_swingup")
    assert finding.verdict is NOT_REPRODUCED and "1 seed, 500,000 frames" in finding.ran
    dmc(root / "results" / control.THREE_STEPS, 5, SURE, "pendulum_swingup")
    assert found(root, "Figure 4", "pendulum_swingup").verdict is SMALLER


def test_a_task_that_has_only_begun_does_not_displace_the_comparisons_of_others(root):
    for task in ("hopper_hop", "cheetah_run_sparse", "walker_run_sparse", "quadruped_run"):
        dmc(root / "results" / "dmc", 5, SURE, task, "Dreamer")
    dmc(root / "results" / control.DREAMER_SMALL, 4, UNCLEAR, "walker_run_sparse", "Dreamer")
    before = found(root, "Figure 4", "Dreamer")
    assert before.verdict is REPRODUCED and "4 of 6 tasks, 5 seeds" in before.ran
    dmc(root / "results" / "dmc", 1, NOTHING, "pendulum_swingup", "Dreamer")
    assert found(root, "Figure 4", "Dreamer") == before


@pytest.mark.parametrize(
    ("folder", "task", "first"),
    [
        (control.WHOLE_LENGTH, "cheetah_run_sparse", 2),
        (control.THREE_STEPS, "pendulum_swingup", 2),
        (control.THREE_STEPS, "hopper_hop", 1),
    ],
)
def test_a_seed_that_chose_the_size_is_left_out(root, folder, task, first):
    dmc(root / "results" / folder, 5, SURE, task)
    finding = found(root, "Figure 4", task)
    assert ("5 seeds, 500,000 frames (from seed 2" in finding.ran) == (first == 2)
    assert ("--first-seed 2 --seeds 5 " in finding.command) == (first == 2)
    assert " --seeds 5 " in finding.command


@pytest.mark.parametrize(
    ("seeds", "finals", "reason"),
    [(5, [0, 5, 9, 2], ""), (5, [0, 50, 300, 0], "higher"), (5, [0] * 3, FEW), (3, [0] * 4, FEW)],
)
def test_agents_that_fail_need_seeds_of_both(root, seeds, finals, reason):
    folder = root / "results" / "dmc_small_three_steps"
    dmc(folder, seeds, SURE)
    assert found(root, "RAD and DrQ fail").verdict is NOT_RUN
    write(folder / "table.csv", "DrQ", finals, NONE, task="cheetah_run_sparse")
    tried, drq = found(root, "RAD and DrQ fail"), len(finals)
    assert (tried.verdict, tried.reason) == (NOT_REPRODUCED if reason else SMALLER, reason)
    assert f"RAD {seeds} seeds" in tried.ran and f"DrQ {drq} seeds" in tried.ran
    assert f"--agent drq --bonuses none --seeds {drq} --steps" in tried.command


def test_dreamer_needs_most_tasks(root):
    folder = root / "results" / "dmc"
    for number, task in enumerate(("hopper_hop", "quadruped_run", "cheetah_run_sparse")):
        dmc(folder, 5, SURE, task, "Dreamer")
        finding = found(root, "Figure 4", "Dreamer")
        assert finding.verdict is NOT_REPRODUCED
        assert f"{number + 1} of 6 tasks, 5 seeds, 500,000 frames" in finding.ran
    dmc(folder, 5, SURE, "pendulum_swingup", "Dreamer")
    assert found(root, "Figure 4", "Dreamer").verdict is REPRODUCED
    dmc(folder, 4, SURE, "walker_run_sparse", "Dreamer")
    ran = found(root, "Figure 4", "Dreamer").ran
    assert "hopper_hop 5 seeds, 500,000 frames; walker_run_sparse 4 seeds, 500,000" in ran


BELOW_RE3 = {"larger_area_than_re3": (0.0, 0.0, 0.1, 0.008)}
"""Cells of a row that RE3's is better than."""


def bonus(root, label, task, folder="dmc", seeds=5, cells=BELOW_RE3):
    table = root / "results" / folder / "table.csv"
    write(table, f"RAD + {label}", [100.0] * seeds, cells, task=task)


def test_re3_must_be_better_than_another_bonus_on_most_tasks(root):
    unclear = {"larger_area_than_re3": UNCLEAR}
    for number, task in enumerate(("hopper_hop", "quadruped_run", "cheetah_run_sparse")):
        bonus(root, "RE3", task, cells={"larger_area_than_re3": NOTHING})
        bonus(root, "SE w/ Contrastive", task)
        finding = found(root, "Figure 5", "contrastive")
        assert finding.verdict is NOT_REPRODUCED
        assert finding.reason == f"better in {number + 1} of {number + 1}, 4 needed"
        assert f"{number + 1} of 6 tasks" in finding.ran
    bonus(root, "RE3", "pendulum_swingup", cells={"larger_area_than_re3": NOTHING})
    bonus(root, "SE w/ Contrastive", "pendulum_swingup")
    finding = found(root, "Figure 5", "contrastive")
    assert finding.verdict is REPRODUCED
    assert "a larger area with probability 1.00 (0.90 to 1.00), p = 0.008" in finding.result
    assert found(root, "Figure 5", "inverse").verdict is NOT_RUN
    bonus(root, "RND", "hopper_hop")
    bonus(root, "ICM", "hopper_hop", cells=unclear)
    finding = found(root, "Figure 6")
    assert (finding.verdict, finding.reason) == (NOT_REPRODUCED, "better in 1 of 2, 7 needed")


@pytest.mark.parametrize(
    ("seeds", "cells", "reason"),
    [
        (3, BELOW_RE3, "3 seeds: no comparison"),
        (1, {"larger_area_than_re3": NOTHING}, "1 seed: no comparison"),
        (4, {"larger_area_than_re3": UNCLEAR}, "no difference shown"),
    ],
)
def test_few_seeds_of_another_bonus_at_the_small_size(root, seeds, cells, reason):
    folder = "dmc_small_bonuses"
    bonus(root, "RE3", "hopper_hop", folder, cells={"larger_area_than_re3": NOTHING})
    bonus(root, "RND", "hopper_hop", folder, seeds, cells)
    finding = found(root, "Figure 6")
    assert (finding.verdict, finding.reason) == (NOT_REPRODUCED, reason)
    # Each row with the seeds that it has.
    words = "--preset small --tasks hopper_hop --bonuses"
    assert finding.command == (
        f'make figure FIG=dmc ARGS="{words} re3 --seeds 5 --steps 500000"; '
        f'make figure FIG=dmc ARGS="{words} rnd --seeds {seeds} --steps 500000"'
    )


def test_the_other_bonuses_have_a_seed_that_re3s_size_was_chosen_on(root):
    for label in ("RE3", "RND"):
        bonus(root, label, "pendulum_swingup", "dmc_small_bonuses")
    of_re3, of_rnd = found(root, "Figure 6").command.split("; ")
    assert "--bonuses re3 --first-seed 2 " in of_re3 and "--first-seed" not in of_rnd


def test_a_game_without_the_contrastive_row_shows_half_of_the_statement(root):
    table = root / "results" / "atari" / "table.csv"
    larger = {"larger_area_than_none": (1.0, 1.0, 1.0, 0.008)}
    write(table, "Rainbow", [1.0] * 5, {"larger_area_than_none": NOTHING}, game="beam_rider")
    write(table, "Rainbow + RE3", [2.0] * 5, larger, game="beam_rider")
    reason = "Rainbow + SE w/ Contrastive not run"
    assert found(root, "Figure 13 (b)")[::3] == (NOT_REPRODUCED, reason)


def test_without_measurements_what_has_not_run_has_no_days(root):
    shutil.rmtree(root / "benchmarks")
    for words in (["Figure 13 (b)"], ["Figure 14", "reacher_hard"], ["Figure 14", "of Dreamer"]):
        finding = found(root, *words)
        assert finding.verdict is NOT_RUN and "no committed time" in finding.result


def test_fine_tuning(root):
    table = root / "results" / "fine_tuning" / "table.csv"
    of_rows = (
        ("RAD + RE3", (0.1, 0, 0.3, 0.03), 0),
        ("RAD + RE3 + PT", NOTHING, 600),
    )
    for label, above, before in of_rows:
        cells = {"larger_area_than_re3_pt": above}
        write(table, label, [1, 2, 3, 4], cells, task="hopper_hop", pretraining_frames=before)
    fine_tuned = found(root, "Figure 9 (b)", "RAD + RE3")
    assert "a larger area with probability 0.90 (0.70 to 1.00)" in fine_tuned.result
    assert fine_tuned.verdict is SMALLER and "--frames 600 " in fine_tuned.command
    assert found(root, "Figure 9 (b)", "other").verdict is NOT_RUN
    assert found(root, "Figure 9 (c)", "RAD + RE3").verdict is NOT_RUN


@pytest.mark.parametrize(
    ("seeds", "high", "verdict"),
    [(5, 0.2, REPRODUCED), (5, 0.6, NOT_REPRODUCED), (2, 0.2, NOT_REPRODUCED)],
)
def test_neighbours_nearer_than_chance(root, seeds, high, verdict):
    folder = root / "results" / "neighbours"
    folder.mkdir()
    columns = "task,representation,k,seeds,share_nearer,share_nearer_low,share_nearer_high"
    lines = [f"hopper_hop,{name},3,{seeds},0.1,0,{high}" for name in ("random encoder", "pixels")]
    (folder / "table.csv").write_text("\n".join([columns, *lines]) + "\n")
    assert found(root, "Figure 1.").verdict is verdict


def test_entropy_and_ensembles(root):
    # Seeds differ much more than rows with the same seed do.
    rows = {
        "RE3": [30, 20, 10],
        "APT (SE w/ Contrastive)": [29, 19, 9.5],
        "random actions": [9] * 3,
    }

    def write(rows, folder="pretraining", task="hopper_hop"):
        folder = root / "results" / folder
        folder.mkdir(exist_ok=True)
        lines = [
            f"{task},{label},{seed},{frame},{frame / 100_000 * entropy}"
            for label, entropies in rows.items()
            for seed, entropy in enumerate(entropies)
            for frame in (100_000, 50_000)
        ]
        columns = "task,label,seed,env_frames,state_entropy\n"
        (folder / "entropy.csv").write_text(columns + "\n".join(lines) + "\n")
        lines = [f"{task},{label},{len(of_row)},100000" for label, of_row in rows.items()]
        columns = "task,label,seeds,env_frames\n"
        (folder / "table.csv").write_text(columns + "\n".join(lines) + "\n")

    write(rows)
    entropy = found(root, "Figure 9 (a)")
    words = "--tasks hopper_hop --rows re3 contrastive random --frames 100000 --seeds 3"
    assert entropy.command == f'make figure FIG=pretraining ARGS="{words}"'
    assert "0.83 (0.12 to 1.55) nats above APT" in entropy.result
    # What it says of both is not shown by one.
    assert entropy.reason == "SE w/ Inverse dynamics on hopper_hop not run"
    rows["SE w/ Inverse dynamics"] = [28, 18, 9]
    write(rows)
    assert found(root, "Figure 9 (a)").verdict is SMALLER
    # A run more of one row has nothing to be compared with.
    write(rows | {"RE3": [30, 20, 10, 500]})
    assert "0.83 (0.12 to 1.55) nats above APT" in found(root, "Figure 9 (a)").result
    write(rows)
    assert found(root, "Figure 8").verdict is NOT_RUN
    (root / "results" / "behaviours").mkdir()
    (root / "results" / "behaviours" / "strips.png").touch()
    # The differences from random actions are 21, 11 and 1 nats: a wide interval.
    assert found(root, "Figure 8").reason == "above 0 in 1 of 2"
    walkers = {label: [*entropies, 8] for label, entropies in rows.items()} | {"RE3": [31] * 4}
    write(walkers, "pretraining_walker_cheetah", "walker_run_sparse")
    # The paper measures Hopper, and shows behaviours of others beside it.
    assert found(root, "Figure 9 (a)").ran == "`small`, hopper_hop, 3 seeds, 100,000 frames"
    assert 'behaviours ARGS="--tasks walker' not in found(root, "Figure 8").command
    (root / "results" / "behaviours_walker_cheetah").mkdir()
    (root / "results" / "behaviours_walker_cheetah" / "strips.png").touch()
    entropy = found(root, "Figure 8")
    all_rows = "--rows re3 contrastive random inverse_dynamics"
    ran = f"--tasks walker_run_sparse {all_rows} --frames 100000 --seeds"
    assert f'3"; make figure FIG=behaviours ARGS="{ran} 3"; ' in entropy.command
    assert entropy.command.endswith(f'3"; make figure FIG=pretraining ARGS="{ran} 4"')
    assert entropy.ran.endswith("; `small`, walker_run_sparse, 4 seeds, 100,000 frames")
    assert "hopper_hop: 0.83" in entropy.result
    # The differences are 2, 12, 21.5 and 23 nats.
    assert "walker_run_sparse: 14.62 (-" in entropy.result
    write({"RE3": [31] * 4}, "pretraining_walker_cheetah", "walker_run_sparse")
    write(rows | {"APT (SE w/ Contrastive)": [9] * 3, "RE3": [31, 30, 32]})
    missing = "APT (SE w/ Contrastive) on walker_run_sparse"
    assert found(root, "Figure 8").reason.startswith(f"{missing} and ")

    folder = root / "results" / "robustness"
    folder.mkdir()
    parts = "recall", "recall_minus_1_encoder", "recall_minus_raw_pixels"
    scores = [f"{part}{end}" for part in parts for end in ("", "_low", "_high")]
    lines = ["task,condition,representation,k,seeds," + ",".join(scores)]
    shown = "noise 10", "noise 25", "tinted", "recoloured"
    for condition in (*shown, "tinted: colour", "recoloured: colour"):
        for name, *values in (
            ("5 encoders", 0.5, 0.1, -0.2),
            ("1 encoder", 0.4, 0, -0.3),
            ("raw pixels", 0.7, 0.3, 0),
        ):
            ends = [x + d for x in values for d in (0, -0.05, 0.05)]
            lines.append(",".join(map(str, ("all tasks", condition, name, 3, 5, *ends))))
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    assert found(root, "Figure 10 (a)").verdict is REPRODUCED
    assert found(root, "Figure 10 (b)", "positions").verdict is NOT_REPRODUCED
    colours = found(root, "Figure 10 (b)", "similar colours")
    assert colours.verdict is REPRODUCED
    assert "tinted: 0.70 (0.65 to 0.75) against 0.50 (0.45 to 0.55)" in colours.result
    assert "difference 0.20 (0.15 to 0.25)" in colours.result


def test_seeds_that_chose_nothing_count_where_both_rows_have_them(root):
    def run(folder, name, finals, first):
        path = root / "results" / "minigrid" / folder / f"recommended-doorkey_6x6-{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{first + i},{x},{x * y}" for i, y in enumerate(finals) for x in (0, 400_000)]
        path.write_text("seed,env_frames,return_mean\n" + "\n".join(lines) + "\n")

    for name, final in (("re3_pt", 2.0), ("re3", 1.0), ("none", 0.0)):
        run("", name, [final] * 10, 1)
    for path in (root / "results" / "minigrid").glob("*.csv"):
        shutil.copy(path, path.with_name(path.name.replace("6x6", "8x8")))
    finding = found(root, "Pre-training further")
    assert (finding.verdict, "seeds 1 to 10" in finding.ran) == (REPRODUCED, True)
    for name, final in (("re3_pt", 0.5), ("re3", 1.0)):
        run("seeds_11_to_40", name, [final] * 30, 11)
    finding = found(root, "Pre-training further")
    assert finding.reason == "better in 1 of 2, 1 worse"
    assert "seeds 11 to 40 (they chose nothing) and seeds 1 to 10" in finding.ran
    # A2C has no such seeds.
    assert "11 to 40" not in found(root, "Figure 11", "significantly improves on A2C").ran
    # It rises over 300,000 of 400,000 frames to three quarters of 200,000.
    assert "DoorKey-6x6: 56250.000 against" in finding.result
    table = root / "results" / "minigrid" / "seeds_11_to_40" / "recommended.csv"
    before = {"task": "doorkey_6x6", "pretraining_frames": 200_000}
    write(table, "A2C + RE3 + PT", [0.5] * 30, **before)
    # Then over 200,000 to a half.
    assert "DoorKey-6x6: 25000.000 against" in found(root, "Pre-training further").result


def test_numbers_of_doorkey_8x8_are_those_of_fresh_seeds_where_there_are_any(root):
    folder, fresh = root / "results" / "minigrid", "doorkey_8x8_seeds_11_to_40"
    write(folder / "recommended.csv", "A2C", [0.5, 0.6] * 5, task="doorkey_8x8")
    tried = found(root, "A2C fails there")
    assert (tried.verdict, tried.ran.endswith("seeds 1 to 10")) == (NOT_REPRODUCED, True)
    write(folder / fresh / "recommended.csv", "A2C", [0.0, 0.1] * 15, task="doorkey_8x8")
    tried = found(root, "A2C fails there")
    assert tried.verdict is REPRODUCED
    assert "30 seeds" in tried.ran and tried.ran.endswith("(they chose nothing)")


@pytest.mark.parametrize(("last", "words"), [(0.05, "falls"), (0.2, "does not fall")])
def test_the_distance_is_the_reward_without_its_weight_and_its_scale(root, last, words):
    table = root / "results/dmc_paper_size/pendulum_swingup-rad-re3-released-train.csv"
    table.parent.mkdir(parents=True)
    table.write_text(
        "env_frames,intrinsic_reward_mean,beta,running_std\n"
        f"500,nan,nan,nan\n1000,0.1,0.5,0.4\n2000,{last},0.25,0.1\n"
    )
    finding = found(root, "The intrinsic reward falls to 0")
    assert finding.verdict is NOT_REPRODUCED
    assert "0.08 (0.20 times its running standard deviation) at frame 1,000" in finding.result
    assert f"{last / 0.25 * 0.1:.2g} ({last / 0.25:.2f} times) at frame 2,000" in finding.result
    assert f"the distance {words}; divided" in finding.reason
