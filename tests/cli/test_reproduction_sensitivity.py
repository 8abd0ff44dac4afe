"""What the page of reproduction says of ablations, from made-up tables."""

from experiments.figures import dmc_ablations
from experiments.reproduction.entry import Verdict
from tests.cli.test_reproduction_entries import NOTHING, found, write


def test_ablations_on_minigrid(tmp_path):
    table = tmp_path / "results" / "minigrid_ablations" / "table.csv"
    for group, label, better in (
        ("", "recommended", NOTHING),
        ("neighbours", "k = 1", (0.5, 0.4, 0.6, 0.9)),
        ("neighbours", "k = 9", (0.45, 0.3, 0.6, 0.3)),
        ("initialisation", "He", (0.2, 0.1, 0.3, 0.001)),
        ("alone", "the 4th", (0.3, 0.2, 0.45, 0.02)),
    ):
        write(table, label, [0.5] * 30, {"larger_area_than_recommended": better}, group=group)
    assert found(tmp_path, "Figure 10 (c)", "Hopper Hop").verdict is Verdict.SMALLER
    assert found(tmp_path, "Figure 10 (c)", "pixels").verdict is Verdict.NOT_RUN
    assert found(tmp_path, "Figure 10 (d)", "Hopper Hop").reason == "1 of 1 differ"
    assert found(tmp_path, "k-th alone").verdict is Verdict.SMALLER
    for words in ("Decaying beta_t stabilises the performance.", "pixels (here: on Pendulum"):
        assert found(tmp_path, "Decaying", words).verdict is Verdict.NOT_RUN


def test_ablations_from_pixels(tmp_path):
    """The decay is part of this size, so that the row without it must be worse."""
    table = tmp_path / "results" / "dmc_ablations" / "table.csv"
    rows = {
        "neighbours": ("k = 1", (0.5, 0.4, 0.6, 0.9)),
        "logarithm": ("with", (0.1, 0.0, 0.2, 0.03)),
        "decay": ("none", (0.1, 0.0, 0.2, 0.03)),
    }
    write(table, "small", [500] * 4, {"larger_area_than_small": NOTHING}, group="")
    for group, (label, better) in rows.items():
        write(table, label, [400] * 4, {"larger_area_than_small": better}, group=group)
    assert found(tmp_path, "Figure 10 (c)", "pixels").verdict is Verdict.SMALLER
    assert found(tmp_path, "logarithm", "pixels").verdict is Verdict.NOT_REPRODUCED
    decay = found(tmp_path, "Decaying", "pixels")
    assert decay.verdict is Verdict.SMALLER
    assert decay.command == (
        'make figure FIG=dmc_ablations ARGS="--groups neighbours logarithm decay"'
    )
    for group in dmc_ablations.GROUPS:
        write(table, f"more of {group}", [400] * 4, {"larger_area_than_small": better}, group=group)
    assert found(tmp_path, "Decaying", "pixels").command == "make figure FIG=dmc_ablations"
