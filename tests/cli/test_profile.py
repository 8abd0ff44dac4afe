"""`python -m experiments.profile`: the table's parts add up, and the trace can be opened."""

import gzip
import json

import jax
import pytest

from re3_jax.commands import profile
from re3_jax.envs import host
from re3_jax.runs import installing, machine, run_folder
from re3_jax.runs.build import task_spec
from re3_jax.runs.options import parse
from tests.probe_host_env import DotLanes, spec

OPTIONS = ["--env", "gymnax:CartPole-v1", "--preset", "debug", "--seeds", "1"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """No test writes outside its folder or changes how this process uses JAX."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "keep_compiled_programs", lambda: None)
    option = "jax_compilation_cache_include_metadata_in_key"
    before = getattr(jax.config, option)
    yield
    jax.config.update(option, before)


@pytest.mark.slow
def test_prints_where_the_time_goes_and_writes_a_trace(tmp_path, capsys):
    folder = tmp_path / "trace"
    assert profile.main([*OPTIONS, "--out", str(folder)]) == 0
    printed = capsys.readouterr().out
    table = [line for line in printed.splitlines() if line.endswith("%")]
    shares = {line[:22].strip(): float(line.split()[-1][:-1]) for line in table}
    assert list(shares) == [*profile.PARTS.values(), "between instructions"]
    assert abs(sum(shares.values()) - 100) < 1
    for part in ("environment", "act", "encode", "k-NN", "update"):
        assert shares[part] > 0
    (trace,) = folder.rglob("*.trace.json.gz")
    assert str(trace) in printed
    with gzip.open(trace) as file:
        names = {event.get("name") for event in json.load(file)["traceEvents"]}
    assert any("fusion" in str(name) for name in names)


def test_no_run_is_resumed(tmp_path, capsys):
    run_folder.write_config(tmp_path, parse([*OPTIONS, "--out", str(tmp_path)]))
    assert profile.main(["--resume", "--out", str(tmp_path)]) == 2
    assert "leave --resume out" in capsys.readouterr().err


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine").write_text("kept")
    assert profile.main([*OPTIONS, "--out", str(tmp_path)]) == 2
    assert "holds files that are not of a run (mine)" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("env", "bonus", "sentence"),
    [
        ("doorkey_7x8", "re3", "did you mean"),
        ("gymnax:Pendulum-v1", "re3", "actions are continuous"),
        ("gymnax:CartPole-v1", "contrastive", "contrastive learning needs images"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(env, bonus, sentence, tmp_path, capsys):
    words = ["--env", env, "--agent", "a2c", "--bonus", bonus, "--seeds", "1"]
    assert profile.main([*words, "--out", str(tmp_path / "trace")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert sentence in said
    assert not list(tmp_path.iterdir())


def test_on_the_host_an_on_policy_agent_learns_with_each_rollout(tmp_path, monkeypatch):
    words = ["--env", "cheetah_run_sparse", "--agent", "ppo", "--preset", "debug", "--seeds", "1"]
    config = parse(words)
    monkeypatch.setattr(host, "make", lambda task, options, lanes, say: DotLanes(lanes, size=36))
    timed, chunks = profile._timed_and_traced, []

    def watched(train, state, units, folder, detail):
        before = jax.device_get(state.counters)
        *times, state = timed(train, state, units, folder, detail)
        chunks.append((units, before, jax.device_get(state.counters)))
        return *times, state

    monkeypatch.setattr(profile, "_timed_and_traced", watched)
    result = profile.profile_host(config, spec(size=36), tmp_path)
    ((units, before, after),) = chunks
    lanes, rollouts = config.ppo.num_envs, profile.REPEATS + 1
    assert units == config.ppo.rollout_length
    assert after.agent_steps - before.agent_steps == rollouts * units * lanes
    assert after.updates - before.updates == rollouts
    assert result.unit == "agent step" and result.env_frames == 2 * lanes
    assert list(result.parts) == ["act", "lanes", "update", "store"]
    assert all(value > 0 for value in [result.milliseconds, *result.parts.values()])
    assert list(tmp_path.rglob("*.trace.json.gz"))


@pytest.mark.parametrize(
    "words",
    [
        "--env gymnax:Pendulum-v1 --sac.initial-agent-steps 9000",
        "--env doorkey_6x6 --agent rainbow --rainbow.initial-agent-steps 9000",
    ],
)
def test_on_the_device_all_that_is_timed_learns(words, tmp_path, monkeypatch):
    """Without a ring to fill, the random steps of the preset would be all that is timed."""
    config = parse([*words.split(), "--preset", "debug", "--seeds", "1", "--bonus", "none"])
    before = []

    def timed(train, state, units, folder, detail):
        before.append(jax.device_get(state.counters.updates))
        return 1.0, 1.0, state

    monkeypatch.setattr(profile, "_timed_and_traced", timed)
    monkeypatch.setattr(
        profile,
        "milliseconds_by_scope",
        lambda folder, text, scopes: dict.fromkeys(profile.PARTS, 0),
    )
    profile.profile(config, task_spec(config), tmp_path)
    assert before[0] > 0


def test_bursts_are_not_profiled(tmp_path, capsys, monkeypatch):
    words = ["--env", "pixels:bar", "--agent", "dreamer", "--preset", "debug"]
    assert profile.main(words) == 2
    said = capsys.readouterr().err
    assert "dreamer learns in bursts" in said and "make bench BENCH=dreamer_update, or " in said
    monkeypatch.setattr(installing, "ROOT", tmp_path)
    assert profile.main(words) == 2
    assert "make bench" not in capsys.readouterr().err
