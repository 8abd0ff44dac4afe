"""Adds RE3 to PPO of Stable-Baselines3, on Gymnasium's MountainCar-v0.

MountainCar pays -1 per step until the car is on the hill, which random actions hardly ever reach.
PPO's buffer adds the bonus of a whole rollout to its rewards. The lines marked RE3, and their
imports, are all that is added.

    python examples/sb3_ppo.py
"""

import numpy as np
import torch
from gymnasium.wrappers import RescaleObservation
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.env_util import make_vec_env

from re3_jax.interop.numpy_bonus import NumpyBonus
from re3_jax.interop.vector_env import spec_of
from re3_jax.intrinsic import RE3Config, Step, from_config

NUM_ENVS, ROLLOUT, NUM_UPDATES, NUM_SEEDS = 16, 64, 100, 3
# Position and velocity in [-1, 1], so that neither dominates the distances.
SCALED = {"wrapper_class": RescaleObservation, "wrapper_kwargs": {"min_obs": -1, "max_obs": 1}}
CONFIG = RE3Config(3, 3, beta=1.0, ring_size=2000, latent_dim=16, normalize="running_std")  # RE3
RE3 = from_config(CONFIG)  # RE3


class BonusBuffer(RolloutBuffer):  # RE3
    """PPO's buffer; it adds a bonus to the rewards of a rollout before they become advantages."""

    def compute_returns_and_advantage(self, last_values, dones):  # RE3
        """Called once at the end of a rollout."""
        self.rewards += self.bonus.reward_rollout(Step(self.observations))[0]  # RE3
        super().compute_returns_and_advantage(last_values, dones)  # RE3


def train(bonus, seed, num_updates, callback=None):
    """Mean return of the newest episodes (at most 100), without the bonus."""
    env = make_vec_env("MountainCar-v0", NUM_ENVS, seed=seed, **SCALED)
    settings = {"n_steps": ROLLOUT, "batch_size": 256, "n_epochs": 4, "learning_rate": 3e-4}
    if bonus is not None:
        settings["rollout_buffer_class"] = BonusBuffer  # RE3
    model = PPO("MlpPolicy", env, seed=seed, device="cpu", ent_coef=0.01, **settings)
    if bonus is not None:
        model.rollout_buffer.bonus = NumpyBonus(bonus, spec_of(env), NUM_ENVS, seed)  # RE3
    model.learn(num_updates * ROLLOUT * NUM_ENVS, callback=callback)
    env.close()
    return np.mean([episode["r"] for episode in model.ep_info_buffer])


def main():
    """Trains with and without the bonus and prints both."""
    torch.set_num_threads(1)
    print(f"MountainCar-v0, {NUM_UPDATES * ROLLOUT * NUM_ENVS:,} steps, seeds 0 to {NUM_SEEDS - 1}")
    for name, bonus in (("without RE3", None), ("with RE3", RE3)):
        returns = [train(bonus, seed, NUM_UPDATES) for seed in range(NUM_SEEDS)]
        print(f"{name:>12}: return " + ", ".join(f"{value:.1f}" for value in returns), flush=True)


if __name__ == "__main__":
    main()
