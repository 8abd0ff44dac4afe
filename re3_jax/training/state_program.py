"""Programs that change some fields of a state."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax

from re3_jax.training.seeds import OverSeeds


@dataclass(frozen=True)
class StateProgram:
    """(state, ...) -> (state, info): changes the fields `changes` of a state, which are donated.

    The program takes the other fields as they are and does not return them, because each array
    that passes through takes the host some microseconds.
    """

    changes: tuple[str, ...]
    program: Any

    @classmethod
    def of(
        cls, over_seeds: OverSeeds, function: Callable[..., Any], *changes: str
    ) -> "StateProgram":
        """The program of `function`, (state, ...) -> (state, info) for one seed.

        Raises:
          ValueError: when it is traced, if `function` changes another field, which would be lost.
        """

        def program(changing: dict[str, Any], rest: Any, *more: Any) -> tuple[dict[str, Any], Any]:
            state, info = function(rest._replace(**changing), *more)
            after = state._asdict()
            changed = {name: after.pop(name) for name in changes}
            for name, value in after.items():
                before = jax.tree.leaves(getattr(rest, name))
                if any(x is not y for x, y in zip(jax.tree.leaves(value), before, strict=True)):
                    raise ValueError(f"{name} of the state changed, where only {changes} may")
            return changed, info

        return cls(changes, over_seeds.compile(program, donate=0))

    def __call__(self, state: Any, *more: Any) -> tuple[Any, Any]:
        """Runs the program."""
        return self._merge(state, self.program(*self._split(state), *more))

    def eval_shape(self, state: Any, *more: Any) -> tuple[Any, Any]:
        """Shapes and dtypes of what a call returns."""
        return self._merge(state, self.program.eval_shape(*self._split(state), *more))

    def lower(self, state: Any, *more: Any) -> jax.stages.Lowered:
        """Lowers the program for arguments like these, as `lower` of `jax.jit`'s result does."""
        return self.program.lower(*self._split(state), *more)

    def compiled(self, state: Any, *more: Any) -> "StateProgram":
        """Returns the program, compiled for arguments like these."""
        return replace(self, program=self.lower(state, *more).compile())

    def _split(self, state: Any) -> tuple[dict[str, Any], Any]:
        changing = {name: getattr(state, name) for name in self.changes}
        return changing, state._replace(**dict.fromkeys(self.changes))

    @staticmethod
    def _merge(state: Any, results: tuple[dict[str, Any], Any]) -> tuple[Any, Any]:
        changed, info = results
        return state._replace(**changed), info
