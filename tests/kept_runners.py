"""Runners that a test process compiles once and gives to every run with the same programs.

A run begins in a state that its seeds make, or that a checkpoint restores; a runner of tasks on the
device has no state of its own, and one of tasks on the host sets its environments from that state.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from re3_jax.runs import build, session
from re3_jax.runs.config import RunConfig

NOT_OF_PROGRAMS = ("out", "resume", "steps", "checkpoint_seconds", "loggers", "video")
"""Options that a runner does not depend on; its chunk size is set before it is built."""


class Kept:
    """A runner that is compiled once and stays open."""

    def __init__(self, runner: Any, num_seeds: int):
        self._runner, self._compiled = runner, False
        # Of compiled programs JAX tells neither.
        self._shapes, self._template = runner.abstract_state(num_seeds), runner.template(num_seeds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def abstract_state(self, num_seeds: int) -> Any:
        return self._shapes

    def template(self, num_seeds: int) -> Any:
        return self._template

    def compile(self, state: Any) -> None:
        if not self._compiled:
            self._runner.compile(state)
        self._compiled = True

    def close(self) -> None:
        """Not yet: `KeptRunners.close`."""


class KeptRunners:
    """A runner for each configuration, as far as programs depend on it."""

    def __init__(self) -> None:
        self._kept: dict[RunConfig, Kept] = {}

    def build(self, config: RunConfig, *rest: Any) -> Kept:
        """Like `build.build`, which it calls once for each configuration."""
        default = {field.name: field.default for field in dataclasses.fields(config)}
        ignored = {name: default[name] for name in NOT_OF_PROGRAMS}
        of_programs = dataclasses.replace(config, **ignored)
        if of_programs not in self._kept:
            self._kept[of_programs] = Kept(build.build(config, *rest), config.seeds)
        return self._kept[of_programs]

    def close(self) -> None:
        """Ends the environments."""
        for kept in self._kept.values():
            kept._runner.close()
        self._kept.clear()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Every run of this process gets its runner here."""
        with mock.patch.object(session, "build", self.build):
            yield


@contextmanager
def kept_runners() -> Iterator[None]:
    """Runs within it that have the same programs share them; the environments end with it."""
    kept = KeptRunners()
    try:
        with kept.used():
            yield
    finally:
        kept.close()
