"""The first lines of a run: its devices, and whether it resumes on another machine."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from re3_jax.runs import machine, run, run_folder
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.build import cpu_devices, devices_for, devices_of, fitted
from re3_jax.runs.config import is_compared
from re3_jax.runs.errors import UsageError
from re3_jax.runs.options import parse
from re3_jax.runs.resolve import resolve


@pytest.fixture
def folder(tmp_path) -> Path:
    run_folder.write_config(tmp_path, resolve("doorkey_6x6", preset="debug"))
    return tmp_path


def announced(folder: Path, chunk: int = 1, **options) -> list[str]:
    config = dataclasses.replace(run_folder.stored_config(folder, ""), **options)
    return list(run.opening_lines(config, chunk, folder=folder))


@pytest.mark.parametrize(
    ("seeds", "devices", "words"),
    [
        (4, 2, "on 2 cpu devices ->"),
        (1, 1, "on 1 cpu device ->"),
        (5, 2, "on 1 of 2 cpu devices (a multiple of 2 seeds would use all) ->"),
        (6, 4, "on 3 of 4 cpu devices (a multiple of 4 seeds would use all) ->"),
    ],
)
def test_idle_devices_are_announced(folder, monkeypatch, seeds, devices, words):
    pretended = jax.devices()[:1] * devices
    monkeypatch.setattr(jax, "local_devices", lambda: pretended)
    assert words.startswith(f"on {len(devices_for(seeds))} ")
    (line,) = announced(folder, seeds=seeds)
    assert words in line


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (7936, "of 7,936 env frames on "),
        (4000, "of 7,936 env frames (4,000, in whole chunks of 3,968) on "),
    ],
)
def test_frames_are_announced_in_whole_chunks(folder, steps, words):
    (line,) = announced(folder, chunk=3968, steps=steps)
    assert words in line


@pytest.mark.parametrize(
    ("seeds", "cores", "devices"),
    [(1, 2, 1), (4, 2, 2), (5, 2, 5), (5, 8, 5), (6, 4, 6), (9, 2, 3), (30, 4, 5)],
)
def test_every_core_has_seeds(folder, monkeypatch, seeds, cores, devices):
    monkeypatch.setattr(machine, "usable_cores", lambda: cores)
    config = run_folder.stored_config(folder, "")
    assert cpu_devices(dataclasses.replace(config, seeds=seeds)) == devices


@pytest.mark.parametrize(
    ("preset", "platform", "words"),
    [
        (None, "cpu", "preset small, 1 seed of 500,000 env frames on 1 cpu device (no GPU), "),
        ("small", "gpu", "preset small, 1 seed of 500,000 env frames on 1 gpu device, "),
        ("debug", "cpu", "preset debug, 1 seed of 2,000 env frames on 1 cpu device, "),
    ],
)
def test_a_size_chosen_for_want_of_a_gpu_is_announced(monkeypatch, preset, platform, words):
    device = SimpleNamespace(platform=platform, device_kind=platform)
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    monkeypatch.setattr(machine, "has_accelerator", lambda: False)
    given = ("--preset", preset) if preset else ()
    config = parse(["--env", "cheetah_run_sparse", "--seeds", "1", *given])
    (line,) = run.opening_lines(config, chunk=50)
    assert words in line


def test_devices_of_a_ring_are_announced(folder, monkeypatch):
    pretended = jax.devices()[:1] * 6
    monkeypatch.setattr(jax, "local_devices", lambda: pretended)
    config = run_folder.stored_config(folder, "")
    re3 = dataclasses.replace(config.re3, merge_copies=False, ring_shards=2)
    (line,) = announced(folder, re3=re3, seeds=2)
    assert "on 4 of 6 cpu devices (a multiple of 3 seeds would use all), 2 for each seed" in line


@pytest.mark.parametrize(("devices", "fits"), [(1, 1), (2, 2), (6, 3)])
def test_a_ring_needs_devices_that_it_can_be_divided_among(devices, fits):
    with pytest.raises(UsageError, match=f"--re3.ring-shards 4 .* {devices} device.*: give {fits}"):
        devices_for(4, jax.devices()[:1] * devices, {"re3.ring_shards": 4})


def test_ring_and_batch_together_need_as_many_devices_as_their_product():
    sentence = "--re3.ring-shards 2 and --dreamer.batch-shards 2 .* 6 dev.*: give .* product is 3"
    with pytest.raises(UsageError, match=sentence):
        devices_for(4, jax.devices()[:1] * 6, {"re3.ring_shards": 2, "dreamer.batch_shards": 2})


def test_a_run_that_is_only_read_takes_the_devices_there_are(folder, monkeypatch):
    pretended = jax.devices()[:1] * 6
    monkeypatch.setattr(jax, "local_devices", lambda: pretended)
    config = run_folder.stored_config(folder, "")
    re3 = dataclasses.replace(config.re3, merge_copies=False, ring_shards=4)
    assert fitted(dataclasses.replace(config, re3=re3)).re3.ring_shards == 2


@pytest.mark.parametrize("agent", ["rad", "dreamer"])
def test_a_batch_is_divided_in_training_alone(agent, monkeypatch):
    pretended = jax.devices()[:1] * 2
    monkeypatch.setattr(jax, "local_devices", lambda: pretended)
    option = f"--{AGENTS[agent].group}.batch-shards"
    config = parse(["--env", "cheetah_run_sparse", "--agent", agent, "--seeds", "1", option, "2"])
    assert config.devices_per_seed == 2 and len(devices_of(config)) == 2
    assert fitted(config).devices_per_seed == 1
    assert not is_compared(f"{AGENTS[agent].group}.batch_shards")


def test_resume_on_the_same_machine_prints_nothing_more(folder):
    assert len(announced(folder, resume=True)) == 1


def test_resume_on_another_machine_names_the_differences(folder):
    path = folder / "config.json"
    stored = json.loads(path.read_text())
    jaxlib = stored["versions"]["jaxlib"]
    count = stored["device"]["count"]
    stored["versions"]["jaxlib"] = "0.1"
    stored["device"]["count"] = 77
    path.write_text(json.dumps(stored))
    assert len(announced(folder)) == 1
    _, line = announced(folder, resume=True)
    assert f"(devices 77 -> {count}, jaxlib 0.1 -> {jaxlib})" in line
    assert "equality bit for bit is not guaranteed" in line


def test_resume_of_a_run_without_a_recorded_machine(folder):
    path = folder / "config.json"
    path.write_text(json.dumps({"config": json.loads(path.read_text())["config"]}))
    assert len(announced(folder, resume=True)) == 1


def test_pre_training_and_fine_tuning_are_announced(folder):
    _, line = announced(folder, pretrain=4096)
    assert "learns from the bonus alone" in line
    _, line = announced(folder, init="runs/explorer")
    assert "runs/explorer" in line
