"""A device that runs out of memory ends any command with one sentence and exit code 2."""

import jax
import pytest

from re3_jax.commands import evaluate, profile
from re3_jax.runs import machine


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """No test writes outside its folder or changes how this process uses JAX."""
    monkeypatch.chdir(tmp_path)
    for setting in ("keep_compiled_programs", "use_cpu_devices"):
        monkeypatch.setattr(machine, setting, lambda: None)


def raising(sentence):
    def fail(*_):
        raise jax.errors.JaxRuntimeError(sentence)

    return fail


COMMANDS = {
    "evaluate": (evaluate, ["--run", "r"], "lower --episodes"),
    "profile": (profile, ["--env", "gymnax:CartPole-v1"], "lower --seeds"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_lack_of_memory_is_one_sentence(name, monkeypatch, capsys):
    module, words, remedy = COMMANDS[name]
    monkeypatch.setattr(module, name, raising("RESOURCE_EXHAUSTED: out of\nmemory"))
    assert module.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: the device has too little memory") and said.count("\n") == 1
    assert remedy in said


@pytest.mark.parametrize("name", COMMANDS)
def test_other_errors_of_the_backend_are_not_hidden(name, monkeypatch):
    module, words, _ = COMMANDS[name]
    monkeypatch.setattr(module, name, raising("INTERNAL: a bug"))
    with pytest.raises(jax.errors.JaxRuntimeError, match="a bug"):
        module.main(words)
