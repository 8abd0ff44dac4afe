# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Train and look
#
# This tutorial trains A2C with and without RE3 on DoorKey-6x6, and looks at what the bonus did. It
# takes a minute or two on two cores. The task pays only at the goal: the agent must fetch a key,
# open a door and walk through it.

# %%
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import re3_jax

common = {"seeds": 3, "steps": 400_000, "progress": False}
runs = {bonus: re3_jax.train("doorkey_6x6", bonus=bonus, **common) for bonus in ("none", "re3")}

# %% [markdown]
# All seeds of a run train in one program. `runs["re3"].config` holds every option; the terminal's
# form of this run is `make run ENV=doorkey_6x6 SEEDS=3 STEPS=400000`.
#
# ## The curve
#
# `curves` holds the evaluations. Returns lead with the seed. The band is one standard error over
# the seeds.

# %%
plt.figure(figsize=(8, 4))
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
# `metrics` holds the columns of `train.csv`, one row for each chunk of training.

# %%
metrics = runs["re3"].metrics
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for name in ("p50", "p95"):
    values = metrics[f"intrinsic_reward_{name}"].mean(0)
    left.plot(metrics["env_frames"], values, label=f"quantile {name[1:]}%")
left.set(xlabel="env frames per seed", ylabel="bonus of a step")
left.legend()
right.plot(metrics["env_frames"], metrics["running_std"].mean(0))
right.set(xlabel="env frames per seed", ylabel="running std of the distances")
plt.show()
print(f"stored more than once: {metrics['duplicate_share'][:, -1].mean():.1%} of the observations")

# %% [markdown]
# Nearly every observation of so small a world is stored many times, at distance 0. So half of the
# steps earn nothing, and the bonus goes to the few that are rare. The running standard deviation,
# by which distances are divided, falls as the ring fills. [Is my bonus right?](../diagnostics.md)
# says what the other columns should look like.
#
# ## Keep it
#
# `save` writes the run folder of the command line: tables, checkpoint, curve. `load` reads it, and
# `train` goes on exactly as if the run had never stopped.

# %%
folder = runs["re3"].save(tempfile.mkdtemp() + "/run")
print(sorted(path.name for path in folder.iterdir()))
again = re3_jax.load(folder, progress=False)
again.train(steps=420_000)

# %%
print(again.evaluate(episodes=20)["return_mean"])

# %% [markdown]
# Next: [a bonus in your own loop](own_loop.py), or another task:
# `re3_jax.train("gymnax:CartPole-v1")`.
