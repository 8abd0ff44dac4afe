"""The Atari figure, from made-up runs."""

import csv
import json

import pytest

from experiments.figures import atari


def write_run(folder, bonus, screens, env="atari:montezuma_revenge", first=1, agent="rainbow"):
    """Two seeds, evaluated at 0 and 100 frames, with a row of training at every ten."""
    folder.mkdir()
    config = {"env": env, "agent": agent, "bonus": bonus, "preset": "data_efficient"}
    config |= {"pretrain": None, "init": None}
    (folder / "config.json").write_text(json.dumps({"config": config}))
    with (folder / "eval.csv").open("w") as out:
        out.write("seed,env_frames,return_mean\n")
        for seed, final in ((first, 400.0), (first + 1, 0.0)):
            out.write(f"{seed},0,0.0\n{seed},100,{final}\n")
    with (folder / "train.csv").open("w") as out:
        out.write("seed,env_frames,loss,screens_seen\n")
        for row, seen in enumerate(screens, 1):
            out.writelines(f"{first - 1 + n},{10 * row},nan,{seen + n}\n" for n in (1, 2))


def test_screens_are_compared_at_the_last_frame_that_all_runs_reached(tmp_path, capsys):
    folders = tmp_path / "mr-none", tmp_path / "mr-re3"
    write_run(folders[0], "none", [5, 8, 9])
    write_run(folders[1], "re3", [6, 11, 15, 40], env="montezuma_revenge")
    out = tmp_path / "out"
    assert atari.main([*map(str, folders), "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out / "curves.png")
    with (out / "table.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["label"] for row in rows] == ["Rainbow", "Rainbow + RE3"]
    assert [float(row["screens_seen"]) for row in rows] == [10.5, 16.5]
    assert {row["screens_at_env_frames"] for row in rows} == {"30"}
    # 200 / 4753.3, Wang et al.'s scores.
    assert [float(row["human_normalised"]) for row in rows] == pytest.approx([0.0421] * 2)
    text = (out / "mr-re3-screens.csv").read_text().split()
    assert text == ["env_frames,screens_seen", "10,7.5", "20,12.5", "30,16.5", "40,41.5"]
    assert (out / "mr-re3.csv").read_bytes() == (folders[1] / "eval.csv").read_bytes()
    assert (out / "curves.png").stat().st_size > 10_000


def test_screens_of_later_frames_are_not_counted(tmp_path):
    """A run with longer chunks has no row at the last frame of the other: its screens are between.

    Those of its next row would be of frames that the other run never had.
    """
    folders = tmp_path / "none", tmp_path / "re3"
    write_run(folders[0], "none", [5, 8, 9])
    write_run(folders[1], "re3", [6, 11, 15, 40])
    table = folders[1] / "train.csv"
    kept = [line for line in table.read_text().splitlines() if ",30," not in line]
    table.write_text("\n".join([*kept, ""]))
    assert atari.main([*map(str, folders), "--out", str(tmp_path / "out")]) == 0
    with (tmp_path / "out" / "table.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    # (12.5 + 41.5) / 2, of 20 and 40 frames.
    assert [float(row["screens_seen"]) for row in rows] == [10.5, 27.0]


def test_runs_that_differ_in_their_seeds_are_one_row(tmp_path):
    folders = [tmp_path / name for name in ("none-1", "none-3", "re3-1", "re3-3")]
    for folder in folders:
        bonus, first = folder.name.split("-")
        write_run(folder, bonus, [5, 8 + int(first)], first=int(first))
    out = tmp_path / "out"
    assert atari.main([*map(str, folders), "--out", str(out)]) == 0
    with (out / "table.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [(row["label"], row["seeds"]) for row in rows] == [
        ("Rainbow", "4"),
        ("Rainbow + RE3", "4"),
    ]
    assert [float(row["final_return_mean"]) for row in rows] == [200.0, 200.0]
    # 9 and 11 screens, and one and two more for the seeds of a run.
    assert [float(row["screens_seen"]) for row in rows] == [11.5, 11.5]
    assert [row["better_than_none"] for row in rows] == ["", "0.5"]


def test_another_agent_is_another_row(tmp_path):
    folders = [tmp_path / name for name in ("rainbow-none", "ppo-none", "ppo-re3")]
    for folder in folders:
        agent, bonus = folder.name.split("-")
        write_run(folder, bonus, [5], agent=agent)
    out = tmp_path / "out"
    assert atari.main([*map(str, folders), "--out", str(out)]) == 0
    with (out / "table.csv").open() as lines:
        rows = [(row["label"], row["better_than_none"]) for row in csv.DictReader(lines)]
    assert rows == [("Rainbow", ""), ("PPO", ""), ("PPO + RE3", "0.5")]


def test_other_runs_are_refused(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "pixels", "re3", [1], env="dmc:hopper_hop")
    write_run(tmp_path / "young", "re3", [])
    write_run(tmp_path / "cut", "re3", [1])
    (tmp_path / "cut" / "train.csv").unlink()
    for name, sentence in (
        ("empty", "holds no run"),
        ("pixels", "give runs of Atari games"),
        ("young", "let them train first"),
        ("cut", "has no train.csv"),
    ):
        assert atari.main([str(tmp_path / name), "--out", str(tmp_path / "out")]) == 2
        assert sentence in capsys.readouterr().err
    write_run(tmp_path / "whole", "re3", [1])
    same = str(tmp_path / "whole")
    assert atari.main([same, same, "--out", str(tmp_path / "out")]) == 2
    assert "both hold seed 1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
