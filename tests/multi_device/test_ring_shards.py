"""A seed whose ring is divided among four (virtual) devices computes what it does on one."""

from functools import partial
from pathlib import Path

import pytest

from tests.multi_device.launch import finished, launch
from tests.resume.compare import assert_close_run, assert_rows_close

pytestmark = pytest.mark.multi_device

SHARED = """
import dataclasses
import jax, jax.numpy as jnp, numpy as np
from re3_jax.accelerators.cost import COLLECTIVES, Counter
from re3_jax.accelerators.hlo import parse
from re3_jax.envs.base import EnvSpec, Discrete
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.re3 import RE3Config, from_config
from re3_jax.replay import latent_ring, sharded_ring
from re3_jax.training.seeds import OverSeeds

assert jax.device_count() == 4

def numbers(tree):
    def of(x):
        is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(x) if is_key else x)
    return jax.tree.map(of, tree)

def assert_equal(ours, theirs):
    ours, theirs = (jax.tree_util.tree_leaves_with_path(numbers(x)) for x in (ours, theirs))
    for (path, x), (_, y) in zip(ours, theirs, strict=True):
        name = jax.tree_util.keystr(path)
        assert (x.dtype, x.shape) == (y.dtype, y.shape), name
        differ = np.sum(x != y) if x.tobytes() != y.tobytes() else 0
        assert x.tobytes() == y.tobytes(), f"{name} {differ} of {x.size}"

def over(shards, seeds=1):
    shares = min(seeds, 4 // shards)
    return OverSeeds(jax.devices()[: shards * shares], ring_shards=shards)

def assert_stays_divided(compiled, ring):
    counter = Counter(parse(compiled.as_text()))
    for instruction, _, _ in counter.executed:
        if instruction.opcode.removesuffix("-start") in COLLECTIVES:
            assert sum(shape.num_bytes for shape in instruction.shapes) < ring / 8, instruction
    assert counter.largest_copy < ring / 8
"""

RING = (
    SHARED
    + """
CAPACITY, DIM = 40, 3
rng = np.random.default_rng(0)

def stored(shards, seeds, sizes):
    ring = sharded_ring if shards > 1 else latent_ring
    def write(ring_state, latents, identity):
        return ring.add(ring_state, latents, identity)
    compiled = over(shards, seeds).compile
    state = compiled(lambda seed: ring.init(CAPACITY, DIM))(jnp.arange(seeds))
    add, rng = compiled(write, donate=0), np.random.default_rng(1)
    places = []
    for size in sizes:
        latents = rng.normal(size=(seeds, size, DIM)).astype(np.float32)
        # Bits that a sum of floats would change.
        latents[:, 0, 0], latents[:, -1, 1] = -0.0, np.nan
        identity = rng.integers(0, 2**32, (seeds, size), dtype=np.uint32)
        state, place = add(state, latents, identity)
        places.append(place)
    def take(state, row):
        if shards > 1:
            return sharded_ring.take(state, row)
        return state.latents[row], state.fingerprints[row]
    rows = np.broadcast_to(np.array([0, 39, 9, 10, 10, 31]), (seeds, 6))
    return tuple(state), places, compiled(take)(state, rows)

# Turning over, across slices, a whole ring at once, one row.
sizes = (7, 30, 9, 40, 1, 13)
one = stored(1, 1, sizes)
assert one[0][0].sharding.device_set == {jax.devices()[0]}
for shards in (2, 4):
    found = stored(shards, 1, sizes)
    assert_equal(found, one)
    slices = found[0][0].addressable_shards
    assert [part.data.shape for part in slices] == [(1, CAPACITY // shards, DIM)] * shards
# Two seeds, side by side on two devices each, and both on the same two.
two = stored(1, 2, sizes)
assert_equal(stored(2, 2, sizes), two)
both = OverSeeds(jax.devices()[:2], ring_shards=2)
over = lambda shards, seeds: both
assert_equal(stored(2, 2, sizes), two)
print("equal")
"""
)

BONUS = (
    SHARED
    + """
import json, sys

CAPACITY, BATCH = 40_000, 16
spec = EnvSpec("probe", (12,), np.dtype(np.float32), Discrete(2), 10)
EVERY = {"first_neighbour": 1, "last_neighbour": 4, "count_self": False, "latent_dim": 50}

def rewarded(shards, **options):
    config = RE3Config(ring_size=CAPACITY, ring_shards=shards, **EVERY, **options)
    bonus, compiled = from_config(config), over(shards).compile

    def observe(state, observation):
        blank = jnp.zeros(observation.shape[0])
        step = Step(observation, blank, observation, blank > 0, blank > 0)
        return bonus.observe(state, step)

    def reward(state, observation, index):
        batch = IntrinsicBatch(
            observation=observation, action=jnp.zeros(BATCH), next_observation=observation,
            bonus_index=index, agent_steps=jnp.int32(0),
        )
        return bonus.reward(state, batch)

    state = compiled(lambda seed: bonus.init(jax.random.key(seed), spec))(jnp.arange(1))
    observe, reward = compiled(observe, donate=0), compiled(reward, donate=0)
    rng, found, program = np.random.default_rng(0), [], None
    # Fewer rows than neighbours, one slice, three, a ring that turned over.
    for size in (2, 8_000, 21_000, 20_000):
        observation = rng.integers(0, 3, (1, size, 12)).astype(np.float32)
        state, index = observe(state, observation)
        take = rng.integers(0, size, BATCH)
        arguments = observation[:, take], index[:, take]
        program = program or reward.lower(state, *arguments).compile()
        distance, state, info = program(state, *arguments)
        found.append(numbers((index, distance, info)))
    if shards > 1:
        assert_stays_divided(program, 4 * CAPACITY * 50 * config.ensemble_size)
    return (found, state), program.memory_analysis().temp_size_in_bytes

options = json.loads(sys.argv[1])
(on_one, whole), (on_four, quarter) = rewarded(1, **options), rewarded(4, **options)
assert_equal(on_four, on_one)
assert quarter < whole / 2, (quarter, whole)
print("equal")
"""
)


LOOPS = (
    SHARED
    + """
import sys
from re3_jax.agents.a2c import learner as a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.dreamer import learner as dreamer
from re3_jax.agents.rainbow import learner as rainbow
from re3_jax.agents.sac import learner as sac
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.off_policy import make_off_policy_program
from re3_jax.training.on_policy import make_on_policy_program
from tests.probe_envs import corridor, countdown
from tests.probe_host_env import SIZE, DotLanes, spec
from tests.unit.test_no_copies import DREAMER, RAINBOW, SAC

CAPACITY, SMALL = 160, {"replay_capacity": 160}

def on_policy(bonus, **options):
    env, config = countdown(), A2CConfig(num_envs=4, rollout_length=5, hidden_dim=8)
    learner = a2c.make_learner(config, env.spec, bonus)
    return make_on_policy_program(env, learner, chunk_updates=4, **options)

def off_policy(bonus, **options):
    env, config = corridor(10), dataclasses.replace(RAINBOW, torso="mlp", **SMALL)
    learner = rainbow.make_learner(config, env.spec, bonus)
    return make_off_policy_program(env, learner, chunk_steps=40, **options)

def host(bonus, **options):
    learner = sac.make_learner(dataclasses.replace(SAC, **SMALL), spec(), bonus)
    return HostProgram(learner, DotLanes, seeds=[3], chunk_agent_steps=70, **options)

def host_of_dreamer(bonus, **options):
    learner = dreamer.make_learner(dataclasses.replace(DREAMER, **SMALL), spec(1, 64), bonus)
    lanes = lambda number: DotLanes(number, 64)
    return HostProgram(learner, lanes, seeds=[3], chunk_agent_steps=70, **options)

def trained(make, shards):
    config = RE3Config(
        ring_size=CAPACITY, ring_shards=shards, latent_dim=8, num_filters=4, image_crop=SIZE - 1,
        image_input="stacked_crop", normalize="running_std",
    )
    program = make(
        from_config(config), eval_episodes=2, eval_greedy=False, devices=jax.devices()[:shards],
        ring_shards=shards,
    )
    program.abstract_state(1)
    state = program.init(jnp.array([3]))
    program.compile(state)
    metrics = []
    for _ in range(3):
        state, info = program.train(state)
        metrics.append(info)
    parts = {len(leaf.sharding.device_set) for leaf in jax.tree.leaves(state)}
    assert parts == {shards}
    ring = state.intrinsic
    while hasattr(ring, "bonus"):
        ring = ring.bonus
    latents = ring.ring.latents
    assert latents.addressable_shards[0].data.shape[1] == CAPACITY // shards
    assert int(ring.ring.num_valid[0]) == CAPACITY and len(jax.tree.leaves(state)) > 40
    evaluation = program.start_evaluation(state)()
    return numbers((program.capture(state), metrics, evaluation))

make = globals()[sys.argv[1]]
on_four, on_one = trained(make, 4), trained(make, 1)
# On some processors XLA compiles an update of several devices to other instructions.
pairs = map(jax.tree_util.tree_leaves_with_path, (on_four, on_one))
for (path, ours), (_, theirs) in zip(*pairs, strict=True):
    name = jax.tree_util.keystr(path)
    rtol, atol = (1e-5, 1e-7) if np.issubdtype(theirs.dtype, np.floating) else (0.0, 0.0)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), name
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=name)
print("equal")
"""
)

A2C = (
    *("--env", "minigrid:DoorKey-5x5", "--preset", "debug", "--re3.no-merge-copies"),
    *("--chunk-updates", "4", "--evaluation.every-env-frames", "1280"),
    *("--evaluation.episodes", "4", "--loggers", "none"),
)
RAD = (
    *("--env", "pendulum_swingup", "--preset", "debug", "--dmc.renderer", "warp"),
    *("--dmc.image-size", "24", "--sac.augmentation", "shift", "--chunk-updates", "20"),
    *("--evaluation.every-env-frames", "400", "--evaluation.episodes", "1", "--loggers", "none"),
)
# XLA may round an update differently, and RAD's slices may take the other row of a near tie.
TO_ROUNDING = partial(assert_close_run, rel=1e-5)
UP_TO_TIES = partial(assert_rows_close, rel=0.02)
LEGS = [
    pytest.param(A2C, ((1280, 4), (2560, 1), (3840, 2)), TO_ROUNDING, id="a2c"),
    pytest.param(RAD, ((400, 1), (800, 4), (1200, 1)), UP_TO_TIES, id="rad"),
]


def run(script: str, *words: str) -> None:
    """In a process with four devices."""
    (out,) = finished(launch(1, ["-c", script, *words], devices=4))
    assert out.strip().endswith("equal"), out


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param(RING, (), id="ring"),
        pytest.param(BONUS, ('{"search_size": 24000, "ensemble_size": 2}',), id="bonus"),
        pytest.param(BONUS, ("{}",), id="bonus of all", marks=pytest.mark.slow),
    ],
)
def test_slices_are_the_ring(script, words):
    """Bit for bit: what is stored, looked up and searched; no ring is gathered or copied."""
    run(script, *words)


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["on_policy", "off_policy", "host", "host_of_dreamer"])
def test_a_trained_state_is_that_of_one_device(loop):
    """State, metrics and evaluation after the ring turned over: floats up to rounding."""
    run(LOOPS, loop)


def train(out: Path, words: tuple[str, ...], *more: str, processes: int = 1, devices: int = 4):
    command = ["-m", "experiments.train", *words, "--out", str(out), *more]
    finished(launch(processes, command, devices=devices))


@pytest.mark.slow
@pytest.mark.resume
@pytest.mark.parametrize(("words", "legs", "assert_close"), LEGS)
def test_a_run_goes_on_with_another_division(tmp_path, words, legs, assert_close):
    """From four devices to one and two, or from one to four and back: as a run on one device."""
    reference, out = tmp_path / "reference", tmp_path / "run"
    words = *words, "--seeds", "1"
    train(reference, words, "--steps", f"{legs[-1][0]}")
    for place, (steps, shards) in enumerate(legs):
        more = ("--resume",) if place else ()
        train(out, words, "--steps", f"{steps}", "--re3.ring-shards", f"{shards}", *more)
    assert_close(out, reference)


@pytest.mark.slow
@pytest.mark.resume
def test_two_processes_with_two_devices_each(tmp_path):
    """Each has one of two seeds; then one process has both, on two devices each."""
    reference, out = tmp_path / "reference", tmp_path / "run"
    words = *A2C, "--seeds", "2"
    train(reference, words, "--steps", "2560", devices=2)
    words = *words, "--re3.ring-shards", "2"
    train(out, words, "--steps", "1280", processes=2, devices=2)
    train(out, words, "--steps", "2560", "--resume")
    TO_ROUNDING(out, reference)
