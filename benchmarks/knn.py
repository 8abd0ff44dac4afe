"""Milliseconds of the exact k-NN search beside its floor and other ways to do it, in one run.

    python -m benchmarks.knn [--rounds N] [--rows N] [--jax-only]

Prints one JSON object.

The floor of a case is the time of its product of queries and rows alone, 2 x queries x rows x
dimension operations at the rate of this machine's float32 product of two 2048 x 2048 matrices.
All methods and that product take turns, round by round, on the same queries, so that what else
the machine does meets them alike; a figure is the median over rounds, a ratio the median of the
ratios to the floor of the same round. Each method's largest error is that of its distances on
some queries, against float64. FAISS appears where it is installed (`pip install faiss-cpu`). On a
GPU there is one case more, of a million rows, PyTorch searches on the same device, and no library
of the CPU does.
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.distance import cdist

from benchmarks import hardware
from re3_jax import knn, random_encoder
from re3_jax.envs.device import minigrid
from re3_jax.replay import latent_ring
from re3_jax.runs import machine

PEAK_SIZE = 2048
SEEDS = (1, 5, 20)
CALLS_IN_SCAN = 20
CHECKED_QUERIES = 16


class Method(NamedTuple):
    """One way to search: `run()` makes `calls` searches; `error` is its largest, checked once."""

    run: Callable[[], Any]
    calls: int
    error: float


def minigrid_latents(count: int) -> np.ndarray:
    """Latents of DoorKey-8x8 under random actions: few distinct states, most of them repeated."""
    env, lanes = minigrid.make("DoorKey-8x8"), 128
    params = random_encoder.init(jax.random.key(0), env.spec)

    @jax.jit
    def collect(key):
        state, _ = jax.vmap(env.reset)(jax.random.split(key, lanes))

        def step(carry, key):
            action = jax.random.randint(key, (lanes,), 0, 7)
            state, after = jax.vmap(env.step)(carry, action, jax.random.split(key, lanes))
            return state, random_encoder.encode(params, after.observation)

        return jax.lax.scan(step, state, jax.random.split(key, -(-count // lanes)))[1]

    latents = np.asarray(collect(jax.random.key(1)))
    return latents.reshape(-1, latents.shape[-1])[:count]


def walk_latents(count: int, dim: int) -> np.ndarray:
    """Normalised latents of episodes of 250 steps that drift through 12 dimensions."""
    rng = np.random.default_rng(0)
    steps = 0.1 * rng.normal(size=(-(-count // 250), 250, 12))
    hidden = np.tanh(np.cumsum(steps, axis=1).reshape(-1, 12)[:count] @ rng.normal(size=(12, 64)))
    latents = hidden @ rng.normal(size=(64, dim))
    latents -= latents.mean(axis=1, keepdims=True)
    return np.tanh(latents / latents.std(axis=1, keepdims=True)).astype(np.float32)


def circle_latents(count: int, dim: int) -> np.ndarray:
    """Latents near a circle far smaller than its distance from the origin, as a pendulum's frames.

    A product in float32 does not order most of them.
    """
    rng = np.random.default_rng(0)
    angle = rng.uniform(high=2 * np.pi, size=count)
    circle = np.stack([0.3 * np.cos(angle), 0.3 * np.sin(angle), np.full(count, 4.3)], axis=1)
    latents = circle @ np.linalg.qr(rng.normal(size=(dim, 3)))[0].T
    return (latents + 1e-3 / dim**0.5 * rng.normal(size=(count, dim))).astype(np.float32)


def fill(rows: np.ndarray, capacity: int) -> latent_ring.LatentRing:
    """A ring that holds `rows`."""
    return latent_ring.add(latent_ring.init(capacity, rows.shape[1]), jnp.asarray(rows))[0]


def in_scan(search: Callable, queries: np.ndarray, ring: latent_ring.LatentRing, calls: int):
    """`calls` searches as one program, as the training loop makes them."""

    @jax.jit
    def run(queries, ring):
        def body(carry, _):
            # The carry keeps XLA from hoisting the search out of the loop.
            found = search(queries + carry, ring)
            return 0.0 * jnp.max(found), found

        return jax.lax.scan(body, 0.0, None, length=calls)[1][0]

    on_device = jnp.asarray(queries)
    return finished(run, on_device, ring)


def jax_matrix(queries, ring, k):
    """The obvious JAX program: the whole matrix of distances, then `top_k`."""
    product = jnp.dot(queries, ring.latents.T, precision=jax.lax.Precision.HIGHEST)
    norms = jnp.sum(queries**2, axis=1, keepdims=True)
    squared = norms - 2 * product + ring.squared_norms
    return jnp.sqrt(jnp.maximum(-jax.lax.top_k(-squared, k)[0], 0.0))


def torch_matrix(queries, rows, k):
    """PyTorch's distances by a product, then its `topk`."""
    import torch

    distance = torch.cdist(queries, rows, compute_mode="use_mm_for_euclid_dist")
    return distance.topk(k, largest=False)[0]


def authors_broadcast(queries, rows, k):
    """The released code: differences in chunks of 10,000 rows, then the smallest of all."""
    import torch

    chunks = [
        torch.norm(queries[:, None] - chunk[None], dim=-1, p=2) for chunk in rows.split(10_000)
    ]
    return torch.cat(chunks, dim=1).topk(k, largest=False)[0]


def methods_of(
    rows: np.ndarray, num_queries: int, k: int, calls: int, authors: str, jax_only: bool
) -> dict[str, Method]:
    """All ways to search the k nearest of `rows` for stored queries, the first call made."""
    queries = np.random.default_rng(1).permutation(rows)[:num_queries]
    ring = fill(rows, len(rows))
    runs = {
        "re3_jax": in_scan(partial(knn.nearest_distances, k=k), queries, ring, calls),
        "jax_matrix_and_top_k": in_scan(partial(jax_matrix, k=k), queries, ring, calls),
    }
    if not jax_only:
        runs |= other_libraries(rows, queries, k, authors)
    checked = cdist(queries[:CHECKED_QUERIES].astype(np.float64), rows.astype(np.float64))
    truth = np.sort(checked, axis=1)[:, :k]
    return {
        name: Method(
            run,
            calls if name in ("re3_jax", "jax_matrix_and_top_k") else 1,
            float(np.max(np.abs(np.asarray(run())[:CHECKED_QUERIES] - truth))),
        )
        for name, run in runs.items()
    }


def other_libraries(
    rows: np.ndarray, queries: np.ndarray, k: int, authors: str
) -> dict[str, Callable[[], Any]]:
    """The same search by other libraries; `authors` is PyTorch's name of a dtype."""
    import torch

    from benchmarks import beside

    beside.as_jax_does()
    tensors = torch.as_tensor(queries), torch.as_tensor(rows.copy())
    as_authors = [tensor.to(getattr(torch, authors)) for tensor in tensors]
    runs = {
        "torch_cdist_and_topk": beside.finished(torch_matrix, *tensors, k),
        "authors_broadcast": beside.finished(authors_broadcast, *as_authors, k),
    }
    if jax.default_backend() != "cpu":
        return runs
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(algorithm="brute").fit(rows)
    runs["scikit_learn_brute"] = lambda: index.kneighbors(queries, k)[0]
    if importlib.util.find_spec("faiss"):
        faiss = importlib.import_module("faiss")
        flat = faiss.IndexFlatL2(rows.shape[1])
        flat.add(rows)
        runs["faiss_flat"] = lambda: np.sqrt(np.maximum(flat.search(queries, k)[0], 0.0))
    return runs


def finished(function: Callable, *arguments: Any) -> Callable[[], Any]:
    """A call that waits for its result."""
    return lambda: jax.block_until_ready(function(*arguments))


def seconds_of(run: Callable[[], Any]) -> float:
    """Wall-clock seconds of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak() -> Callable[[], Any]:
    """The matrix product that defines the floor."""
    matrix = jax.random.normal(jax.random.key(0), (PEAK_SIZE, PEAK_SIZE))
    product = jax.jit(partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST))
    return finished(product, matrix, matrix)


def take_turns(
    runs: dict[str, Callable[[], Any]], rounds: int, warm: bool = False
) -> dict[str, np.ndarray]:
    """Seconds of each run in each round; the order changes from round to round.

    With `warm`, each runs once more before it is timed, as what follows itself in training does:
    another's data have left the caches, and another's threads have stopped to wait for work.
    """
    for run in runs.values():
        run()
    seconds, rng = {name: np.zeros(rounds) for name in runs}, np.random.default_rng(0)
    for turn in range(rounds):
        for place in rng.permutation(len(runs)):
            name = list(runs)[place]
            if warm:
                runs[name]()
            seconds[name][turn] = seconds_of(runs[name])
    return seconds


def report_case(rows, num_queries, k, calls, authors, words) -> dict[str, Any]:
    """Times all methods on one case."""
    methods = methods_of(rows, num_queries, k, calls, authors, words.jax_only)
    runs = {name: method.run for name, method in methods.items()}
    seconds = take_turns({"peak": peak(), **runs}, words.rounds)
    num_queries = min(num_queries, len(rows))
    operations = 2 * num_queries * rows.size
    floor = 1e3 * seconds["peak"] * operations / (2 * PEAK_SIZE**3)
    figures = {}
    for name, method in methods.items():
        milliseconds = 1e3 * seconds[name] / method.calls
        figures[name] = {
            "ms": round(float(np.median(milliseconds)), 3),
            "ms_fastest": round(float(np.min(milliseconds)), 3),
            "ratio_to_floor": round(float(np.median(milliseconds / floor)), 2),
            "largest_error": float(f"{method.error:.1e}"),
        }
    return {
        "queries": num_queries,
        "rows": len(rows),
        "dimension": rows.shape[1],
        "k": k,
        "distinct_rows": len(np.unique(rows, axis=0)),
        "searches_in_one_program": calls,
        "floor_ms": round(float(np.median(floor)), 3),
        "floor_ms_fastest": round(float(np.min(floor)), 3),
        "peak_gflops": round(2e-9 * PEAK_SIZE**3 / float(np.median(seconds["peak"]))),
        "methods": figures,
    }


def report_growth(rows, num_queries, k, rounds) -> dict[str, Any]:
    """Milliseconds as a ring fills: one compiled program, `num_valid` is traced."""
    queries = rows[:num_queries]
    search = jax.jit(partial(knn.nearest_distances, k=k))
    fills = [len(rows) // parts for parts in (100, 10, 4, 2, 1)]
    rings = {str(count): fill(rows[:count], len(rows)) for count in fills}
    runs = {name: finished(search, queries, ring) for name, ring in rings.items()}
    seconds = take_turns(runs, rounds)
    return {name: round(float(np.median(1e3 * taken)), 3) for name, taken in seconds.items()}


def report_seeds(rows, num_queries, k, rounds) -> dict[str, Any]:
    """S searches of S rings as one vmapped program, beside S calls of the single search."""
    queries, ring = jnp.asarray(rows[:num_queries]), fill(rows, len(rows))
    search = partial(knn.mean_distance, k=k)
    single, vmapped = jax.jit(search), jax.jit(jax.vmap(search))
    runs: dict[str, Callable[[], Any]] = {}
    for count in SEEDS:
        rings = [jax.tree.map(jnp.copy, ring) for _ in range(count)]
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *rings)
        repeated = jnp.stack([queries] * count)
        runs[f"single {count}"] = finished(lambda rings: [single(queries, r) for r in rings], rings)
        runs[f"vmapped {count}"] = finished(vmapped, repeated, stacked)
    seconds = take_turns(runs, rounds)
    figures = {}
    for count in SEEDS:
        one_by_one, together = seconds[f"single {count}"], seconds[f"vmapped {count}"]
        figures[str(count)] = {
            "ms": round(float(np.median(1e3 * together)), 3),
            "ms_single_calls": round(float(np.median(1e3 * one_by_one)), 3),
            "ratio_to_single_calls": round(float(np.median(together / one_by_one)), 3),
        }
    return figures


def main() -> None:
    """Runs all cases and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each method")
    parser.add_argument("--rows", type=int, default=100_000, help="of the largest case")
    parser.add_argument("--jax-only", action="store_true", help="no other libraries")
    words = parser.parse_args()
    rounds = words.rounds
    grid, walk = minigrid_latents(words.rows // 10), walk_latents(words.rows, 50)
    cases = {
        "minigrid_a2c": report_case(grid, 128, 5, CALLS_IN_SCAN, "float64", words),
        "rad": report_case(walk, 512, 4, 1, "float32", words),
        "pendulum_small": report_case(
            circle_latents(words.rows // 10, 50), 64, 3, CALLS_IN_SCAN, "float32", words
        ),
        "dreamer": report_case(walk[::40].copy(), 2500, 53, 1, "float32", words),
    }
    if jax.default_backend() != "cpu":
        # PyTorch's matrix of distances would take 16 GB, more than once.
        words.jax_only = True
        million = walk_latents(10 * words.rows, 64)
        cases["million"] = report_case(million, 4096, 4, 1, "float32", words)
    report = {
        "hardware": hardware.describe(),
        "rounds": rounds,
        "cases": cases,
        "ms_as_the_ring_fills": {
            "minigrid_a2c": report_growth(grid, 128, 5, rounds),
            "rad": report_growth(walk, 512, 4, rounds),
        },
        "minigrid_a2c_seeds": report_seeds(grid, 128, 5, rounds),
        "peak_device_bytes": machine.peak_device_bytes(),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
