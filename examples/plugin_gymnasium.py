"""Gymnasium's tasks of vectors as a suite, stepped on the host.

    make run ENV=gymnasium:CartPole-v1 ARGS="--plugin examples/plugin_gymnasium.py"

A task of your own is there, too, once it is registered with Gymnasium: import it in this file.
"""

import sys
from dataclasses import dataclass
from functools import partial

import cloudpickle
import gymnasium
import numpy as np
from gymnasium import vector
from gymnasium.wrappers import RescaleAction

from re3_jax.envs import registry
from re3_jax.envs.base import LaneStep
from re3_jax.interop.vector_env import spec_of
from re3_jax.runs import suites
from re3_jax.runs.presets import gymnax


@dataclass(frozen=True)
class GymnasiumConfig:
    """Options of the suite.

    Attributes:
      processes: whether each lane has a process of its own, for tasks that take long to step.
    """

    processes: bool = False


def made(task_id):
    """One environment, whose actions are whole numbers or lie between -1 and 1."""
    try:
        env = gymnasium.make(task_id)
    except gymnasium.error.Error as error:
        raise ValueError(f"{task_id} cannot be made: {error}") from error
    continuous = isinstance(env.action_space, gymnasium.spaces.Box)
    return RescaleAction(env, np.float32(-1), np.float32(1)) if continuous else env


def spec(task_id, options):
    """What an agent sees of a task."""
    found = spec_of(env := made(task_id))
    env.close()
    if found.is_image:
        raise ValueError(f"{task_id} shows images: a suite for them has in_pixels=True")
    return found


class Lanes:
    """Copies of an environment; an episode that ends is followed by the next in the same step."""

    def __init__(self, task_id, options, num_lanes, report):
        """Makes them."""
        copies = [partial(made, task_id)] * num_lanes
        mode = vector.AutoresetMode.SAME_STEP
        if options.processes:
            # A new process cannot import this file by its name.
            cloudpickle.register_pickle_by_value(sys.modules[__name__])
            self._env = vector.AsyncVectorEnv(copies, context="spawn", autoreset_mode=mode)
        else:
            self._env = vector.SyncVectorEnv(copies, autoreset_mode=mode)

    def reset(self, seeds):
        """The first observation of an episode in each lane."""
        return self._env.reset(seed=[int(seed) for seed in seeds])[0]

    def send(self, action):
        """Keeps the actions [lane, numbers of an action]."""
        self._action = action.reshape(self._env.action_space.shape)

    def receive(self):
        """What follows them."""
        seen, reward, terminated, truncated, info = self._env.step(self._action)
        last = np.array(seen)
        for lane in np.flatnonzero(terminated | truncated):
            last[lane] = info["final_obs"][lane]
        return LaneStep(seen, reward, terminated, truncated, last, task_ended=terminated)

    def close(self):
        """Ends processes."""
        self._env.close()


def preset(task_id, name, agent):
    """The preset of every task: gymnax's for vectors; nothing was tuned."""
    return gymnax.preset("CartPole-v1", name, agent)


registry.register_host("gymnasium", gymnasium.registry)
host = suites.HostSuite("gymnasium", "gymnasium:CartPole-v1", GymnasiumConfig, spec, Lanes)
suites.register(suites.Suite("gymnasium", "tasks of Gymnasium", "ppo", preset, host=host))
