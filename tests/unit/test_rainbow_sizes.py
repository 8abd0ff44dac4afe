"""The smallest replay that Rainbow accepts holds a transition at every step."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.rainbow.learner import check_sizes
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.replay import prioritized

LIMIT = 25


def smallest(n: int, stack: int) -> int:
    """By what is refused."""
    spec = EnvSpec(
        "line", (1, 1, stack), np.dtype(np.uint8), Discrete(2), LIMIT, colours=1, frame_stack=stack
    )
    for capacity in range(1, 200):
        config = RainbowConfig(n_steps=n, replay_capacity=capacity, initial_agent_steps=n + 1)
        try:
            check_sizes(config, spec)
        except ValueError:
            continue
        return capacity
    raise AssertionError


@pytest.mark.parametrize(("n", "stack"), [(1, 1), (3, 1), (3, 4), (5, 4)])
def test_the_smallest_replay_can_be_sampled_at_every_step(n, stack):
    """Time limits cut windows, and the oldest rows have lost a part of their stack."""
    sizes = {"n": n, "stack": stack}
    replay = prioritized.init(smallest(n, stack), 1, (1,), jnp.float32, **sizes)
    no, zero = jnp.zeros(1, bool), jnp.zeros(1, jnp.int32)
    add = jax.jit(partial(prioritized.add, **sizes))
    for step in range(1, 4 * LIMIT):
        ends = jnp.array([step % LIMIT == 0])
        replay = add(replay, jnp.ones((1, 1)), zero, jnp.ones(1), no, ends, zero)
        assert bool(prioritized.can_sample(replay)) or step <= n
