# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # A bonus in your own loop
#
# Your loop keeps NumPy arrays and knows nothing of this library. `NumpyBonus` puts any bonus into
# it. Here the loop is an actor-critic on Mountain Car: a weak car must swing up a hill. It pays -1
# for every step until the car is on top, so a plain policy gradient has nothing to learn from. This
# takes about a minute on two cores.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.interop.numpy_bonus import NumpyBonus
from re3_jax.intrinsic import RE3Config, Step, from_config

LANES, ROLLOUT, ROLLOUTS, TIME_LIMIT, DISCOUNT = 16, 32, 300, 200, 0.99

# %% [markdown]
# ## The loop without a bonus
#
# Sixteen cars in NumPy, and an agent of two small functions. Nothing here is special; yours takes
# its place.


# %%
def moved(car, action):
    """Mountain Car's physics: [lane, (position, velocity)] after one step."""
    velocity = car[:, 1] + 0.001 * (action - 1) - 0.0025 * np.cos(3 * car[:, 0])
    velocity = np.clip(velocity, -0.07, 0.07)
    position = np.clip(car[:, 0] + velocity, -1.2, 0.6)
    return np.stack([position, np.where(position == -1.2, np.maximum(velocity, 0), velocity)], 1)


def at_start(rng, lanes):
    """Cars at rest in the valley."""
    return np.stack([rng.uniform(-0.6, -0.4, lanes), np.zeros(lanes)], 1)


def scaled(car):
    """Position and velocity in [-1, 1]."""
    low, high = np.array([-1.2, -0.07]), np.array([0.6, 0.07])
    return np.float32(2 * (car - low) / (high - low) - 1)


def network(parameters, x):
    """Logits of the three actions, and the value."""
    *hidden, (kernel, bias) = parameters
    for weights, offset in hidden:
        x = jnp.tanh(x @ weights + offset)
    x = x @ kernel + bias
    return x[..., :3], x[..., 3]


OPTIMIZER = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-3))


@jax.jit
def act(parameters, observation, key):
    """An action for every lane."""
    return jax.random.categorical(key, network(parameters, observation)[0])


@jax.jit
def learn(parameters, optimizer, observation, action, reward, done, last):
    """One step on the loss of an actor-critic."""

    def discounted(later, step):
        now = step[0] + DISCOUNT * later * (1 - step[1])
        return now, now

    value = network(parameters, last)[1]
    target = jax.lax.scan(discounted, value, (reward, done), reverse=True)[1]

    def loss(parameters):
        logits, value = network(parameters, observation)
        log_probabilities = jax.nn.log_softmax(logits)
        chosen = jnp.take_along_axis(log_probabilities, action[..., None], -1)[..., 0]
        entropy = -(jnp.exp(log_probabilities) * log_probabilities).sum(-1)
        advantage = jax.lax.stop_gradient(target - value)
        return (-chosen * advantage + 0.5 * (target - value) ** 2 - 0.01 * entropy).mean()

    updates, optimizer = OPTIMIZER.update(jax.grad(loss)(parameters), optimizer)
    return optax.apply_updates(parameters, updates), optimizer


def drawn(rng, sizes=(2, 64, 64, 4)):
    """Parameters of the network."""
    shapes = zip(sizes[:-1], sizes[1:], strict=True)
    kernels = [np.float32(rng.normal(0, n**-0.5, (n, m))) for n, m in shapes]
    return [(kernel, np.zeros(kernel.shape[1], np.float32)) for kernel in kernels]


# %% [markdown]
# ## What the bonus needs
#
# It needs the shape, dtype and actions of the task. It compares observations by distance, so their
# coordinates should have similar ranges: that is why `scaled` maps both to [-1, 1].
#
# The distance is that to the third nearest of the newest 2,000 observations, itself among them
# (`count_self=False` leaves it out, as the paper's text does). It is divided by its running
# standard deviation, so that `beta` weighs the bonus against the task's -1.

# %%
SPEC = EnvSpec("mountain car", (2,), np.dtype(np.float32), Discrete(3), TIME_LIMIT)
RE3 = from_config(RE3Config(3, 3, beta=1.0, ring_size=2000, latent_dim=16, normalize="running_std"))


# %% [markdown]
# ## The loop with it
#
# Three lines, marked `RE3`: one object, one call for each rollout, one sum.


# %%
def train(with_bonus, seed):
    """Episodes that reached the top in each rollout; the states seen; the bonus's diagnostics."""
    rng, key = np.random.default_rng(seed), jax.random.key(seed)
    parameters = drawn(rng)
    optimizer, info = OPTIMIZER.init(parameters), {}
    bonus = NumpyBonus(RE3, SPEC, LANES, seed)  # RE3
    car, age = at_start(rng, LANES), np.zeros(LANES, int)
    tops, states = [], []
    for _ in range(ROLLOUTS):
        steps = []
        for _ in range(ROLLOUT):
            key, of_action = jax.random.split(key)
            action = np.asarray(act(parameters, scaled(car), of_action))
            after, age = moved(car, action), age + 1
            top = after[:, 0] >= 0.5
            done = top | (age == TIME_LIMIT)
            steps.append((scaled(car), action, np.float32(done), top))
            car = np.where(done[:, None], at_start(rng, LANES), after)
            age[done] = 0
        seen, action, done, top = map(np.stack, zip(*steps, strict=True))
        reward = np.full(done.shape, -1, np.float32)
        if with_bonus:
            paid, info = bonus.reward_rollout(Step(seen))  # RE3
            reward = reward + paid  # RE3
        parameters, optimizer = learn(
            parameters, optimizer, seen, action, reward, done, scaled(car)
        )
        tops.append(top.sum())
        states.append(seen)
    return np.array(tops), np.concatenate(states), info


# %%
results = {
    "without RE3": [train(False, seed) for seed in range(3)],
    "with RE3": [train(True, seed) for seed in range(3)],
}
for name, seeds in results.items():
    print(f"{name:>12}: times on top, three seeds: {[int(tops.sum()) for tops, _, _ in seeds]}")

# %% [markdown]
# ## Where the car went
#
# Position and velocity of every state of the first seed. Three seeds of one task show what a bonus
# does; they are no comparison.

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharex=True, sharey=True)
for axis, (name, seeds) in zip(axes, results.items(), strict=True):
    places = seeds[0][1].reshape(-1, 2)[::10]
    axis.scatter(*places.T, s=1, alpha=0.3)
    axis.set(title=name, xlabel="position, scaled")
axes[0].set_ylabel("velocity, scaled")
plt.show()

# %% [markdown]
# ## Look at the numbers
#
# `info` has the diagnostics of the last rollout. If `intrinsic_reward_p05` and `_p95` were equal,
# the bonus would not tell states apart; if `nearest_distance_p50` were always 0, the encoder or its
# input would be wrong. See [Is my bonus right?](../diagnostics.md)

# %%
for name, number in sorted(results["with RE3"][0][2].items()):
    print(f"{name:24} {number:.4f}")

# %% [markdown]
# ## Off-policy, and other libraries
#
# A loop with a replay calls `bonus.observe` once for every step and stores the index that it
# returns; it calls `bonus.reward` for every batch, so old transitions are paid by what is new *now*
# (Algorithm 1 of the paper). [RE3 in your own loop](../your_own_loop.md) has complete files for
# Stable-Baselines3, CleanRL, PureJaxRL, brax and PyTorch.
