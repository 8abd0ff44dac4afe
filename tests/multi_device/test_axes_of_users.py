"""A bonus on devices with data of their own gives each what that device alone would compute."""

import subprocess
import sys

from tests import virtual_devices

SCRIPT = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import RE3Config, Step, e3b, from_config, ngu, reward_rollout, rnd

assert jax.device_count() == 2
spec = EnvSpec("mine", (4,), np.dtype(np.float32), Discrete(2), max_agent_steps=500)
bonus = from_config(RE3Config(3, 3, count_self=False, beta=1.0, ring_size=256))
keys = jax.random.split(jax.random.key(0))
states = jax.vmap(lambda key: bonus.init(key, spec, 4))(keys)
observations = jax.random.normal(jax.random.key(7), (2, 6, 4, 4))

def rewards(state, observation, key):
    return reward_rollout(bonus, state, Step(observation), jnp.int32(0), key)[0]

def of_share(shares):
    return rewards(*jax.tree.map(lambda leaf: leaf[0], shares))[None]

shares = states, observations, keys
alone = np.stack([jax.jit(rewards)(*jax.tree.map(lambda leaf: leaf[i], shares)) for i in range(2)])
assert alone.std() > 0.01
for axis in ("batch", "ring"):
    mesh = Mesh(jax.devices(), (axis,))
    cut = jax.jit(jax.shard_map(of_share, mesh=mesh, in_specs=(P(axis),), out_specs=P(axis)))
    for found in cut(shares), jax.pmap(rewards, axis_name=axis)(*shares):
        np.testing.assert_allclose(found, alone, rtol=1e-6, atol=1e-6, err_msg=axis)

# A loop's carry must vary as what goes through it, and a new state does not yet.
bonuses = (
    e3b.from_config(e3b.E3BConfig(), num_stored=96),
    ngu.from_config(ngu.NGUConfig(), num_stored=96),
    rnd.from_config(rnd.RNDConfig()),
)
# NGU pays from the eleventh step of an episode on.
seen = jax.random.normal(jax.random.key(8), (2, 25, 4, 4))
action, ended = jnp.zeros((2, 24, 4), jnp.int32), jnp.zeros((2, 24, 4), bool)
steps = Step(seen[:, :-1], action, seen[:, 1:], ended, ended)
minibatches = jnp.arange(96).reshape(2, 48)
mesh = Mesh(jax.devices(), ("seed",))
for bonus in bonuses:
    def made_there(shares):
        steps, key = jax.tree.map(lambda leaf: leaf[0], shares)
        state = bonus.init(key, spec, 4)
        return reward_rollout(bonus, state, steps, jnp.int32(0), key, minibatches)[0][None]

    cut = jax.jit(jax.shard_map(made_there, mesh=mesh, in_specs=(P("seed"),), out_specs=P("seed")))
    each = [jax.tree.map(lambda leaf: leaf[i : i + 1], (steps, keys)) for i in range(2)]
    alone = np.concatenate([jax.jit(made_there)(shares) for shares in each])
    assert alone.any()
    np.testing.assert_allclose(cut((steps, keys)), alone, rtol=1e-5, atol=1e-5 * alone.max())
print("equal")
"""


def test_no_name_of_an_axis_changes_the_rewards():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=virtual_devices.environment(2),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("equal")
