"""A sum of bonuses, `BONUS=a+b`: sum_b beta_t^b r_i^b, each with a weight and a state of its own.

Every part gets the random keys that it would get alone, so it draws the same encoder and takes the
same steps: on the same stream of transitions its state is to the bit what it would be alone. The
sum is that of what the parts pay alone, up to its last bit, because XLA may multiply a part by its
weight and add it with one rounding. A part with weight 0 changes nothing.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic import diagnostics
from re3_jax.intrinsic.base import (
    Info,
    IntrinsicBatch,
    IntrinsicReward,
    IntrinsicState,
    Step,
    check_is_bonus,
    observe_rollout,
)


@inherits("parts")
class SumState(NamedTuple):
    """The state of each part by its name."""

    parts: dict[str, IntrinsicState]


def sum_of(parts: Mapping[str, IntrinsicReward]) -> IntrinsicReward:
    """Pays the sum of what all `parts` pay.

    A step has one index for each part, in a row. The info of a part goes by the part's name, such
    as `re3_beta`, together with `diagnostics.of_rewards` of what it pays.

    Args:
      parts: complete bonuses (`chain(..., scale_by_schedule(beta))`) by their names.

    Raises:
      TypeError: the parts have no names, there are none, or one is no bonus.
    """
    if not isinstance(parts, Mapping) or not parts:
        raise TypeError('give each bonus a name, as in sum_of({"re3": ..., "e3b": ...})')
    for part in parts.values():
        check_is_bonus(part)
    shapes = [part.index_shape for part in parts.values()]
    ends = list(itertools.accumulate(math.prod(shape) for shape in shapes))
    starts = [0, *ends[:-1]]

    def own(batch: IntrinsicBatch, number: int) -> IntrinsicBatch:
        """The batch with the index and the targets of one part."""
        index = batch.required("bonus_index")[:, starts[number] : ends[number]]
        targets = None if batch.targets is None else batch.targets[number]
        return batch._replace(bonus_index=index.reshape(-1, *shapes[number]), targets=targets)

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> SumState:
        return SumState({name: part.init(key, spec, num_lanes) for name, part in parts.items()})

    def observe(state: SumState, step: Step) -> tuple[SumState, Int[Array, "lane parts"]]:
        after, indices = {}, []
        for name, part in parts.items():
            after[name], index = part.observe(state.parts[name], step)
            indices.append(index.reshape(index.shape[0], -1))
        return SumState(after), jnp.concatenate(indices, axis=1)

    def of_rollout(state: SumState, steps: Step) -> tuple[SumState, Int[Array, "time lane parts"]]:
        after, indices = {}, []
        for name, part in parts.items():
            after[name], index = observe_rollout(part, state.parts[name], steps)
            indices.append(index.reshape(*index.shape[:2], -1))
        return SumState(after), jnp.concatenate(indices, axis=2)

    def reward(
        state: SumState, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], SumState, Info]:
        after: dict[str, IntrinsicState] = {}
        info: Info = {}
        paid = []
        for number, (name, part) in enumerate(parts.items()):
            value, after[name], found = part.reward(state.parts[name], own(batch, number))
            info |= _of_part(name, {**found, **diagnostics.of_rewards(value)})
            paid.append(value)
        return sum(paid[1:], paid[0]), SumState(after), info

    def update(state: SumState, batch: IntrinsicBatch, key: PRNGKeyArray) -> tuple[SumState, Info]:
        after: dict[str, IntrinsicState] = {}
        info: Info = {}
        for number, (name, part) in enumerate(parts.items()):
            after[name], found = part.update(state.parts[name], own(batch, number), key)
            info |= _of_part(name, found)
        return SumState(after), info

    def targets(state: SumState, batch: IntrinsicBatch) -> list[Any]:
        return [
            part.targets(state.parts[name], own(batch, number))
            for number, (name, part) in enumerate(parts.items())
        ]

    def restart(state: SumState, lanes: Bool[Array, " lane"]) -> SumState:
        return SumState(
            {name: part.restart(state.parts[name], lanes) for name, part in parts.items()}
        )

    return IntrinsicReward(
        init,
        observe,
        reward,
        update,
        observe_rollout=of_rollout if any(part.in_order for part in parts.values()) else None,
        index_shape=(ends[-1],),
        needs_stored_value=any(part.needs_stored_value for part in parts.values()),
        needs_value=any(part.needs_value for part in parts.values()),
        targets=targets,
        restart=restart,
    )


def _of_part(name: str, info: Info) -> Info:
    """The info under names that begin with the part's; some begin with it already."""
    return {key if key.startswith(f"{name}_") else f"{name}_{key}": info[key] for key in info}
