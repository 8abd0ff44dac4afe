"""Adds RE3 to a PPO in one file, in the manner of CleanRL, on Gymnasium's MountainCar-v0.

MountainCar pays -1 per step until the car is on the hill, which random actions hardly ever reach.
The wrapper adds the bonus to the rewards of the vector environment, and PPO does not know of it.
The lines marked RE3, and their imports, are all that is added.

    python examples/cleanrl_ppo.py
"""

from functools import partial

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RescaleObservation
from torch import nn
from torch.distributions import Categorical

from re3_jax.interop.vector_env import BonusVectorEnv
from re3_jax.intrinsic import RE3Config, from_config

NUM_ENVS, ROLLOUT, NUM_UPDATES, NUM_SEEDS = 16, 64, 100, 3
EPOCHS, MINIBATCH, DISCOUNT, TRACE, CLIP = 4, 256, 0.99, 0.95, 0.2
CONFIG = RE3Config(3, 3, beta=1.0, ring_size=2000, latent_dim=16, normalize="running_std")  # RE3
RE3 = from_config(CONFIG)  # RE3


class Agent(nn.Module):
    """Logits of the three actions, and the value."""

    def __init__(self):
        super().__init__()
        self.actor, self.critic = (
            nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), last)
            for last in (nn.Linear(64, 3), nn.Linear(64, 1))
        )

    def forward(self, observation):
        """The policy, and the value."""
        return Categorical(logits=self.actor(observation)), self.critic(observation)[..., 0]


def make_envs(bonus, seed):
    """Lanes that reset within the step that ends an episode."""
    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP}
    # Position and velocity in [-1, 1], so that neither dominates the distances.
    scaled = [partial(RescaleObservation, min_obs=-1, max_obs=1)]
    envs = gymnasium.make_vec("MountainCar-v0", NUM_ENVS, "sync", same_step, scaled)
    if bonus is not None:
        envs = BonusVectorEnv(envs, bonus, seed)  # RE3
    return envs


def train(bonus, seed, num_updates, report=lambda update: None):
    """Mean return of the newest 100 episodes, without the bonus."""
    torch.manual_seed(seed)
    envs, agent, returns, sums = make_envs(bonus, seed), Agent(), [], np.zeros(NUM_ENVS)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    seen = torch.zeros(ROLLOUT, NUM_ENVS, 2)
    actions = torch.zeros(ROLLOUT, NUM_ENVS, dtype=torch.long)
    log_probs, rewards, dones, values = torch.zeros(4, ROLLOUT, NUM_ENVS)
    following = torch.tensor(envs.reset(seed=seed)[0])
    for update in range(num_updates):
        for step in range(ROLLOUT):
            seen[step] = following
            with torch.no_grad():
                policy, values[step] = agent(following)
            actions[step] = policy.sample()
            log_probs[step] = policy.log_prob(actions[step])
            after, reward, terminated, truncated, info = envs.step(actions[step].numpy())
            done, sums = terminated | truncated, sums + info.get("task_reward", reward)
            returns, sums = [*returns, *sums[done]][-100:], np.where(done, 0.0, sums)
            following, reward = torch.tensor(after), torch.tensor(reward, dtype=torch.float32)
            # A time limit ends the episode but not the task: its return goes on with the value.
            for lane in np.flatnonzero(truncated & ~terminated):
                with torch.no_grad():
                    last = agent(torch.tensor(info["final_obs"][lane]))[1]
                reward[lane] += DISCOUNT * last
            rewards[step], dones[step] = reward, torch.tensor(done)
        with torch.no_grad():
            value, advantage, advantages = agent(following)[1], 0.0, torch.zeros_like(rewards)
        for step in reversed(range(ROLLOUT)):
            keep = DISCOUNT * (1 - dones[step])
            error = rewards[step] + keep * value - values[step]
            advantage = error + keep * TRACE * advantage
            advantages[step], value = advantage, values[step]
        learn(agent, optimizer, seen, actions, log_probs, advantages, advantages + values)
        report(update)
    envs.close()
    return np.mean(returns)


def learn(agent, optimizer, *rollout):
    """PPO's clipped loss on minibatches of the rollout."""
    flat = [leaf.flatten(0, 1) for leaf in rollout]
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(flat[0])).split(MINIBATCH):
            seen, action, log_prob, advantage, target = (leaf[rows] for leaf in flat)
            policy, value = agent(seen)
            ratio = (policy.log_prob(action) - log_prob).exp()
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
            loss = 0.5 * (value - target).square().mean() - gain - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def main():
    """Trains with and without the bonus and prints both."""
    torch.set_num_threads(1)
    print(f"MountainCar-v0, {NUM_UPDATES * ROLLOUT * NUM_ENVS:,} steps, seeds 0 to {NUM_SEEDS - 1}")
    for name, bonus in (("without RE3", None), ("with RE3", RE3)):
        returns = [train(bonus, seed, NUM_UPDATES) for seed in range(NUM_SEEDS)]
        print(f"{name:>12}: return " + ", ".join(f"{value:.1f}" for value in returns), flush=True)


if __name__ == "__main__":
    main()
