# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Train and look
#
# This tutorial trains A2C with and without RE3 on a small MiniGrid task, and looks at what the
# bonus did. It takes about a minute on two cores. `DoorKey-5x5` pays a reward only at the goal: the
# agent must fetch a key, open a door and walk through it.

# %%
import matplotlib.pyplot as plt
import numpy as np

import re3_jax

TASK = "minigrid:DoorKey-5x5"
common = {"seeds": 3, "steps": 64_000, "progress": False}
runs = {
    bonus: re3_jax.train(TASK, bonus=bonus, evaluation={"every_env_frames": 6_400}, **common)
    for bonus in ("none", "re3")
}

# %% [markdown]
# All seeds of a run train in one program. `runs["re3"].config` holds every option; the terminal's
# form of this run is `make run ENV=minigrid:DoorKey-5x5 SEEDS=3 STEPS=64000`.
#
# ## The curve
#
# `curves` holds the evaluations. Returns lead with the seed. The band is one standard error over
# the seeds.

# %%
for bonus, run in runs.items():
    frames, returns = run.curves["env_frames"], run.curves["return_mean"]
    mean, error = returns.mean(0), returns.std(0, ddof=1) / np.sqrt(len(returns))
    plt.plot(frames, mean, label=f"A2C, bonus: {bonus}")
    plt.fill_between(frames, mean - error, mean + error, alpha=0.3)
plt.xlabel("env frames per seed")
plt.ylabel("evaluation return")
plt.legend()
plt.show()

# %% [markdown]
# Three seeds on one task are a look, not a comparison. `make compare` and the figures of the
# [reproduction](../reproduction.md) give intervals and the probability of improvement.
#
# ## What the bonus did
#
# `metrics` holds the columns of `train.csv`, one row for each chunk of training. `state_coverage`
# is the share of all states that the agent has visited so far: it measures the aim of a bonus
# without the task's reward.

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
for bonus, run in runs.items():
    left.plot(run.metrics["env_frames"], run.metrics["state_coverage"].mean(0), label=bonus)
left.set(xlabel="env frames per seed", ylabel="share of states visited")
left.legend()
re3 = runs["re3"].metrics
for name in ("p05", "p50", "p95"):
    right.plot(re3["env_frames"], re3[f"nearest_distance_{name}"].mean(0), label=name)
right.set(xlabel="env frames per seed", ylabel="distance to the nearest other latent")
right.legend()
plt.show()

# %% [markdown]
# The distances shrink as the ring fills with latents: what was new becomes known. [Is my bonus
# right?](../diagnostics.md) says what the other columns should look like.
#
# ## Keep it
#
# `save` writes the run folder of the command line: tables, checkpoint, curve. `load` reads it, and
# `train` goes on exactly as if the run had never stopped.

# %%
import tempfile  # noqa: E402

folder = runs["re3"].save(tempfile.mkdtemp() + "/run")
print(sorted(path.name for path in folder.iterdir()))
again = re3_jax.load(folder, progress=False)
again.train(steps=76_800)

# %%
print(again.evaluate(episodes=20)["return_mean"])

# %% [markdown]
# Next: [a bonus in your own loop](own_loop.py), or another task:
# `re3_jax.train("gymnax:CartPole-v1")`.
