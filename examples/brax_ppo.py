"""Adds RE3 to brax's own PPO and SAC, on a point that must find its way around a wall.

The point starts at the bottom left and is paid at the bottom right only; the way there is around
the top of a wall, and neither random pushes nor pushes in one direction find it. The wrapper is
handed to brax's training as `wrap_env_fn`. The lines marked RE3, and their imports, are all that is
added. `brax.envs.get_environment("ant")` fits in place of `TwoRooms()`.

    python examples/brax_ppo.py
"""

from functools import partial

import jax
import jax.numpy as jnp
from brax.envs.base import Env, State
from brax.training.agents.ppo import train as ppo
from brax.training.agents.sac import train as sac

from re3_jax.interop import brax_env
from re3_jax.intrinsic import RE3Config, from_config

# brax 0.14.2 calls this function, which JAX 0.10 no longer has.
jax.device_put_replicated = lambda tree, devices: jax.tree.map(
    lambda leaf: jnp.stack([leaf] * len(devices)), tree
)

NUM_ENVS, ROLLOUT, EPISODE, NUM_STEPS, NUM_SEEDS = 16, 50, 100, 200_000, 3
CONFIG = RE3Config(3, 3, beta=0.1, ring_size=5000, latent_dim=16, normalize="running_std")  # RE3
RE3 = from_config(CONFIG)  # RE3


class TwoRooms(Env):
    """Observes and moves a place in [-1, 1]^2; pays 1 per step at the bottom right."""

    observation_size, action_size, backend = 2, 2, "none"

    def reset(self, rng):
        """At (-0.8, -0.8), give or take 0.1."""
        place = -0.8 + 0.1 * jax.random.uniform(rng, (2,), minval=-1.0)
        return State(None, place, jnp.zeros(()), jnp.zeros(()))

    def step(self, state, action):
        """Moves by at most 0.05 along either axis; walls stop the point."""
        x, y = jnp.clip(state.obs + 0.05 * jnp.clip(action, -1.0, 1.0), -1.0, 1.0)
        at_wall = (y < 0.5) & ((x > 0.0) != (state.obs[0] > 0.0))
        place = jnp.array([jnp.where(at_wall, state.obs[0], x), y])
        reward = ((place[0] > 0.0) & (place[1] < 0.0)).astype(jnp.float32)
        return state.replace(obs=place, reward=reward)


PPO = {
    "unroll_length": ROLLOUT, "batch_size": 4, "num_minibatches": 4, "num_updates_per_batch": 4,
    "learning_rate": 1e-3, "entropy_cost": 0.01, "reward_scaling": 1.0,
    "normalize_observations": True,
}  # fmt: skip
SAC = {"batch_size": 64, "min_replay_size": 500, "max_replay_size": 20_000, "learning_rate": 1e-3}


def train(env, bonus, seed, num_steps, agent="ppo", **options):
    """Metrics after training; `task_return` picks the return."""
    make, settings = (ppo.train, PPO) if agent == "ppo" else (sac.train, SAC)
    if bonus is not None:
        settings = settings | {"wrap_env_fn": partial(brax_env.wrap, bonus=bonus)}  # RE3
    sizes = {"num_envs": NUM_ENVS, "episode_length": EPISODE}
    sizes |= {"num_evals": 2, "num_eval_envs": NUM_ENVS}
    *_, metrics = make(env, num_steps, seed=seed, **{**sizes, **settings, **options})
    return metrics


def task_return(metrics):
    """Mean return of the newest evaluation, without the bonus."""
    with_bonus = "eval/episode_task_reward" in metrics
    return float(metrics[f"eval/episode_{'task_reward' if with_bonus else 'reward'}"])


def main():
    """Trains PPO with and without the bonus and prints both."""
    print(f"two rooms, {NUM_STEPS:,} steps, seeds 0 to {NUM_SEEDS - 1}")
    for name, bonus in (("without RE3", None), ("with RE3", RE3)):
        metrics = [train(TwoRooms(), bonus, seed, NUM_STEPS) for seed in range(NUM_SEEDS)]
        returns = map(task_return, metrics)
        print(f"{name:>12}: return " + ", ".join(f"{value:.1f}" for value in returns), flush=True)


if __name__ == "__main__":
    main()
