"""Ctrl-C and SIGTERM: the first asks the run to stop, the second ends it at once."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def deferred(on_first: Callable[[], None]) -> Iterator[Callable[[], int | None]]:
    """Ctrl-C within another program: the first is noted, the second a `KeyboardInterrupt`.

    Yields a function that returns the signal, if it came. Python's signals belong to the main
    thread: in any other nothing is noted.
    """
    received: list[int] = []

    def note(number: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        on_first()

    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: received[0] if received else None
    finally:
        signal.signal(signal.SIGINT, before)


class Interrupt:
    """While entered, `received` holds the first stop signal.

    A thread reads signals from a wake-up file descriptor, because Python's handlers wait until a
    compilation or a chunk returns.
    """

    def __init__(self, on_first: Callable[[], None]):
        """Calls `on_first`, from another thread, when the first signal comes."""
        self.received: int | None = None
        self._on_first = on_first

    def __enter__(self) -> "Interrupt":
        """Takes over the signals."""
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._old_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._old = {s: signal.signal(s, lambda *_: None) for s in STOP_SIGNALS}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Restores the previous signal handling."""
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)
        os.close(self._write)
        self._thread.join()
        os.close(self._read)

    def _watch(self) -> None:
        while byte := os.read(self._read, 1):
            if byte[0] not in STOP_SIGNALS:
                continue
            if self.received is not None:
                if sys.stdout.isatty():
                    os.write(sys.stdout.fileno(), b"\x1b[?25h\n")
                os._exit(128 + byte[0])
            self.received = byte[0]
            self._on_first()
