"""The steps of `make gpu`: in order, in their time, each result kept once there is one."""

import json
import re
import time

import pytest

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import session
from benchmarks.gpu.steps import TRAINING, Step, steps
from re3_jax.runs import installing
from re3_jax.runs.errors import UsageError

HARDWARE = {
    "cpu": "a CPU", "cores": 2, "avx512": True, "platform": "cpu", "devices": {"cpu": 1},
    "runtime": "cpu", "jax": "1", "jaxlib": "1",
}  # fmt: skip

PROBE = """
import json, os, pathlib, signal, sys, time
what, folder = sys.argv[1], pathlib.Path(sys.argv[2])
with (folder / "called").open("a") as calls:
    calls.write(what + "\\n")
if what == "asks":
    what = os.environ["PROBE"]
if what == "fails" and not (folder / "mended").exists():
    sys.exit("no such device")
if what == "hangs":
    time.sleep(60)
if what == "goes_on" and (folder / "called").read_text().count(what) == 1:
    signal.signal(signal.SIGTERM, lambda *_: (print(json.dumps({"complete": False})), sys.exit()))
    time.sleep(60)
if what == "compiles":
    print(json.dumps({"kept": os.environ["JAX_COMPILATION_CACHE_DIR"]}))
    sys.exit()
print("two\\nlines" if what == "talks" else json.dumps({"value": 7}))
"""


@pytest.fixture
def probe(tmp_path, monkeypatch):
    (tmp_path / "probe_step.py").write_text(PROBE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(what, seconds=30.0, **more):
        return Step(what, ("probe_step", what, str(tmp_path)), seconds, str, **more)

    return make


def run(made, folder, seconds=60.0, **more):
    said = []
    session.run(made, folder, seconds, HARDWARE, said.append, **more)
    return said


def called(folder):
    return (folder / "called").read_text().split()


def table(folder):
    return re.findall(r"^\| (\w+) \| ([\w ]+) \|", (folder / "summary.md").read_text(), re.M)[1:]


def test_every_result_is_kept_and_no_step_repeated(probe, tmp_path):
    made = [probe("first"), probe("talks"), probe("last")]
    run(made, tmp_path, only=["first", "talks"])
    assert table(tmp_path) == [("first", "done"), ("talks", "done"), ("last", "not run")]
    run(made, tmp_path)
    assert called(tmp_path) == ["first", "talks", "last"]
    first = json.loads((tmp_path / "first.json").read_text())
    assert first["found"] == {"value": 7} and first["hardware"] == HARDWARE
    talks = json.loads((tmp_path / "talks.json").read_text())
    assert talks["found"] == {"lines": ["two", "lines"]}


def test_a_failure_is_recorded_and_tried_again_after_the_rest(probe, tmp_path):
    made = [probe("fails"), probe("first")]
    run(made, tmp_path)
    assert table(tmp_path) == [("fails", "failed"), ("first", "done")]
    assert json.loads((tmp_path / "fails.json").read_text())["reason"].endswith("no such device")
    (tmp_path / "mended").touch()
    run([*made, probe("last")], tmp_path)
    assert called(tmp_path) == ["fails", "first", "last", "fails"]
    assert table(tmp_path)[0] == ("fails", "done")


def test_a_step_gets_its_variables(probe, tmp_path):
    run([probe("asks", environment={"PROBE": "talks"})], tmp_path)
    kept = json.loads((tmp_path / "asks.json").read_text())
    assert kept["found"] == {"lines": ["two", "lines"]}
    assert kept["command"].startswith("PROBE=talks python -m probe_step")


def test_what_a_step_compiles_is_kept(probe, tmp_path, monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    run([probe("compiles")], tmp_path)
    kept = json.loads((tmp_path / "compiles.json").read_text())["found"]["kept"]
    assert kept == str(tmp_path / session.PROGRAMS)


def test_a_step_that_prints_something_else_has_failed(probe, tmp_path):
    made = [probe("first")._replace(shown=lambda found: found["cases"]), probe("last")]
    run(made, tmp_path)
    assert table(tmp_path) == [("first", "failed"), ("last", "done")]
    assert "KeyError" in json.loads((tmp_path / "first.json").read_text())["reason"]


def test_time_is_bounded_and_what_does_not_fit_waits(probe, tmp_path):
    begun = time.monotonic()
    said = run([probe("hangs", 1.0), probe("long", 50.0), probe("short", 25.0)], tmp_path, 30.0)
    assert time.monotonic() - begun < 30.0
    rest = [("long", "not run"), ("short", "done")]
    assert table(tmp_path) == [("hangs", "out of time"), *rest]
    assert any(line.startswith("long") and "next time" in line for line in said)
    # The first step of a call runs with what time there is.
    run([probe("long", 50.0)], tmp_path, 30.0)
    assert called(tmp_path)[-1] == "long"


def test_what_can_go_on_is_asked_to_stop_and_gets_the_rest_of_the_time(
    probe, tmp_path, monkeypatch
):
    monkeypatch.setattr(session, "STOPPING_SECONDS", 10.0)
    run([probe("goes_on", 13.0, goes_on=True), probe("first", 20.0)], tmp_path, 60.0)
    assert called(tmp_path) == ["goes_on", "first", "goes_on"]
    assert table(tmp_path) == [("goes_on", "done"), ("first", "done")]
    assert json.loads((tmp_path / "goes_on.json").read_text())["seconds"] >= 3


@pytest.mark.parametrize(
    ("seconds", "shares"),
    [
        # After 100 s of each: 600 s left for three, of which the first ends early.
        (900.0, {"one": 200.0, "two": 270.0, "three": 270.0}),
        (500.0, {"one": 100.0, "two": 140.0}),
        (390.0, {}),
    ],
)
def test_what_can_go_on_shares_the_rest(tmp_path, monkeypatch, seconds, shares):
    clock, tried = [0.0], []

    def attempt(step, folder, seconds, hardware, say):
        ends = step.name == "one" and any(name == "one" for name, _ in tried)
        tried.append((step.name, seconds))
        clock[0] += 60.0 if ends else seconds
        # Killed, or stopped with a checkpoint.
        outcome, found = session.OUT_OF_TIME, None
        if step.name != "three":
            outcome, found = session.DONE, {"complete": ends}
        kept = session.Result(step.name, "", outcome, None, 1.0, hardware, "", found)
        (folder / f"{step.name}.json").write_text(json.dumps(kept._asdict()))

    monkeypatch.setattr(session, "_try", attempt)
    monkeypatch.setattr(session.time, "monotonic", lambda: clock[0])
    names = "one", "two", "three"
    run([Step(name, (), 100.0, str, goes_on=True) for name in names], tmp_path, seconds)
    assert tried[:3] == [(name, 100.0) for name in names]
    assert dict(tried[3:]) == shares


def test_results_of_another_machine_are_refused(probe, tmp_path):
    run([probe("first")], tmp_path)
    other = HARDWARE | {"devices": {"NVIDIA H100": 1}}
    with pytest.raises(UsageError, match="another devices: name another --out"):
        session.run([probe("first")], tmp_path, 9.0, other, print)


def test_a_result_that_is_none_is_refused(probe, tmp_path):
    (tmp_path / "first.json").write_text('{"step": "first"}')
    with pytest.raises(UsageError, match="cannot be read: remove it"):
        run([probe("first")], tmp_path)


def test_bad_input_is_one_sentence(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "_machine", lambda: {"hardware": HARDWARE, "torch": True})
    for words in (["--minutes", "0"], ["--minutes", "nan"], ["--only", "everything"]):
        assert command.main([*words, "--out", str(tmp_path / "gpu")]) == 2
        assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("with_torch", [True, False])
def test_steps_are_programs_of_the_project_that_fit_the_time(debug, with_torch, tmp_path):
    made = steps(tmp_path, debug, with_torch)
    for step in made:
        path = installing.ROOT / (step.words[0].replace(".", "/") + ".py")
        assert '__name__ == "__main__"' in path.read_text()
    assert len({step.name for step in made}) == len(made)
    assert [step.name for step in made if step.goes_on] == ["small_re3", "small_none", TRAINING]
    if not debug:
        assert sum(step.seconds for step in made) < 60 * command.MINUTES
        assert max(step.seconds for step in made) < 60 * 9


@pytest.mark.slow
def test_on_a_cpu_every_step_runs_at_the_size_of_a_test(tmp_path):
    assert command.main(["--out", str(tmp_path), "--minutes", "90"]) == 0
    made = steps(tmp_path, debug=True, with_torch=True)
    found = {step.name: json.loads((tmp_path / f"{step.name}.json").read_text()) for step in made}
    assert {name: one["reason"] for name, one in found.items() if one["result"] != "done"} == {}
    assert table(tmp_path) == [(step.name, "done") for step in made]
    for step in made:
        assert step.shown(found[step.name]["found"])
        assert not step.goes_on or found[step.name]["found"]["complete"]
        if step.name.startswith("resume"):
            assert found[step.name]["found"]["killed_at_env_frames"] > 0
            assert found[step.name]["found"]["differing_bytes"] == 0
            assert found[step.name]["found"]["differing_rows"] == 0
