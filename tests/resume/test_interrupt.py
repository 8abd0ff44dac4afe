"""The first signal requests a stop, the second ends the process, even during long C calls."""

import signal
import subprocess
import sys

import pytest

from tests.resume.conftest import ROOT

# Key stretching stands for a compilation: C code without the GIL that returns late.
PROGRAM = """
import hashlib
from re3_jax.runs.interrupt import Interrupt
with Interrupt(lambda: print("asked", flush=True)) as interrupt:
    print("ready", flush=True)
    while True:
        hashlib.pbkdf2_hmac("sha256", b"", b"", {iterations})
        if interrupt.received is not None:
            break
print("stopped by", interrupt.received)
"""


def spawn(iterations: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(iterations=iterations)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_is_noted(number):
    process = spawn(100_000)
    process.send_signal(number)
    out, _ = process.communicate(timeout=1200)
    assert process.returncode == 0
    assert out == f"asked\nstopped by {int(number)}\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_second_signal_ends_at_once(number, code):
    process = spawn(2_000_000_000)
    process.send_signal(number)
    assert process.stdout.readline() == "asked\n"
    process.send_signal(number)
    process.communicate(timeout=1200)
    assert process.returncode == code
