"""Pre-training and fine-tuning on the command line: what a run inherits, and what is refused."""

import csv
import dataclasses
import json
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.commands import profile, train
from re3_jax.runs import fine_tuning, machine, run_folder
from re3_jax.runs.build import task_spec
from re3_jax.runs.errors import UsageError
from re3_jax.runs.option_names import option_with
from re3_jax.runs.options import parse
from re3_jax.runs.resolve import resolve
from re3_jax.training.train_state import TrainState
from tests.cli.refusal import refused
from tests.resume.compare import leaves

SMALL = (
    *("--preset", "debug", "--seeds", "2", "--chunk-updates", "8", "--evaluation.episodes", "1"),
    *("--evaluation.every-env-frames", "512", "--re3.normalize", "running_std"),
)
EMPTY = ("--env", "minigrid:Empty-5x5", *SMALL)
DOORKEY = ("--env", "minigrid:DoorKey-5x5", *SMALL)
NO_BONUS = tuple(word for word in DOORKEY if word not in ("--re3.normalize", "running_std"))


@pytest.fixture(scope="module", autouse=True)
def settings():
    """Changes that `main` makes to its process must not reach other tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("keep_compiled_programs", "use_cpu_devices"):
            patch.setattr(machine, name, lambda *_: None)
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A finished pre-training run with the seeds 1 and 2."""
    folder = tmp_path_factory.mktemp("source") / "run"
    assert train.main((*EMPTY, "--pretrain", "512", "--out", str(folder))) == 0
    return folder


@pytest.fixture(scope="module")
def tuned(source, tmp_path_factory) -> Path:
    """A run of another task that starts from `source`."""
    folder = tmp_path_factory.mktemp("tuned") / "run"
    words = (*DOORKEY, "--init", str(source), "--steps", "256", "--out", str(folder))
    assert train.main(words) == 0
    return folder


def test_pre_training_records_the_task_reward_and_ends_where_it_says(source):
    config = json.loads((source / "config.json").read_text())["config"]
    assert (config["pretrain"], config["steps"]) == (512, 512)
    assert json.loads((source / "summary.json").read_text())["complete"] is True
    with (source / "train.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert rows[-1]["env_frames"] == "512"
    assert all(float(row["intrinsic_reward_mean"]) > 0 for row in rows)
    assert any(float(row["reward_mean"]) > 0 for row in rows)


def test_fine_tuning_starts_from_what_was_learned(source, tuned):
    """The state at env frame 0 equals the source's last: read from disk, path by path."""
    begun, learned = leaves(tuned, 0), leaves(source)
    same = {
        name
        for name, value in begun.items()
        if name in learned and np.array_equal(value, learned[name])
    }
    inherited = {n for n in begun if n.startswith(("agent/params/", "intrinsic/bonus/encoder/"))}
    statistics = {n for n in begun if n.startswith("intrinsic/transforms/0/")}
    assert len(inherited) >= 20 and len(statistics) == 3
    assert inherited | statistics <= same
    assert (begun["intrinsic/transforms/0/num_values"] == 512).all()
    assert (begun["counters/env_frames"] == 0).all()
    assert (begun["intrinsic/bonus/ring/num_valid"] == 0).all()
    squares = [begun[name] for name in begun if name.startswith("agent/opt_state")]
    assert squares and not any(np.any(square) for square in squares)
    # It continues to learn from there.
    after = leaves(tuned)
    assert (after["counters/env_frames"] == 256).all()
    assert (after["intrinsic/transforms/0/num_values"] == 512 + 256).all()
    changed = [name for name in inherited if not np.array_equal(after[name], begun[name])]
    assert changed and all(name.startswith("agent/params/") for name in changed)


def test_without_a_bonus_the_agent_alone_is_taken_over(source):
    """Seeds match: this run's only seed is the second seed of the source."""
    words = (*NO_BONUS, "--bonus", "none", "--seeds", "1", "--seed", "2")
    config = parse([*words, "--init", str(source)])
    taken, learned = fine_tuning.load(config, task_spec(config)), leaves(source)
    assert len(taken) > 10 and all(name.startswith("agent/") for name in taken)
    for name, value in taken.items():
        np.testing.assert_array_equal(value, learned[name][1:])


def test_a_changed_source_is_refused(capsys, tuned):
    before = (tuned / "config.json").read_text()
    assert train.main(("--out", str(tuned), "--resume", "--init", "elsewhere")) == 2
    sentence = capsys.readouterr().err
    assert "--init is elsewhere" in sentence and "was started with" in sentence
    assert (tuned / "config.json").read_text() == before


def test_pre_training_can_be_made_longer_and_not_shorter(source):
    words = ["--out", str(source), "--resume"]
    longer = parse([*words, "--pretrain", "768"])
    assert (longer.pretrain, longer.steps) == (768, 768)
    assert run_folder.claim(longer) == source
    with pytest.raises(UsageError, match="--pretrain 256 is less than the 512"):
        run_folder.claim(parse([*words, "--pretrain", "256"]))
    with pytest.raises(UsageError, match="--steps has no effect with --pretrain 512"):
        parse([*words, "--steps", "768"])
    with pytest.raises(UsageError, match="--pretrain-reward is bare, but .* with weighted"):
        run_folder.claim(parse([*words, "--pretrain-reward", "bare"]))
    with pytest.raises(UsageError, match="--pretrain is None"):
        run_folder.claim(parse([*words, "--pretrain", "None"]))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made_up(folder: Path, env: str, *, preset="debug", agent=None, bonus=None, **changes) -> str:
    """A run folder with config.json only."""
    folder.mkdir()
    config = resolve(env, agent, bonus, preset)
    for group, options in changes.items():
        config = dataclasses.replace(
            config, **{group: dataclasses.replace(getattr(config, group), **options)}
        )
    run_folder.write_config(folder, config)
    return folder.name


@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        ("minigrid:DoorKey-5x5", {"re3": {"ensemble_size": 2}}, ["--re3.ensemble-size 2"]),
        ("minigrid:DoorKey-5x5", {"re3": {"encoder_init": "xavier"}}, ["--re3.encoder-init xavi"]),
        ("minigrid:DoorKey-5x5", {"re3": {"normalize": "none"}}, ["--re3.normalize none"]),
        ("minigrid:DoorKey-5x5", {"a2c": {"hidden_dim": 32}}, ["--a2c.hidden-dim 32"]),
        ("minigrid:DoorKey-5x5", {"bonus": "rnd"}, ["--bonus rnd", "re3", "--bonus none"]),
        ("minigrid:DoorKey-5x5", {"bonus": "none"}, ["no bonus", "--bonus none"]),
        ("gymnax:CartPole-v1", {}, ["observations are 7x7x3 uint8", "4 float32", "CartPole"]),
        ("gymnax:Pendulum-v1", {}, ["--agent rad", "a2c"]),
        ("minigrid:DoorKey-5x5", {}, ["not finished (0 of 4,096 env frames)", "--resume"]),
    ],
)
def test_an_unsuitable_source_is_refused(capsys, here, env, options, words):
    run = made_up(here / "source", env, **options)
    argv = [word for word in DOORKEY if word not in ("--re3.normalize", "running_std")]
    sentence = refused(capsys, *argv, "--init", run)
    for word in (*words, "source"):
        assert word in sentence


@pytest.mark.parametrize(
    ("bonus", "option", "value"),
    [
        ("re3", "last_neighbour", 9),
        ("e3b", "ridge", 9.0),
        ("noveld", "alpha", 0.25),
        ("counts", "episodic", True),
    ],
)
def test_a_standard_deviation_of_something_else_is_refused(capsys, here, bonus, option, value):
    """A fine-tuned run divides by what the other run saw, so it must see the same."""
    run = made_up(here / "source", "minigrid:DoorKey-5x5", bonus=bonus, **{bonus: {option: value}})
    words = ("--env", "minigrid:DoorKey-5x5", "--preset", "debug", "--bonus", bonus)
    expected = option_with(f"{bonus}.{option}", value)
    assert f"add {expected}, or" in refused(capsys, *words, "--init", run)


@pytest.mark.parametrize(
    ("there", "given", "remedy"),
    [
        (True, (), "add --sac.frame-differences, or"),
        (False, ("--sac.frame-differences",), "add --sac.no-frame-differences, or"),
    ],
)
def test_weights_of_another_meaning_are_refused(capsys, here, there, given, remedy):
    """Both kinds of weights have the same shape, so no array shows the difference."""
    run = made_up(here / "cheetah", "cheetah_run_sparse", sac={"frame_differences": there})
    words = ("--env", "cheetah_run_sparse", "--preset", "debug", "--dmc.renderer", "warp")
    assert remedy in refused(capsys, *words, *given, "--init", run)


def test_a_source_with_other_spaces_is_refused(capsys, here):
    """CartPole and MountainCar have different spaces; so do two bodies of dm_control."""
    run = made_up(here / "cartpole", "gymnax:CartPole-v1")
    sentence = refused(capsys, "--env", "gymnax:MountainCar-v0", "--preset", "debug", "--init", run)
    assert "observations are 2 float32, those of gymnax:CartPole-v1 4 float32" in sentence
    run = made_up(here / "hopper", "hopper_hop")
    words = ("--env", "walker_walk", "--preset", "debug", "--dmc.renderer", "warp")
    sentence = refused(capsys, *words, "--init", run)
    assert "actions are 6 numbers from -1.0 to 1.0, those of hopper_hop 4 numbers" in sentence


def test_a_source_without_these_seeds_is_refused(capsys, here, source):
    words = (*DOORKEY, "--init", str(source))
    sentence = refused(capsys, *words, "--seeds", "3")
    assert "seeds 1 to 2, and seed 3" in sentence and "--seeds 2 --seed 1" in sentence


def test_a_folder_without_a_run_is_refused(capsys, here):
    sentence = refused(capsys, *DOORKEY, "--init", "nowhere")
    assert "nowhere holds no run" in sentence and "--init" in sentence
    assert "--resume" not in sentence


def test_an_unfinished_source_is_refused(capsys, here, source):
    shutil.copytree(source, here / "source")
    path = here / "source" / "config.json"
    stored = json.loads(path.read_text())
    stored["config"] |= {"pretrain": 1024, "steps": 1024}
    del stored[run_folder.CONFIG_DIGEST]
    path.write_text(json.dumps(stored))
    sentence = refused(capsys, *DOORKEY, "--init", "source")
    assert "512 of 1,024 env frames" in sentence and "--resume --out source" in sentence


def test_a_damaged_source_is_refused(capsys, here, source):
    shutil.copytree(source, here / "source")
    files = [p for p in (here / "source" / "checkpoints").rglob("*") if p.is_file()]
    for path in files:
        if path.stat().st_size > 10_000:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    sentence = refused(capsys, *DOORKEY, "--init", "source")
    assert "source" in sentence and "damaged" in sentence


def test_a_profile_refuses_init(capsys, here):
    assert profile.main([*DOORKEY, "--init", "nowhere"]) == 2
    assert "--init has no effect" in capsys.readouterr().err


def test_a_state_that_does_not_say_what_it_hands_on_is_refused():
    """One of a plugin: ours all say it."""
    tree = dict.fromkeys(TrainState._fields, ())
    shapes = TrainState(**{**tree, "agent": (jnp.zeros(2),)})
    config = dataclasses.replace(resolve("doorkey_6x6", preset="debug"), init="runs/source")
    with pytest.raises(UsageError, match="tuple does not say what .* or leave --init out"):
        fine_tuning.check_fits(config, shapes, {})
