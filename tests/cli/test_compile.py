"""`python -m experiments.compile`: what is asked for, and how it is refused."""

import json
import re

import pytest

from re3_jax.accelerators.targets import TARGETS
from re3_jax.commands import compile as command
from re3_jax.runs import build, installing
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.errors import UsageError
from re3_jax.runs.options import parse


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no target was given: choose from h100, a100, v5e, v6e"),
        (["--target", "h200"], "--target h200 is not known: did you mean h100? Known: h100"),
        (["--target", "v5e", "--env", "nowhere"], "nowhere"),
        (["--target", "v5e", "--env", "doorkey_6x6", "--devices", "4"], "--seeds 5 cannot be"),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, monkeypatch, capsys):
    monkeypatch.setattr(command, "_check_compiler", lambda target: None)
    monkeypatch.setattr(command.targets, "devices", lambda target: [])
    assert command.main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and sentence in said


def test_a_missing_compiler_is_refused_with_the_remedy(monkeypatch, capsys):
    monkeypatch.setattr(command.targets, "missing_compiler", lambda target: "libtpu")
    assert command.main(["--target", "v6e"]) == 2
    said = capsys.readouterr().err
    assert "libtpu is not installed: use make compile TARGET=v6e" in said


def test_each_target_has_a_lock_and_make_knows_it():
    text = (installing.ROOT / "Makefile").read_text()
    (listed,) = re.findall(r"^COMPILERS := (.*)$", text, re.MULTILINE)
    assert dict(pair.split("=") for pair in listed.split()) == {
        target.name: target.platform for target in TARGETS.values()
    }
    for platform, packages in command.PACKAGES.items():
        lock = (installing.ROOT / f"requirements-compile-{platform}.txt").read_text()
        assert all(f"\n{package}==" in lock for package in packages)


def test_without_a_task_every_agent_is_compiled():
    asked = list(command._asked(["--bonus", "none"], None))
    named = {words[words.index("--agent") + 1] for words, _ in asked}
    assert named == set(AGENTS)
    assert {devices for _, devices in asked} == {1, 4}
    assert all(words[2 + words.index("--bonus")] == "--preset" for words, _ in asked)


@pytest.mark.parametrize("words", [["--agent", "ppo"], ["--seeds=2"], ["--seeds", "2"]])
def test_all_agents_have_seeds_and_devices_of_their_own(words):
    with pytest.raises(UsageError, match="leave --agent, --seeds and --devices out, or add --env"):
        list(command._asked(words, None))
    with pytest.raises(UsageError, match="every agent is compiled"):
        list(command._asked([], 4))


def test_a_run_with_other_options_is_another_run():
    def named(*more):
        words = ["--env", "doorkey_6x6", "--preset", "debug", "--seeds", "1", *more]
        return command._named(build.prepared(parse(words))[0], 1)

    plain, wide = named(), named("--a2c.num-envs", "64")
    assert "options" not in plain and wide["options"]["a2c.num_envs"] == 64
    assert named("--steps", "99999", "--seed", "7", "--no-video") == plain
    measured = {"programs": {}, "fits": True, "code": "of then"}
    runs = [plain | measured, wide | measured]
    assert [command._place(runs, run) for run in (plain, wide)] == [0, 1]
    assert command._place(runs[:1], wide) == command._place(runs[1:], plain) == 1
    assert command._place(runs, plain | {"devices": 4}) == 2


def test_runs_of_other_code_are_compiled_again_in_their_place(tmp_path, monkeypatch, capsys):
    out, done = tmp_path / "x.json", []

    def compiled(config, spec, target, devices):
        done.append(config.seeds)
        return command._named(config, devices) | {"programs": {}}

    monkeypatch.setattr(command, "_check_compiler", lambda target: None)
    monkeypatch.setattr(command, "compile_run", compiled)
    monkeypatch.setattr(command.targets, "devices", lambda target: [])
    words = ["--target", "v5e", "--out", str(out), "--env", "doorkey_6x6", "--preset", "debug"]
    for code in ("one", "one", "two"):
        monkeypatch.setattr(command, "_code", lambda code=code: code)
        for seeds in ("1", "2"):
            assert command.main([*words, "--seeds", seeds]) == 0
    assert done == [1, 2, 1, 2] and capsys.readouterr().out.count("already") == 2
    runs = json.loads(out.read_text())["runs"]
    assert [(run["seeds"], run["code"]) for run in runs] == [(1, "two"), (2, "two")]


def test_no_renderer_is_looked_for(monkeypatch):
    """That of the paper needs a driver, which the machine that compiles may lack."""
    monkeypatch.setattr(build.host, "drawn_by", lambda *_: pytest.fail("looked for a renderer"))
    monkeypatch.setattr(command, "_check_compiler", lambda target: None)
    monkeypatch.setattr(command.targets, "devices", lambda target: [])
    monkeypatch.setattr(command, "compile_run", lambda config, *_: pytest.fail(config.dmc.renderer))
    words = ["--target", "v5e", "--env", "cheetah_run_sparse", "--preset", "paper", "--seeds", "1"]
    with pytest.raises(pytest.fail.Exception, match="gl"):
        command.main(words)


def test_the_given_options_may_mend_what_the_preset_alone_lacks():
    """Rainbow's returns of several steps leave no room for ICM."""
    words = ["--env", "gymnax:Breakout-MinAtar", "--agent", "rainbow", "--bonus", "icm"]
    config = parse([*words, "--rainbow.n-steps", "1"])
    assert command._named(config, 1)["options"]["rainbow.n_steps"] == 1


def test_the_table_says_what_fits():
    program = {
        "argument_bytes": 3e9, "temporary_bytes": 2e6, "largest_copy_bytes": 0, "operations": 5e9,
        "bytes_accessed": 1e9, "instructions": 12.0, "collectives": 0.0, "least_seconds": 0.002,
    }  # fmt: skip
    run = {
        "env": "e", "agent": "a", "bonus": "b", "preset": "p", "seeds": 4, "devices": 1,
        "programs": {"update 1": program, "store": {"refused": "too large"}},
    }  # fmt: skip
    _, columns, update, store = command.table(run, TARGETS["v5e"]).splitlines()
    cells = ["update 1", "3.00 GB", "2.00 MB", "0.00 MB", "5.0", "1.00 GB", "12", "0", "2.000"]
    assert re.split(r" {2,}", update) == cells and len(columns) == len(update)
    assert store == "store      refused: too large"
    run |= {"needed_bytes": 3e9, "fits": True, "most_env_frames_per_second": 1234}
    assert "3.00 GB fits in 17.18 GB; at most 1,234" in command.table(run, TARGETS["v5e"])


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch, capsys):
    """Before anything is compiled, and where the folder is gone afterwards."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(command, "_check_compiler", lambda target: None)
    monkeypatch.setattr(command, "_asked", lambda *_: pytest.fail("began to compile"))
    out = str(tmp_path / "file" / "x.json")
    assert command.main(["--target", "v5e", "--out", out]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    with pytest.raises(UsageError, match="No such file"):
        command._write(tmp_path / "gone" / "x.json", TARGETS["v5e"], [])


@pytest.mark.parametrize("runs", [{}, {"runs": None}, {"runs": [1]}])
def test_a_file_without_runs_is_refused(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "_heading", lambda target: {"target": "v5e"})
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"target": "v5e"} | runs))
    with pytest.raises(UsageError, match="holds no list of runs: name another file"):
        command._kept(path, TARGETS["v5e"])
