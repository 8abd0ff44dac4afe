"""`make report`: one HTML file of runs, which are written by hand."""

import base64
import csv
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from re3_jax.commands import compare, report
from re3_jax.runs import history, training_curves
from re3_jax.runs.curves import Curve
from tests.cli.written_runs import write_run

VOID = {"meta", "img"}
RNG = np.random.default_rng(0)


class Page(HTMLParser):
    """The elements of a page; every one that is opened must be closed, in order."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tables, self.elements, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data

    def attributes(self, tag: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.elements if name == tag]


def write_training(folder, seeds=2, chunks=40, **columns):
    """train.csv with these columns, values [seed, chunk]; frames end at 400."""
    names = ["seed", "env_frames", "wall_seconds", *columns]
    lines = [",".join(names)]
    for chunk in range(chunks):
        for seed in range(seeds):
            values = [columns[name][seed][chunk] for name in columns]
            lines.append(",".join(map(str, [seed + 1, 10 * (chunk + 1), 1.0, *values])))
    (folder / "train.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def folders(tmp_path):
    return [
        write_run(tmp_path / "none", "none", RNG.normal(0.3, 0.2, size=5)),
        write_run(tmp_path / "re3", finals=RNG.normal(0.6, 0.2, size=4)),
    ]


def made(folders, out) -> Page:
    assert report.main([*map(str, folders), "--out", str(out)]) == 0
    return Page(out.read_text())


def test_the_tables_are_those_of_compare(folders, tmp_path, capsys):
    page = made(folders, tmp_path / "report.html")
    capsys.readouterr()
    assert compare.main([*map(str, folders), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out.splitlines()[:3]
    assert page.tables[0] == [re.split(r"\s{2,}", line) for line in printed]
    with (tmp_path / "out/table.csv").open() as lines:
        assert page.tables[1] == list(csv.reader(lines))
    different = dict(row[:1] + [row[1:]] for row in page.tables[2][1:])
    assert different == {"--bonus": ["none", "re3"]}


def test_nothing_is_loaded_and_every_picture_is_in_the_page(folders, tmp_path):
    write_training(folders[0], 5, loss=np.ones((5, 40)))
    out = tmp_path / "report.html"
    page = made(folders, out)
    assert not re.search(r"https?:|//|url\(|@import", re.sub(r"base64,[^\"]*", "", out.read_text()))
    assert {tag for tag, _ in page.elements}.isdisjoint({"script", "link", "iframe", "object"})
    pictures = page.attributes("img")
    assert len(pictures) == 3
    for attrs in pictures:
        kind, _, content = attrs["src"].partition(",")
        assert kind == "data:image/png;base64" and attrs["alt"]
        assert base64.b64decode(content, validate=True).startswith(b"\x89PNG")


def test_names_are_text_wherever_they_stand(tmp_path):
    hostile = tmp_path / "<script>alert(1)</script>&\"' $\\frac{"
    folder = write_run(
        hostile, finals=[0.1, 0.2], init="<img src=x onerror=y> $\\frac{1", env="<b>task</b>"
    )
    # A name of a file may be any bytes.
    (hostile / "a\udcff.mp4").write_bytes(b"film")
    page = made([folder], tmp_path / "report.html")
    assert {tag for tag, _ in page.elements}.isdisjoint({"script", "b"})
    assert all("onerror" not in attrs for _, attrs in page.elements)
    assert folder.name in "".join(page.text) and "<b>task</b>" in "".join(page.text)


def test_a_single_run_is_no_comparison(folders, tmp_path):
    page = made(folders[:1], tmp_path / "report.html")
    assert page.tables[0][1][-1] == "-" and len(page.attributes("img")) == 1
    assert "Differences of configuration" not in page.text


def test_diagnostics_of_the_bonus_are_apart_from_the_rest(folders, tmp_path):
    values = RNG.normal(size=(4, 40))
    bonus = {f"intrinsic_reward_{end}": values for end in ("mean", "p05", "p50", "p95")}
    write_training(folders[1], 4, **bonus)
    assert "The bonus during training" in (page := made(folders, tmp_path / "a.html")).text
    assert "Training" not in page.text
    write_training(folders[1], 4, loss=values)
    assert "The bonus during training" not in (page := made(folders, tmp_path / "b.html")).text
    assert "Training" in page.text


def test_the_newest_video_is_in_the_page_unless_it_is_large(folders, tmp_path, monkeypatch):
    (folders[0] / "eval.mp4").write_bytes(film := bytes(range(256)) * 3)
    # A newer one that ffmpeg is still writing.
    (folders[0] / ".eval.mp4.part").write_bytes(b"half")
    page = made(folders, tmp_path / "report.html")
    (attrs,) = page.attributes("video")
    assert base64.b64decode(attrs["src"].removeprefix("data:video/mp4;base64,")) == film
    monkeypatch.setattr(report, "LARGEST_VIDEO", 100)
    page = made(folders, tmp_path / "report.html")
    assert page.attributes("video") == []
    assert any("too much for this page" in text for text in page.text)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda run: (run / "config.json").unlink(), "holds no run: give folders with a config"),
        (lambda run: (run / "eval.csv").unlink(), "has no eval.csv: give the folder of a run"),
        (
            lambda run: (run / "train.csv").write_text("seed,env_frames\n1,x\n1,2\n1,2\n1,2\n"),
            "train.csv has a damaged line",
        ),
    ],
)
def test_runs_without_their_files_are_refused(folders, tmp_path, capsys, change, sentence):
    change(folders[1])
    assert report.main([*map(str, folders), "--out", str(tmp_path / "report.html")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and sentence in said
    assert not (tmp_path / "report.html").exists()


def test_a_value_of_another_type_in_a_summary_is_shown_as_a_dash(folders, tmp_path):
    wrong = {"env_frames": "many", "frames_per_second": [1], "wall_seconds": None, "complete": "x"}
    (folders[0] / "summary.json").write_text(json.dumps(wrong))
    config = json.loads((folders[0] / "config.json").read_text())
    (folders[0] / "config.json").write_text(json.dumps({**config, "device": "gpu", "git": [1]}))
    runs = next(t for t in made(folders, tmp_path / "report.html").tables if "folder" in t[0])
    (line,) = (line for line in runs if line[0] == str(folders[0]))
    assert line[3:] == ["-", "no", "-", "-", "-", "-"]


def test_only_an_earlier_report_is_overwritten(folders, tmp_path, capsys):
    out = tmp_path / "report.html"
    made(folders, out)
    # As RUNS="runs/*" names it.
    made([*folders, out], out)
    out.write_text("my notes")
    assert report.main([*map(str, folders), "--out", str(out)]) == 2
    assert report.main([*map(str, folders), "--out", str(tmp_path)]) == 2
    assert report.main(["--out", str(out)]) == 2
    said = capsys.readouterr().err.splitlines()
    for words, line in zip(
        ["not a report", "is a folder", "give a run or more"], said, strict=True
    ):
        assert words in line
    assert out.read_text() == "my notes"


@pytest.mark.parametrize(
    ("name", "is_of_bonus"),
    [
        ("beta", True),
        ("re3_beta", True),
        ("inverse_dynamics_nearest_distance_p50", True),
        ("running_mean", True),
        ("mine_novelty", True),
        ("mine_loss", False),
        ("re3_loss", False),
        ("actor_loss", False),
    ],
)
def test_the_parts_of_a_sum_are_diagnosed_as_a_bonus_is(name, is_of_bonus):
    column = {name: Curve("a", np.array([1, 2]), np.ones((2, 2)))}
    for asked in (True, False):
        figure = training_curves.draw([("a", column)], asked, ["re3", "inverse_dynamics", "mine"])
        assert (figure is not None) == (asked == is_of_bonus)


def test_rnds_part_of_noveld_is_diagnosed_as_the_bonus_is(monkeypatch, tmp_path):
    run = write_run(tmp_path / "a", bonus="noveld")
    asked = []
    monkeypatch.setattr(training_curves, "of_row", lambda label, folders: {})
    monkeypatch.setattr(training_curves, "draw", lambda rows, of, names: asked.append(names))
    assert report.main([str(run), "--out", str(tmp_path / "report.html")]) == 0
    assert asked and all({"noveld", "rnd"} <= names for names in asked)


def test_a_row_without_one_of_three_quantiles_is_drawn_all_the_same():
    def column(label, value):
        return Curve(label, np.array([1, 2]), np.full((2, 2), value))

    names = ("beta_p05", "beta_p50", "beta_p95")
    rows = [
        ("a", {name: column("a", 1.0) for name in names}),
        ("b", {name: column("b", np.inf if name == "beta_p95" else 1.0) for name in names}),
    ]
    figure = training_curves.draw(rows, True, ["re3"])
    assert [axes.get_title() for axes in figure.axes] == [*names]


def test_columns_are_means_over_equal_parts_of_a_run(tmp_path):
    folder = write_run(tmp_path / "run", finals=[0.1, 0.2])
    values = RNG.normal(size=(2, 600))
    values[0, 4:8] = np.nan
    write_training(folder, 2, 600, loss=values)
    columns = training_curves.of_row("label", [folder])
    expected = values.reshape(2, training_curves.PARTS, 4).mean(axis=2)
    np.testing.assert_allclose(columns["loss"].returns, expected, rtol=1e-6)
    assert columns["loss"].env_frames[-1] == 6000


def test_a_row_that_is_being_written_is_left_out():
    table = b"seed,env_frames,x\n1,10,1\n2,10,2\n1,20,3\n2,2"
    assert history.whole_rows(table, 2) == table[: table.index(b"1,20")]
    assert history.whole_rows(b"seed,env", 2) == b""
    assert history.whole_rows(b"", 2) == b""
