"""Adds RE3 to a DQN in plain PyTorch through DLPack, on Gymnasium's MountainCar-v0.

MountainCar pays -1 per step until the car is on the hill, which random actions hardly ever reach.
RE3 is a pair of compiled JAX functions here. DLPack hands tensors to them and arrays back, and on a
CPU both libraries see the same memory. Rewards are computed anew for every batch, against all that
was seen until then (Algorithm 1). The lines marked RE3, and their imports, are all that is added.

    python examples/torch_dqn.py
"""

from functools import partial

import gymnasium
import jax
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RescaleObservation
from jax.dlpack import from_dlpack
from torch import nn

from re3_jax import compilation
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import IntrinsicBatch, RE3Config, Step, from_config, reward_batch

NUM_ENVS, NUM_STEPS, NUM_SEEDS, ROWS, BATCH = 16, 4_000, 3, 50_000, 128
DISCOUNT, EPSILON, TARGET_PERIOD, FIRST_STEPS = 0.99, 0.1, 100, 50
SPEC = EnvSpec("MountainCar-v0", (2,), np.dtype(np.float32), Discrete(3), 200)  # RE3
CONFIG = RE3Config(3, 3, beta=1.0, ring_size=ROWS, latent_dim=16, normalize="running_std")  # RE3
RE3 = from_config(CONFIG)  # RE3


def make_envs():
    """Lanes that reset within the step that ends an episode; position and velocity in [-1, 1]."""
    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP}
    scaled = [partial(RescaleObservation, min_obs=-1, max_obs=1)]
    return gymnasium.make_vec("MountainCar-v0", NUM_ENVS, "sync", same_step, scaled)


def make_network():
    """The values of the three actions."""
    return nn.Sequential(
        nn.Linear(2, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3)
    )


def train(bonus, seed, num_steps, report=lambda step: None):
    """Mean return of the newest 100 episodes, without the bonus; lanes take `num_steps` steps."""
    torch.manual_seed(seed)
    envs, network, target = make_envs(), make_network(), make_network()
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    replay = {
        "observation": torch.zeros(ROWS, 2),
        "action": torch.zeros(ROWS, dtype=torch.int32),
        "following": torch.zeros(ROWS, 2),
        "reward": torch.zeros(ROWS),
        "terminated": torch.zeros(ROWS),
    }
    kept = tuple(replay)
    if bonus is not None:
        replay["index"] = torch.zeros(ROWS, *bonus.index_shape, dtype=torch.int32)  # RE3
        state = bonus.init(jax.random.key(seed), SPEC, NUM_ENVS)  # RE3
        observe = compilation.jit(bonus.observe, donate_argnums=0)  # RE3
        pay = compilation.jit(partial(reward_batch, bonus), donate_argnums=0)  # RE3
    returns, sums = [], np.zeros(NUM_ENVS)
    seen = torch.tensor(envs.reset(seed=seed)[0])
    for step in range(num_steps):
        with torch.no_grad():
            action = network(seen).argmax(dim=1)
        action = torch.where(torch.rand(NUM_ENVS) < EPSILON, torch.randint(3, (NUM_ENVS,)), action)
        after, reward, *ends, info = envs.step(action.numpy())
        following, done = torch.tensor(after), ends[0] | ends[1]
        for lane in np.flatnonzero(done):
            following[lane] = torch.tensor(info["final_obs"][lane])
        steps, stored = np.int32(step * NUM_ENVS), (seen, action.int(), following)
        rows = (steps + torch.arange(NUM_ENVS)) % ROWS
        if bonus is not None:
            state, index = observe(state, Step(*map(from_dlpack, stored), *ends))  # RE3
            replay["index"][rows] = torch.from_dlpack(index)  # RE3
        numbers = (torch.tensor(leaf, dtype=torch.float32) for leaf in (reward, ends[0]))
        for name, leaf in zip(kept, (*stored, *numbers), strict=True):
            replay[name][rows] = leaf
        seen, sums = torch.tensor(after), sums + reward
        returns, sums = [*returns, *sums[done]][-100:], np.where(done, 0.0, sums)
        if step >= FIRST_STEPS:
            drawn = torch.randint(min((step + 1) * NUM_ENVS, ROWS), (BATCH,))
            batch = {name: leaf[drawn] for name, leaf in replay.items()}
            if bonus is not None:
                given = (batch[name] for name in (*kept[:3], "index"))  # RE3
                asked = IntrinsicBatch(*map(from_dlpack, given), steps)  # RE3
                paid, state, _ = pay(state, asked, jax.random.key(step))  # RE3
                batch["reward"] += torch.from_dlpack(paid)  # RE3
            learn(network, target, optimizer, batch)
        if step % TARGET_PERIOD == 0:
            target.load_state_dict(network.state_dict())
        report(step)
    envs.close()
    return np.mean(returns)


def learn(network, target, optimizer, batch):
    """One step of Adam on the error of double Q-learning."""
    chosen = batch["action"].long()[:, None]
    value = network(batch["observation"]).gather(1, chosen)[:, 0]
    with torch.no_grad():
        best = network(batch["following"]).argmax(dim=1, keepdim=True)
        later = target(batch["following"]).gather(1, best)[:, 0]
    wanted = batch["reward"] + DISCOUNT * (1 - batch["terminated"]) * later
    loss = nn.functional.smooth_l1_loss(value, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    """Trains with and without the bonus and prints both."""
    torch.set_num_threads(1)
    print(f"MountainCar-v0, {NUM_STEPS * NUM_ENVS:,} steps, seeds 0 to {NUM_SEEDS - 1}")
    for name, bonus in (("without RE3", None), ("with RE3", RE3)):
        returns = [train(bonus, seed, NUM_STEPS) for seed in range(NUM_SEEDS)]
        print(f"{name:>12}: return " + ", ".join(f"{value:.1f}" for value in returns), flush=True)


if __name__ == "__main__":
    main()
