# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # A bonus in your own loop
#
# Your loop keeps NumPy arrays and knows nothing of JAX. `NumpyBonus` puts any bonus of this library into it. Here the
# loop is Q-learning with a table: a point moves on a square, from one corner, and is paid only in the opposite one.

# %%
import matplotlib.pyplot as plt
import numpy as np

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.interop.numpy_bonus import NumpyBonus
from re3_jax.intrinsic import RE3Config, Step, from_config

CELLS, LANES, ROLLOUT, EPISODE = 20, 4, 25, 100
MOVES = 0.03 * np.array([(0, 1), (0, -1), (1, 0), (-1, 0)])


def cell(place):
    """The cell of the table, of the 20 by 20, in which each place of the unit square lies."""
    return tuple(np.minimum(place * CELLS, CELLS - 1).astype(int).T)


# %% [markdown]
# ## Say what the task looks like
#
# A bonus needs the shape, dtype and actions of the task. It compares observations by distance, so their coordinates
# should have similar ranges, as those of a unit square have.
#
# The paper uses the third neighbour. `count_self=False` leaves the observation itself out. `ring_size` is how much the
# bonus remembers.

# %%
SPEC = EnvSpec("square", (2,), np.dtype(np.float32), Discrete(4), max_agent_steps=EPISODE)
RE3 = from_config(
    RE3Config(3, 3, count_self=False, beta=1.0, ring_size=5_000, normalize="running_std")
)


# %% [markdown]
# ## The loop
#
# The lines marked `RE3` are all that the bonus takes: one object, and one call for each rollout.


# %%
def train(bonus_weight, seed, rollouts=200):
    """Visits of each cell, and how often the goal was reached."""
    rng = np.random.default_rng(seed)
    bonus = NumpyBonus(RE3, SPEC, LANES, seed)  # RE3
    value, visits, goals = np.zeros((CELLS, CELLS, 4)), np.zeros((CELLS, CELLS)), 0
    place = np.zeros((LANES, 2))
    for rollout in range(rollouts):
        steps = []
        for _ in range(ROLLOUT):
            greedy = (value[cell(place)] + 1e-6 * rng.random((LANES, 4))).argmax(-1)
            action = np.where(rng.random(LANES) < 0.1, rng.integers(4, size=LANES), greedy)
            after = np.clip(place + MOVES[action] + rng.normal(0, 0.01, (LANES, 2)), 0, 1)
            reached = (after > 1 - 1 / CELLS).all(-1)
            np.add.at(visits, cell(after), 1)
            goals += reached.sum()
            steps.append((place, action, reached.astype(float), after))
            place = np.where(reached[:, None], 0, after)
        seen, actions, rewards, following = map(np.array, zip(*steps, strict=True))
        paid, info = bonus.reward_rollout(Step(seen))  # RE3
        total = rewards + bonus_weight * paid  # RE3
        for s, a, r, after in zip(seen, actions, total, following, strict=True):
            target = r + 0.95 * value[cell(after)].max(-1)
            value[*cell(s), a] += 0.3 * (target - value[*cell(s), a])
        if (rollout + 1) * ROLLOUT % EPISODE == 0:
            place = np.zeros((LANES, 2))
    return visits, goals, info


# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6))
for axis, weight in zip(axes, (0.0, 0.1), strict=True):
    visits, goals, info = train(weight, seed=1)
    axis.imshow(np.log1p(visits), origin="lower")
    share = (visits > 0).mean()
    axis.set_title(f"bonus x {weight}: {share:.0%} of the cells, goal {goals} times")
plt.show()

# %% [markdown]
# Without the bonus the agent stays near its start. Over several seeds:

# %%
for weight in (0.0, 0.1):
    shares = [(train(weight, seed)[0] > 0).mean() for seed in range(2, 7)]
    print(f"bonus x {weight}: share of cells visited, five seeds: {np.round(shares, 2)}")

# %% [markdown]
# ## Look at the numbers
#
# `info` has the diagnostics of the last rollout. If `intrinsic_reward_p05` and `_p95` were equal, the bonus would not
# tell states apart; if `nearest_distance_p50` were always 0, the encoder or its input would be wrong. See [Is my bonus
# right?](../diagnostics.md)

# %%
for name, value in sorted(info.items()):
    print(f"{name:26} {value:.4f}")

# %% [markdown]
# ## Off-policy, and other libraries
#
# A loop with a replay calls `bonus.observe` once for every step and stores the index that it returns; it calls
# `bonus.reward` for every batch, so old transitions are paid by what is new *now* (Algorithm 1 of the paper). [RE3 in
# your own loop](../your_own_loop.md) has complete files for Stable-Baselines3, CleanRL, PureJaxRL, brax and PyTorch.
