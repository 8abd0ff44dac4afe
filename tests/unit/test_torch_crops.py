"""PyTorch's side of `benchmarks.sac_update`: what it cuts on a GPU is what it cuts on a CPU."""

import jax
import numpy as np
import torch

from benchmarks.torch_sac import STACK, Contender
from re3_jax.agents.sac.agent import make_sac
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.runs.resolve import resolve

FRAMES = np.random.default_rng(0).integers(0, 256, (12, 36, 36, 3), dtype=np.uint8)


def test_one_gather_cuts_the_stacks_that_slices_cut():
    config = resolve("cheetah_run_sparse", preset="debug").sac
    shape = (36, 36, 3 * STACK)
    spec = EnvSpec("frames", shape, np.dtype(np.uint8), Box((2,), -1, 1), max_agent_steps=10)
    state = jax.jit(make_sac(config, spec).init)(jax.random.key(0))
    contender = Contender(config, state, FRAMES, None, None)
    # The first stacks repeat frame 0.
    newest = np.array([0, 1, 5, 11])
    cut = contender.crops(newest)
    contender.rng, contender.stored = np.random.default_rng(0), torch.as_tensor(FRAMES)
    assert cut.shape == (4, config.crop_size, config.crop_size, 3 * STACK)
    np.testing.assert_array_equal(contender.crops(newest), cut)
