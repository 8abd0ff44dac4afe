"""RAD's passes in the paper's count of operations, against PyTorch's count of an update."""

import jax
import numpy as np
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.torch_sac import STACK, Contender
from experiments import operations
from re3_jax.agents.sac.agent import make_sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import Box, EnvSpec

BATCH, SIDE, ACTIONS = 2, 36, 4


def test_passes_are_those_of_the_released_update():
    """Convolutions in an update with and one without the actor: F + 2 B, but for the images.

    The released code asks for no gradient with respect to the images.
    """
    config = SACConfig(crop_size=SIDE, batch_size=BATCH, hidden_dim=16)
    shape, space = (SIDE + 4, SIDE + 4, 3 * STACK), Box((ACTIONS,), -1, 1)
    spec = EnvSpec("dmc:hopper_hop", shape, np.dtype(np.uint8), space, 500, frame_stack=STACK)
    frames = np.zeros((20, SIDE + 4, SIDE + 4, 3), np.uint8)
    state = make_sac(config, spec).init(jax.random.key(0))
    learner = Contender(config, state, frames, None, None, as_released=True)
    counter = FlopCounterMode(display=False)
    with counter:
        learner.update(True)
        learner.update(False)
    by_name = {str(name): n for name, n in counter.get_flop_counts()["Global"].items()}
    forward, backward = by_name["aten.convolution"], by_name["aten.convolution_backward"]
    networks = operations.networks(config, (SIDE, SIDE, 9), ACTIONS)
    positions = (SIDE - 3) // 2 + 1
    linear = (positions - 6) ** 2 * config.num_filters * config.latent_dim
    convs = networks.encoder - linear
    first = positions**2 * config.num_filters * 9 * 9
    per_item = operations.PER_MULTIPLY_ADD * 2 * BATCH
    assert forward == per_item * operations.FORWARD_PASSES * convs
    assert backward == per_item * operations.BACKWARD_PASSES * (2 * convs - first)
