"""Ctrl-C while a command's modules are imported: it ends the process at once and in silence.

Python would raise in whichever module is being imported, which shows its traceback or swallows it.
"""

import signal
import sys
from pathlib import Path

NAMES = "-m", "re3-jax"
"""What a process that imports a command is called: `python -m` finds the file afterwards."""


def begin() -> None:
    """Lets Ctrl-C end the process, if its program is a command."""
    is_command = Path(sys.argv[0]).name in NAMES
    if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def end() -> None:
    """Lets Ctrl-C raise again: the command handles it from here."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
