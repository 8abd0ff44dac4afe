"""Seconds and memory of one update of Dreamer, with and without RE3, beside PyTorch.

    python -m benchmarks.dreamer_update [--updates N] [--contenders NAME ...]

Prints one JSON object. An update is all that the learner does with a batch of 50 sequences of 50
frames that is already drawn: the bonus, three losses and gradients, three Adam steps. Each
contender runs in its own process, so that its peak memory is its own too. They run one after the
other, so differences below ten percent are not reliable. `bonus` is RE3 alone, `knn` its
search, `bonus_whole_ring` the variant that searches all frames of a full replay instead, and
`encode_one_step` what RE3 does when a frame is stored (five times per update, as the authors
configure it). PyTorch's RE3 encodes the frames of each batch, as the authors' code does; its
update is the one that `tests/parity/test_dreamer.py` compares with ours.
"""

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks import hardware
from benchmarks.knn import fill
from re3_jax import compilation, knn
from re3_jax.agents.dreamer.agent import Dreamer, SequenceBatch
from re3_jax.agents.dreamer.config import Precision, SequenceNeighbours
from re3_jax.agents.dreamer.learner import reward_sequences
from re3_jax.intrinsic.base import IntrinsicState, Step, none
from re3_jax.replay.sequence_ring import Sequences
from re3_jax.runs import machine
from re3_jax.runs.build import make_bonus, task_spec
from re3_jax.runs.resolve import resolve

TASK = "cheetah_run_sparse"
CONFIG = resolve(TASK, agent="dreamer", preset="released")
SPEC = task_spec(CONFIG)
K = CONFIG.re3.last_neighbour


def make_batch() -> Sequences:
    """Frames of noise, because no layer's time depends on the frames."""
    rng, size, length = np.random.default_rng(0), CONFIG.dreamer.batch_size, 50
    return Sequences(
        frames=rng.integers(0, 256, (size, length + 1, 64, 64, 3)).astype(np.uint8),
        action=rng.uniform(-1, 1, (size, length + 1, 6)).astype(np.float32),
        reward=rng.random((size, length)).astype(np.float32),
        discount=np.ones((size, length), np.float32),
        bonus_index=np.zeros((size, length), np.int32),
    )


def ours(with_re3: bool, precision: Precision = "float32") -> Callable[[], object]:
    """Our update, donated as in training."""
    dreamer = Dreamer(dataclasses.replace(CONFIG.dreamer, precision=precision), SPEC)
    bonus = make_bonus(CONFIG) if with_re3 else none()

    def update(agent, intrinsic, batch, index, key):
        drawn = batch._replace(bonus_index=index)
        batch, intrinsic, reward_info = reward_sequences(bonus, intrinsic, drawn, jnp.int32(1), key)
        agent, info = dreamer.update(agent, batch, key)
        return agent, intrinsic, {**info, **reward_info}

    program, batch = compilation.jit(update, donate_argnums=(0, 1)), jax.device_put(make_batch())
    agent = jax.jit(dreamer.init)(jax.random.key(0))
    held = {"state": (agent, with_latents(bonus.init(jax.random.key(1), SPEC)))}

    def call() -> None:
        *state, info = program(*held["state"], batch, drawn_index(), jax.random.key(2))
        held["state"] = tuple(state)
        jax.block_until_ready((state, info))

    return call


def bonus_alone(neighbours: SequenceNeighbours = "stored_minibatch") -> Callable[[], object]:
    """RE3: gathering latents, the search, the running standard deviation."""
    dreamer = dataclasses.replace(CONFIG.dreamer, neighbours=neighbours)
    bonus = make_bonus(dataclasses.replace(CONFIG, dreamer=dreamer))
    state, batch = with_latents(bonus.init(jax.random.key(1), SPEC)), make_batch()
    program = jax.jit(
        lambda state, index: reward_sequences(
            bonus, state, batch._replace(bonus_index=index), jnp.int32(1), jax.random.key(0)
        )
    )
    return lambda: jax.block_until_ready(program(state, drawn_index()))


def stored() -> Callable[[], object]:
    """What RE3 adds to a step of one environment: encoding its frame and storing the latent."""
    bonus = make_bonus(CONFIG)
    held = {"state": bonus.init(jax.random.key(1), SPEC)}
    program = compilation.jit(bonus.observe, donate_argnums=0)
    frame = make_batch().frames[0, :1]

    def call() -> None:
        held["state"], index = program(held["state"], Step(frame))
        jax.block_until_ready((held["state"], index))

    return call


def with_latents(state: IntrinsicState) -> IntrinsicState:
    """The state of the bonus, its ring full of noise."""
    if not jax.tree.leaves(state):
        return state
    rows, latent_dim = state.bonus.ring.latents.shape
    latents = np.asarray(jax.random.normal(jax.random.key(0), (rows, latent_dim)))
    return state._replace(bonus=state.bonus._replace(ring=fill(latents, rows)))


def drawn_index() -> Array:
    """Places of the frames of a batch."""
    shape = CONFIG.dreamer.batch_size, CONFIG.dreamer.sequence_length
    return jax.random.randint(jax.random.key(3), shape, 0, CONFIG.dreamer.replay_capacity)


def search() -> Callable[[], object]:
    """The k-NN of the bonus among the 2,500 latents of a batch."""
    latents = np.asarray(jax.random.normal(jax.random.key(0), (2_500, CONFIG.re3.latent_dim)))
    ring = fill(latents, len(latents))
    program = jax.jit(lambda ring: knn.mean_distance(ring.latents, ring, k=K, first=K))
    return lambda: jax.block_until_ready(program(ring))


def torchs(with_re3: bool) -> Callable[[], object]:
    """PyTorch's update."""
    import torch

    from benchmarks import beside
    from tests.torch_oracle import dreamer as oracle
    from tests.torch_oracle.weights import as_tensors, detached

    beside.as_jax_does()
    key, c = jax.random.key(0), CONFIG.dreamer
    learner = oracle.TorchDreamer(c, jax.jit(Dreamer(c, SPEC).init)(key))
    batch = SequenceBatch(*map(torch.as_tensor, SequenceBatch.of(make_batch())))
    encoder = make_bonus(CONFIG).init(key, SPEC).bonus.encoder
    encoder = detached(as_tensors(encoder, torch.float32))

    def rewarded() -> SequenceBatch:
        frames = batch.frames.flatten(0, 1)  # type: ignore[call-arg]
        latents = oracle.latents(encoder, frames, c.head_order, torch.float32)
        bonus = CONFIG.re3.beta * oracle.distances(latents, K)
        return batch._replace(reward=batch.reward + bonus.reshape(batch.reward.shape))

    def call() -> object:
        noise = oracle.draw_noise(c, batch.action.shape[-1])
        found = learner.update(rewarded() if with_re3 else batch, noise)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return found

    return call


CONTENDERS: dict[str, Callable[[], Callable[[], object]]] = {
    "re3_jax": lambda: ours(False),
    "re3_jax+re3": lambda: ours(True),
    "re3_jax+re3 bfloat16": lambda: ours(True, "bfloat16"),
    "bonus": bonus_alone,
    "bonus_whole_ring": lambda: bonus_alone("ring"),
    "knn": search,
    "encode_one_step": stored,
    "torch": lambda: torchs(False),
    "torch+re3": lambda: torchs(True),
}


def measure(name: str, updates: int) -> dict[str, float | None]:
    """Times one contender in this process."""
    call, seconds = CONTENDERS[name](), []
    call()
    for _ in range(updates):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": round(float(np.median(seconds)), 4),
        "seconds_fastest": round(min(seconds), 4),
        "peak_gb": round(peak_kb * 1024 / 1e9, 2),
        "peak_device_bytes": machine.peak_device_bytes(),
    }


def main() -> None:
    """Runs every contender and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--updates", type=int, default=5, help="of each contender")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=[*CONTENDERS])
    parser.add_argument("--only", choices=list(CONTENDERS), help="one of them, in this process")
    words = parser.parse_args()
    if words.only:
        print(json.dumps(measure(words.only, words.updates)))
        return
    found = {}
    for name in words.contenders:
        command = [sys.executable, "-m", "benchmarks.dreamer_update", "--only", name]
        made = subprocess.run(
            [*command, "--updates", str(words.updates)], stdout=subprocess.PIPE, check=True
        )
        found[name] = json.loads(made.stdout)
    report = {
        "hardware": hardware.describe(),
        "updates": words.updates,
        "batch": [CONFIG.dreamer.batch_size, CONFIG.dreamer.sequence_length],
        "of_one_update": found,
        "times_faster_than_torch": {
            ours: round(found[theirs]["seconds"] / found[ours]["seconds"], 2)
            for ours, theirs in (("re3_jax", "torch"), ("re3_jax+re3", "torch+re3"))
            if {ours, theirs} <= found.keys()
        },
        "percent_of_update": {
            name: round(100 * found[name]["seconds"] / found["re3_jax+re3"]["seconds"], 2)
            for name in ("bonus", "bonus_whole_ring", "knn")
            if {name, "re3_jax+re3"} <= found.keys()
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
