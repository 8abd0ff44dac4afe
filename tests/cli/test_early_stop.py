"""Ctrl-C ends a command silently, also while its modules are imported; a full disk, with a word."""

import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from re3_jax.runs.errors import in_one_sentence

ROOT = Path(__file__).parents[2]
WITH_CTRL_C = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Python, also where a shell in the background began these tests, for which it ignores Ctrl-C."""


@pytest.mark.parametrize(
    ("command", "imported"),
    [("experiments.train", "optax"), ("re3_jax.commands.compare", "matplotlib")],
)
def test_ctrl_c_ends_the_imports_of_a_command_silently(command, imported, tmp_path):
    """A module that is sure to be imported sends the signal."""
    package = tmp_path / imported
    package.mkdir()
    (package / "__init__.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    done = subprocess.run(
        [sys.executable, "-c", WITH_CTRL_C, "-m", command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_raises_again_once_a_command_runs():
    code = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[0] = "-m"
import re3_jax.commands
assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
from re3_jax.runs.errors import in_one_sentence
main = in_one_sentence(lambda argv: signal.getsignal(signal.SIGINT) is signal.default_int_handler)
assert main([]) is True
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_full_disk_ends_a_command_in_one_sentence(capsys):
    """The error of a write names no file."""

    @in_one_sentence
    def written(argv):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert written() == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "No space left" in err and "free" in err


@pytest.mark.parametrize(
    ("errors", "shown"), [("strict", b"?"), ("surrogateescape", b"\xff"), ("ignore", b"")]
)
def test_a_name_that_the_terminal_cannot_show_ends_no_command(monkeypatch, errors, shown):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", errors))
    assert in_one_sentence(lambda argv: print("\udcff", end="", flush=True) or 0)() == 0
    assert written.getvalue() == shown


def test_ctrl_c_ends_a_command_silently(capsys):
    @in_one_sentence
    def interrupted(argv):
        raise KeyboardInterrupt

    assert interrupted() == 130
    assert capsys.readouterr() == ("", "")
