# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Write your own bonus
#
# A bonus is four pure functions over a state that you choose. This tutorial writes one, checks it
# against a number that is known, and trains with it. The bonus counts: it pays `1 / sqrt(n)` for an
# observation that was seen `n` times.

# %%
import jax
import jax.numpy as jnp
import numpy as np
import optax

import re3_jax
from re3_jax import fingerprint
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import IntrinsicBatch, IntrinsicReward, Step, chain, scale_by_schedule
from re3_jax.runs import bonuses

BUCKETS = 4096


# %% [markdown]
# ## Four functions
#
# - `init` draws the state: here, the counts of hashed observations.
# - `observe` sees every step once, when it is stored. It returns the state and an index, which the
#   replay stores with the step.
# - `reward` pays a batch, whenever a batch is used. It gets the observations and that index back.
#   The third thing it returns becomes columns of `train.csv`.
# - `update` trains what a bonus learns. A count learns nothing.
#
# `fingerprint.of` gives equal observations equal numbers.


# %%
def bucket(observation):
    """The hashed place of each observation."""
    return fingerprint.of(observation) % BUCKETS


def count() -> IntrinsicReward:
    """1 / sqrt(n), n the number of times that the observation was stored."""

    def init(key, spec, num_lanes=1):
        return jnp.zeros(BUCKETS, jnp.int32)

    def observe(counts, step):
        place = bucket(step.observation)
        return counts.at[place].add(1), place.astype(jnp.int32)

    def reward(counts, batch):
        n = counts[batch.bonus_index]
        return jnp.maximum(n, 1) ** -0.5, counts, {"seen_once": jnp.mean(n == 1, dtype=jnp.float32)}

    def update(counts, batch, key):
        return counts, {}

    return IntrinsicReward(init, observe, reward, update)


# %% [markdown]
# ## Check it
#
# The first observation below is stored four times, the second once. The rewards must be 1/2 and 1.
# `jax.jit` must accept every function: nothing may depend on Python values of arrays.

# %%
spec = EnvSpec("line", (1,), np.dtype(np.float32), Discrete(2), max_agent_steps=10)
bonus = count()
state = bonus.init(jax.random.key(0), spec)
seen = jnp.array([[0.5], [0.5], [0.5], [0.5], [2.0]])
state, index = jax.jit(bonus.observe)(state, Step(seen))
batch = IntrinsicBatch(seen, jnp.zeros(5, jnp.int32), seen, index, jnp.int32(0))
paid, state, info = jax.jit(bonus.reward)(state, batch)
np.testing.assert_allclose(paid, [0.5, 0.5, 0.5, 0.5, 1.0])
print(paid, info)

# %% [markdown]
# ## Scale it
#
# Transforms compose: `chain` passes the reward through them from left to right. `scale_by_schedule`
# multiplies by `beta_t`. `log1p`, `normalize_by_running_std` and any of your own fit too.

# %%
scaled = chain(count(), scale_by_schedule(optax.constant_schedule(0.01)))
state, index = scaled.observe(scaled.init(jax.random.key(0), spec), Step(seen))
paid, state, info = scaled.reward(state, batch)
np.testing.assert_allclose(paid, 0.01 * np.array([0.5, 0.5, 0.5, 0.5, 1.0]), rtol=1e-6)

# %% [markdown]
# ## Train with it
#
# Registered under a name, the bonus is in every agent, on every task, seeds and all. In a file of
# its own, the same lines are a plugin: `make run ENV=doorkey_6x6 BONUS=count ARGS="--plugin
# my_bonus.py"` ([Extending](../extending.md)).

# %%
bonuses.register(bonuses.Bonus(name="count", groups=(), make=lambda run, re3: scaled))
run = re3_jax.train("minigrid:DoorKey-5x5", bonus="count", seeds=3, steps=51_200, progress=False)
print(run.curves["return_mean"][:, -1], run.metrics["state_coverage"][:, -1])

# %% [markdown]
# The share of observations seen once is in the table already, because `reward` returned it:

# %%
print(run.metrics["seen_once"].mean(0).round(4)[:10])
