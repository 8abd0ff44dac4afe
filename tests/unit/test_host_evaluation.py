"""Evaluation in host lanes, with a policy that only inspects its arguments."""

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.training.host_evaluation import evaluate_lanes
from tests.probe_host_env import EPISODE, DotLanes

EPISODES = 2


def evaluate(act, seeds):
    return evaluate_lanes(
        DotLanes(len(seeds) * EPISODES),
        # The memory is the newest frame.
        begin=lambda frame: frame,
        act=act,
        see=lambda memory, frame, begins: frame,
        seeds=seeds,
        env_frames=0,
        episodes=EPISODES,
        sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0]),
    )


def test_policy_may_read_its_arguments_late():
    """A dispatched program must see its arguments as they were when it was called.

    Whether a CPU device reads NumPy's memory itself depends on the address, hence the repeats.
    """
    for num_seeds in 4 * (1, 2, 3, 8):
        given = []

        def act(memory, key, agent_steps, given=given):
            given.append((memory, agent_steps))
            return memory, jnp.zeros((*memory.shape[:2], 1))

        stats = evaluate(act, np.arange(num_seeds))
        np.testing.assert_array_equal(stats.length_mean, EPISODE)
        seen = np.stack([agent_steps for _, agent_steps in given])
        np.testing.assert_array_equal(seen, np.arange(EPISODE)[:, None].repeat(num_seeds, 1))
        # Nothing moves without an action, so the lanes show one frame until their episodes end.
        for observation, _ in given:
            np.testing.assert_array_equal(observation, given[0][0])
