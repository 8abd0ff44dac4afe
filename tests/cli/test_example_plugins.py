"""The examples of plugins run and resume, exactly where their environments can be put back."""

import json

import pytest

from tests.cli.plugin_runs import ROOT, command

EXAMPLES = {
    # file: options of a run with it, and what config.json then says
    "bonus": (
        ("--env", "doorkey_6x6", "--bonus", "episodic_count", "--episodic-count.beta", "0.02"),
        {"bonus": "episodic_count", "episodic_count": {"beta": 0.02, "buckets": 1024}},
    ),
    "agent": (
        ("--env", "gymnax:CartPole-v1", "--agent", "reinforce", "--reinforce.num-envs", "4"),
        {"agent": "reinforce"},
    ),
    "off_policy_agent": (
        (
            *("--env", "gymnax:Pendulum-v1", "--agent", "td3", "--td3.batch-size", "16"),
            *("--td3.replay-capacity", "1000", "--td3.initial-agent-steps", "100"),
        ),
        {"agent": "td3"},
    ),
    "suite": (("--env", "corridor:10"), {"env": "corridor:10"}),
}

ON_THE_HOST = (
    ("gymnasium:CartPole-v1", "a2c", ()),
    pytest.param(
        *("gymnasium:Pendulum-v1", "rad", ("--gymnasium.processes",)), marks=pytest.mark.slow
    ),
)


def rows(folder, name):
    """Rows of a CSV without wall seconds."""
    lines = [line.split(",") for line in (folder / name).read_text().splitlines()]
    timed = [place for place, title in enumerate(lines[0]) if "seconds" in title or "/s" in title]
    return [[v for place, v in enumerate(line) if place not in timed] for line in lines]


def test_a_plugins_task_is_trained(tmp_path):
    options, stored = EXAMPLES["suite"]
    words = ("--preset", "debug", "--steps", "256", "--plugin", "examples/plugin_suite.py")
    done = command(*options, *words, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "config.json").read_text())["config"]
    assert {name: config[name] for name in stored} == stored
    assert json.loads((tmp_path / "summary.json").read_text())["complete"]


@pytest.mark.parametrize(("task", "agent", "more"), ON_THE_HOST)
def test_lanes_of_a_plugin_are_trained_and_resumed(task, agent, more, tmp_path):
    file = "examples/plugin_gymnasium.py"
    assert len((ROOT / file).read_text().splitlines()) <= 100
    words = ("--env", task, "--agent", agent, *more, "--preset", "debug", "--plugin", file)
    done = command(*words, "--seeds", "1", "--steps", "600", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    done = command("--resume", "--steps", "1800", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "new episodes begin" in done.stdout + done.stderr
    assert "Warning" not in done.stderr
    config = json.loads((tmp_path / "config.json").read_text())["config"]
    assert config["gymnasium"] == {"processes": bool(more)}
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["complete"] and summary["env_frames"] >= 1800


def test_a_task_whose_episodes_are_longer_than_it_says_ends_the_run_in_one_sentence(tmp_path):
    file = tmp_path / "mine.py"
    text = (ROOT / "examples/plugin_suite.py").read_text()
    file.write_text(text.replace("steps == limit", "steps == 2 * limit"))
    options = ("--env", "corridor:10", "--preset", "debug", "--seeds", "1")
    done = command(*options, "--plugin", str(file), "--out", str(tmp_path / "run"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    said = (
        "error: an episode of corridor:10 goes on for more than its max_agent_steps of 40: end it"
    )
    assert done.stderr.startswith(said)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_example_runs_and_resumes_exactly(kind, tmp_path):
    options, stored = EXAMPLES[kind]
    file = f"examples/plugin_{kind}.py"
    most = 170 if kind == "off_policy_agent" else 85
    assert len((ROOT / file).read_text().splitlines()) <= most
    interval = ("--chunk-updates", "8", "--evaluation.every-env-frames", "1024")
    common = [*options, "--preset", "debug", *interval, "--plugin", file]
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    for folder, steps in ((whole, "2048"), (halves, "1024")):
        done = command(*common, "--steps", steps, "--out", str(folder))
        assert done.returncode == 0, done.stderr
    # config.json names the plugin, so the command need not.
    done = command("--resume", "--steps", "2048", "--out", str(halves))
    assert done.returncode == 0, done.stderr
    for name in ("train.csv", "eval.csv"):
        assert rows(whole, name) == rows(halves, name)
    config = json.loads((halves / "config.json").read_text())["config"]
    assert config["plugin"] == str(ROOT / file)
    assert {name: config[name] for name in stored} == stored
    assert json.loads((halves / "summary.json").read_text())["complete"]
