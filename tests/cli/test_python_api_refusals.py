"""Options and folders that `re3_jax.train` and `re3_jax.load` refuse as the command line does."""

import pytest

import re3_jax
from re3_jax.commands import evaluate, train
from re3_jax.intrinsic import RE3Config
from re3_jax.runs import machine, run_folder
from re3_jax.runs.errors import UsageError
from re3_jax.runs.python_options import words_of
from re3_jax.runs.resolve import resolve


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # No test changes how this process uses JAX.
    monkeypatch.setattr(machine, "keep_compiled_programs", lambda: None)
    monkeypatch.setattr(machine, "use_cpu_devices", lambda count: None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"env": "dorkey_6x6"}, ("--env", "dorkey_6x6")),
        ({"seeds": 0}, ("--seeds", "0")),
        ({"a2c": {"num_env": 3}}, ("--a2c.num-env", "3")),
        ({"a2c": {"num_envs": 3.5}}, ("--a2c.num-envs", "3.5")),
        ({"pretrained": {"weights": "f"}}, ("--bonus.weights", "f")),
        ({"sac": {"batch_size": 3}}, ("--sac.batch-size", "3")),
        ({"agent": "rad"}, ("--agent", "rad")),
        ({"steps": 5}, ("--steps", "5")),
        ({"init": "nowhere"}, ("--init", "nowhere")),
    ],
)
def test_refusals_are_the_command_lines_sentences(options, words, capsys):
    with pytest.raises(re3_jax.UsageError) as refused:
        re3_jax.train(**{"env": "doorkey_6x6", "preset": "debug", **options})
    env = () if "env" in options else ("--env", "doorkey_6x6")
    assert train.main([*env, "--preset", "debug", *words]) == 2
    assert capsys.readouterr().err == f"error: {refused.value}\n"
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resume": True}, "use re3_jax.load"),
        ({"video": True}, "use Run.video"),
        ({"help": True}, "help is of the command line"),
        ({"re3": RE3Config()}, "re3 is a RE3Config: give a dict of the options to change, such as"),
    ],
)
def test_options_of_the_process_are_refused(options, words):
    with pytest.raises(re3_jax.UsageError, match=words):
        re3_jax.train(**options)


def test_a_folder_without_a_run_cannot_be_loaded(tmp_path):
    with pytest.raises(re3_jax.UsageError, match="holds no run"):
        re3_jax.load(tmp_path)


def test_a_run_without_a_checkpoint_is_neither_loaded_nor_evaluated_nor_changed(tmp_path, capsys):
    run_folder.write_config(tmp_path, resolve("gymnax:CartPole-v1", preset="debug"))
    with pytest.raises(re3_jax.UsageError, match="no checkpoint to load: train it first"):
        re3_jax.load(tmp_path)
    assert evaluate.main(["--run", str(tmp_path)]) == 2
    assert "no checkpoint to evaluate: train it first" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    # What a killed process had not finished writing.
    (tmp_path / "checkpoints" / "0.orbax-checkpoint-tmp").mkdir(parents=True)
    with pytest.raises(re3_jax.UsageError, match="no checkpoint to load: train it first"):
        re3_jax.load(tmp_path)
    (tmp_path / "checkpoints" / "1").mkdir()
    for words, said in (
        (["--video", "a.mp4"], "a video or a strip needs a task on the host that is seen"),
        (["--episodes", "9999999999"], "give a whole number from 1 to 1,000,000"),
    ):
        assert evaluate.main(["--run", str(tmp_path), *words]) == 2
        assert said in capsys.readouterr().err
    assert evaluate.main(["--run", str(tmp_path / "nowhere")]) == 2
    assert "name the folder of a run with --run" in capsys.readouterr().err


def test_none_is_no_name_of_a_bonus():
    with pytest.raises(UsageError, match="give 'none' for no bonus, or leave it out for re3"):
        re3_jax.train("doorkey_6x6", bonus=None)


def test_values_of_switches_and_groups_become_words():
    """As the command line spells them; floats are written with all their digits."""
    re3 = {"beta": 1e-3, "search_size": None}
    words = ["--no-video", "--re3.beta=0.001", "--re3.search-size=None", "--seed=3"]
    assert words_of({"video": False, "re3": re3, "agent": None, "seed": 3}) == words
