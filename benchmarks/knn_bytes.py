"""Bytes that the k-NN search moves on a GPU that is not here, with the kernel and without.

Usage: `.venv-compile/bin/python -m benchmarks.knn_bytes [--target h100]`; prints one JSON object.
Compiled, never run. `make compile TARGET=h100` installs the compiler; without it this prints
nothing.

The ring is full and no query is searched again. `must` is what any search moves: the queries, the
ring and its norms once, and the distances. An array that an instruction of the compiled program
reads or writes counts each time, also where a cache would have it. `largest` are the instructions
that move most: what they write, how often, and the bytes of all times.
"""

import argparse
import importlib.metadata
import json
import sys
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from re3_jax.accelerators import targets
from re3_jax.accelerators.cost import Counter
from re3_jax.accelerators.hlo import parse
from re3_jax.accelerators.targets import TARGETS, Target
from re3_jax.knn.inputs import Queries, rows_of
from re3_jax.knn.search import search_ring
from re3_jax.replay import latent_ring

LISTED = 4


class Case(NamedTuple):
    """Sizes of a search; RAD's at the paper's size is the first."""

    queries: int
    rows: int
    dimension: int
    k: int


CASES = Case(512, 100_000, 50, 4), Case(4096, 1_000_000, 64, 4)


def report_case(case: Case, target: Target) -> dict[str, Any]:
    """What a search must move, and what both programs move."""
    numbers = (case.queries + case.rows) * case.dimension + case.rows + case.queries * case.k
    programs = {
        name: of_program(case, target, fused) for name, fused in (("xla", False), ("kernel", True))
    }
    for moved in programs.values():
        moved["ratio_to_must"] = round(moved["bytes"] / (4 * numbers), 2)
    return case._asdict() | {"must_bytes": 4 * numbers} | programs


def of_program(case: Case, target: Target, fused: bool) -> dict[str, Any]:
    """Compiles a search of a full ring and counts."""
    on_device = jax.sharding.SingleDeviceSharding(targets.devices(target)[0])

    def search(queries, ring):
        rows, num_rows = rows_of(ring._replace(num_valid=jnp.int32(case.rows)), False)
        nobody = jnp.full(case.queries, -1, jnp.int32)
        of_ring = partial(search_ring, k=case.k, excluding=False, fused=fused)
        return of_ring(Queries(queries, None), nobody, rows, num_rows)

    ring = jax.eval_shape(partial(latent_ring.init, case.rows, case.dimension))
    queries = jax.ShapeDtypeStruct((case.queries, case.dimension), jnp.float32)
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=on_device), (queries, ring)
    )
    compiled: Any = jax.jit(search).lower(*shapes).compile()
    # Loops without a stated length search again for queries that stage 1 could not settle.
    counter = Counter(parse(compiled.as_text()), unstated_trips=0)
    by_bytes = sorted(counter.executed, key=lambda each: -each.times * each.cost.bytes_accessed)
    return {
        "bytes": int(counter.total.bytes_accessed),
        "operations": int(counter.total.operations),
        "instructions": int(counter.total.instructions),
        "temporary_bytes": compiled.memory_analysis().temp_size_in_bytes,
        "least_ms": round(1e3 * counter.total.seconds(target), 3),
        "largest": [
            {
                "instruction": it.name,
                "writes": [" x ".join(map(str, shape.dims)) for shape in it.shapes],
                "times": int(times),
                "bytes": int(times * cost.bytes_accessed),
            }
            for it, times, cost in by_bytes[:LISTED]
        ],
    }


def main() -> None:
    """Counts all cases and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    gpus = [name for name, target in TARGETS.items() if target.platform == "cuda"]
    parser.add_argument("--target", choices=gpus, default="h100")
    target = TARGETS[parser.parse_args().target]
    if (missing := targets.missing_compiler(target)) is not None:
        remedy = f"make compile TARGET={target.name} builds .venv-compile, which has it"
        print(f"knn_bytes is left out: {missing} is not installed; {remedy}", file=sys.stderr)
        return
    # A plugin without its device would be tried, and complain.
    jax.config.update("jax_platforms", "cpu")
    report = {
        "target": target._asdict(),
        "versions": {
            name: importlib.metadata.version(name) for name in ("jax", "jax-cuda12-plugin")
        },
        "cases": [report_case(case, target) for case in CASES],
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
