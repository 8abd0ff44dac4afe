"""JAX with 64-bit types as its default: a run is refused, the parts for a user's loop agree."""

import os
import subprocess
import sys

import numpy as np
import pytest

PARTS = """
import sys
from functools import partial
import jax
import jax.numpy as jnp
import numpy as np
from re3_jax import augment, random_encoder
from re3_jax.envs import registry
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import RE3Config, Step, from_config, icm, vcse
from re3_jax.intrinsic.rewarding import reward_rollout

found = {}


def rewarded(bonus, state, steps):
    return jax.jit(partial(reward_rollout, bonus))(state, steps, jnp.int32(0), key)[0]


for task in ("empty_16x16", "doorkey_6x6", "multiroom_n6", "keycorridor_s3r3"):
    env = registry.make(task)

    def episode(key):
        state, first = env.reset(key)
        state, timestep = env.step(state, jnp.int32(2), key)
        return first, state, timestep

    leaves = jax.tree.leaves(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), 16)))
    found |= {f"{task}{place}": leaf for place, leaf in enumerate(leaves)}

bar = registry.make("pixels:bar")
found["place of the bar"], *_ = bar.reset(jax.random.key(0))[0]

spec = EnvSpec("plane", (3,), np.dtype(np.float32), Discrete(2), max_agent_steps=9)
bonus = from_config(RE3Config(ring_size=64, beta=0.1, last_neighbour=3, first_neighbour=3))
steps = Step(jnp.asarray(np.random.default_rng(0).normal(size=(8, 4, 3))))
start, key = bonus.init(jax.random.key(1), spec, 4), jax.random.key(2)
found["reward"] = rewarded(bonus, start, steps)
# The ring is searched in blocks, and half full.
large = from_config(RE3Config(ring_size=10_000, beta=0.1))
start = large.init(jax.random.key(1), spec, 4)
steps = Step(jnp.asarray(np.random.default_rng(1).normal(size=(1_200, 4, 3))))
found["reward of a large ring"] = rewarded(large, start, steps)
curious = icm.from_config(icm.ICMConfig(hidden_dim=8, latent_dim=4, beta=0.1))
action, flag = jnp.zeros((8, 4), jnp.int32), jnp.zeros((8, 4), bool)
seen = jnp.asarray(np.random.default_rng(2).normal(size=(9, 4, 3)), jnp.float32)
steps = Step(seen[:-1], action, seen[1:], flag, flag)
start = jax.jit(partial(curious.init, spec=spec, num_lanes=4))(jax.random.key(1))
found["reward of ICM"] = rewarded(curious, start, steps)
# A rollout of more than 256 steps, whose copies are merged.
valued = vcse.from_config(vcse.VCSEConfig(), RE3Config(ring_size=600, merge_copies=True))
kind = np.random.default_rng(3).integers(0, 50, 600).reshape(150, 4)
seen = jnp.asarray(np.random.default_rng(4).normal(size=(50, 3))[kind], jnp.float32)
steps = Step(seen, value=jnp.asarray(kind, jnp.float32))
start = valued.init(jax.random.key(1), spec, 4)
found["reward of VCSE"] = rewarded(valued, start, steps)
images = np.random.default_rng(5).integers(0, 255, (6, 12, 12, 3), dtype=np.uint8)
for kind in (jnp.uint8, jnp.float32):
    given = jnp.asarray(images, kind)
    found[f"crop of {kind.__name__}"] = augment.random_crop(key, given, 8)
    found[f"shift of {kind.__name__}"] = augment.random_shift(key, given, 2)
np.savez(sys.argv[1], **found)
"""


def with_64_bits(*words, **options):
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=1200, **options
    )


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    found = []
    for name, flag in (("narrow", "0"), ("wide", "1")):
        file = folder / f"{name}.npz"
        env = {**os.environ, "JAX_ENABLE_X64": flag}
        done = with_64_bits("-c", PARTS, str(file), env=env)
        assert done.returncode == 0, done.stderr
        found.append(dict(np.load(file)))
    return found


def test_minigrid_and_re3_compute_the_same_with_64_bits(parts):
    narrow, wide = parts
    assert narrow["reward"].any()
    for name, expected in narrow.items():
        assert wide[name].dtype == expected.dtype, name
        np.testing.assert_array_equal(wide[name], expected, err_msg=name)


def test_a_run_with_64_bits_is_refused(tmp_path):
    env = {**os.environ, "JAX_ENABLE_X64": "1"}
    words = ("--env", "doorkey_6x6", "--preset", "debug", "--out", str(tmp_path / "run"))
    done = with_64_bits("-m", "experiments.train", *words, env=env)
    assert done.returncode == 2
    assert "unset JAX_ENABLE_X64" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()
