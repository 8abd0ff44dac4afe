"""Craftax (Matthews et al., 2024) as a suite: exploration in an open world, on the device.

    .venv/bin/python -m pip install craftax==1.6.1
    make run ENV=craftax:Craftax-Classic-Symbolic-v1 ARGS="--plugin examples/plugin_craftax.py"

Rewards are those of Craftax: the first time of each achievement, and health.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from craftax.craftax_env import make_craftax_env_from_name

from re3_jax.envs import registry
from re3_jax.envs.base import DeviceEnv, Discrete, EnvSpec, TimeStep
from re3_jax.runs import suites
from re3_jax.runs.presets import gymnax

TASKS = "Craftax-Symbolic-v1", "Craftax-Classic-Symbolic-v1"


STEPS = 1_024_000
"""Env frames of a run, over which PPO's learning rate falls."""


def craftax(name: str) -> DeviceEnv:
    """One task with its default parameters; observations are vectors of numbers in [0, 1]."""
    env = make_craftax_env_from_name(name, auto_reset=False)
    params = env.default_params
    (size,) = env.observation_space(params).shape
    actions = Discrete(env.action_space(params).n)
    spec = EnvSpec(
        f"craftax:{name}", (size,), np.dtype(np.float32), actions, int(params.max_timesteps)
    )

    def strong(state):
        # Without weak types, which Craftax's first state has and its next ones have not.
        return jax.tree.map(lambda x: jax.lax.convert_element_type(x, jnp.result_type(x)), state)

    def reset(key):
        observation, state = env.reset_env(key, params)
        return strong(state), observation

    def begun(is_due, key, state, observation):
        # A loop and not a `cond`: mapped over lanes, a `cond` makes a world in every step.
        def begin(carry):
            return (jnp.bool(False), *reset(key))

        return jax.lax.while_loop(lambda carry: carry[0], begin, (is_due, state, observation))[1:]

    def step(state, action, key):
        of_step, of_reset = jax.random.split(key)
        last, acted, reward, done, _ = env.step_env(of_step, state, action, params)
        acted = strong(acted)
        truncated = acted.timestep >= params.max_timesteps
        died = done & env.is_terminal(acted.replace(timestep=0), params)
        following, observation = begun(done, of_reset, acted, last)
        return following, TimeStep(observation, reward.astype(jnp.float32), died, truncated, last)

    return DeviceEnv(spec, reset, step)


def preset(task_id, name, agent):
    """The preset of every task: gymnax's for vectors; nothing was tuned."""
    config = replace(gymnax.preset("CartPole-v1", name, agent), env=f"craftax:{task_id}")
    if name == "debug":
        return config
    evaluation = replace(config.evaluation, every_env_frames=102_400, episodes=16)
    ppo = replace(config.ppo, anneal_agent_steps=STEPS)
    return replace(config, steps=STEPS, evaluation=evaluation, ppo=ppo)


registry.register("craftax", {name: lambda name=name: craftax(name) for name in TASKS})
suites.register(suites.Suite("craftax", "tasks of Craftax", "ppo", preset))
