"""Seeds spread over eight (virtual) devices give the same results as on one device."""

import subprocess
import sys

import pytest

from tests import virtual_devices

SCRIPT = """
import jax, jax.numpy as jnp, numpy as np
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.a2c.learner import make_learner
from re3_jax.envs.device import minigrid
from re3_jax.intrinsic.re3 import RE3Config, from_config
from re3_jax.training.on_policy import make_on_policy_program

assert jax.device_count() == 8
env = minigrid.make("DoorKey-6x6")
bonus = from_config(RE3Config(
    first_neighbour=1, last_neighbour=5, normalize="released_running_std", ring_size=10_000,
))
config = A2CConfig(num_envs=4, rollout_length=4)
results = []
for devices in (jax.devices()[:1], jax.devices()):
    program = make_on_policy_program(
        env, make_learner(config, env.spec, bonus), chunk_updates=6,
        eval_episodes=4, eval_greedy=False, devices=devices,
    )
    state = program.init(jnp.arange(16))
    for _ in range(2):
        state, metrics = program.train(state)
    assert {len(leaf.sharding.device_set) for leaf in jax.tree.leaves(state)} == {len(devices)}
    assert program.train._cache_size() == 1
    results.append(jax.device_get((state.agent, state.intrinsic, state.lanes, state.counters,
                                   metrics, program.evaluate(state))))

def compare(one, eight):
    one, eight = np.asarray(one), np.asarray(eight)
    if one.dtype.kind == "f":
        # Two seeds a device and sixteen on one are batched differently, so sums round differently.
        np.testing.assert_allclose(one, eight, rtol=1e-3, atol=1e-4)
    else:
        np.testing.assert_array_equal(one, eight)

jax.tree.map(compare, *results)
print("equal")
"""


@pytest.mark.slow
def test_eight_devices_equal_one():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=virtual_devices.environment(8),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("equal")
