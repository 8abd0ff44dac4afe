"""The live line shows progress within the width of a terminal."""

import math
import os
import pty
import shlex
import signal
import subprocess
import sys

import pytest

from re3_jax.runs.terminal import Standing, Terminal


@pytest.mark.parametrize(
    ("standing", "line"),
    [
        (
            Standing(0, 400_000, math.nan, math.nan, math.nan, math.nan),
            "  0% 0/400k frames -/s ETA - return - r_int -",
        ),
        (
            Standing(12_800, 2_400_000, 31_234.0, 3_725.4, 0.9412, 0.01234),
            "  1% 12.8k/2.40M frames 31.2k/s ETA 1:02:05 return 0.941 r_int 0.0123",
        ),
        (
            Standing(403_200, 400_000, 950.0, 0.0, -0.5, 0.0),
            "100% 403k/400k frames 950/s ETA 0:00:00 return -0.500 r_int 0.0000",
        ),
    ],
)
def test_line(standing, line):
    assert standing.words() == line
    assert len(line) + len("━" * 10 + " ") <= 80


def test_the_name_of_a_task_is_no_emoji(capsys):
    Terminal().say("brax:ant: rad")
    assert capsys.readouterr().out == "brax:ant: rad\n"


@pytest.mark.parametrize(
    ("variables", "redrawn"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"FORCE_COLOR": "1"}, True)],
)
def test_a_dumb_terminal_gets_plain_lines(variables, redrawn):
    """Such as the shell of Emacs; elsewhere the line is drawn anew."""
    assert ("\x1b[" in shown_on_a_terminal(variables)) == redrawn
    assert "400k frames" in shown_on_a_terminal(variables)


def shown_on_a_terminal(variables):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **variables}
    subprocess.run([sys.executable, "-c", SHOWN], stdout=theirs, env=environment, check=True)
    os.close(theirs)
    with open(ours, "rb", buffering=0) as file:
        return file.read(4096).decode()


SHOWN = """
from re3_jax.runs.terminal import Standing, Terminal
terminal = Terminal()
terminal.show(Standing(100, 400_000, 1.0, 1.0, 1.0, 1.0))
terminal.close()
"""


def test_a_file_is_no_terminal_whatever_its_colours():
    """CI often sets FORCE_COLOR."""
    environment = {**os.environ, "FORCE_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SHOWN], capture_output=True, env=environment, check=True
    )
    assert done.stdout.decode().startswith("0% 100/400k frames") and b"\x1b" not in done.stdout


def test_what_stands_in_for_standard_output_may_have_no_isatty(monkeypatch):
    class Both:
        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    both = Both()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", both)
    Terminal().show(Standing(100, 400_000, 1.0, 1.0, 0.0, 0.0))
    assert both.text.startswith("0% 100/400k frames") and "\x1b" not in both.text


def test_a_reader_that_leaves_does_not_end_the_run():
    """Such as `head -1`, which closes the pipe."""
    code = (
        "import sys; from re3_jax.runs.terminal import Terminal; terminal = Terminal()\n"
        "for _ in range(2_000): terminal.say(100 * 'x')\n"
        "print('to its end', file=sys.stderr)"
    )
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert done.stdout == 100 * "x" + "\n" and done.stderr == "to its end\n"


def test_a_command_whose_reader_leaves_ends_quietly():
    code = (
        "from re3_jax.runs.errors import in_one_sentence\n"
        "main = in_one_sentence(lambda argv: [print(100 * 'x') for _ in range(20_000)])\n"
        "raise SystemExit(main([]))"
    )
    command = (
        f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} | head -1; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.stdout == 100 * "x" + "\n" and done.stderr == ""
    assert done.returncode == 128 + signal.SIGPIPE
