"""The baseline of `sac_update`: the oracle of our tests with a replay and RE3 in NumPy.

Written to be fast: frames are stored once and cropped as uint8.
"""

import numpy as np
import torch

from re3_jax.agents.sac.agent import Draws, SACState
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.host.config import DMCConfig
from re3_jax.replay.transitions import Transitions
from tests.torch_oracle.sac import TorchSAC

STACK = DMCConfig.frame_stack


class Contender:
    """One learner and its replay.

    Args:
      config: sizes.
      state: the weights to begin with.
      frames: uint8 [transitions + 1, height, width, 3]; transition i starts at frame i.
      latents: float32 [rows, latent], row i that of transition i.
      neighbour: the search for neighbours, one of `tests.torch_oracle.neighbours`; None without
        RE3.
      as_released: lay out networks and losses as in the released code.
    """

    def __init__(
        self, config: SACConfig, state: SACState, frames, latents, neighbour, as_released=False
    ):
        """Makes the learner, and actions and rewards of noise."""
        self.config, self.frames, self.latents = config, frames, latents
        self.neighbour = neighbour
        self.learner = TorchSAC(config, state, as_released)
        self.rng = np.random.default_rng(0)
        on_gpu = torch.get_default_device().type == "cuda"
        self.stored = torch.as_tensor(frames) if on_gpu else None
        self.actions = torch.rand(len(frames), state.actor.policy[-1].bias.shape[0] // 2) * 2 - 1
        self.rewards = torch.rand(len(frames))
        self.std = 1.0

    def crops(self, newest: np.ndarray) -> torch.Tensor:
        """Stacks that end with the frames `newest`, each cropped."""
        size = self.config.crop_size
        offsets = self.rng.integers(0, self.frames.shape[1] - size + 1, (len(newest), 2))
        if self.stored is not None:
            return self._cut_on_gpu(self.stored, newest, offsets)
        out = np.empty((len(newest), size, size, 3 * STACK), np.uint8)
        for image, number, (row, column) in zip(out, newest, offsets, strict=True):
            for place in range(STACK):
                frame = self.frames[max(number - STACK + 1 + place, 0)]
                image[..., 3 * place : 3 * place + 3] = frame[
                    row : row + size, column : column + size
                ]
        return torch.from_numpy(out)

    def _cut_on_gpu(self, stored, newest: np.ndarray, offsets: np.ndarray) -> torch.Tensor:
        """The same from frames in the GPU's memory: one gather."""
        inside = torch.arange(self.config.crop_size)
        number, offset = torch.as_tensor(newest), torch.as_tensor(offsets)
        frame = (number[:, None] + torch.arange(1 - STACK, 1)).clamp(min=0)
        row, column = (offset[:, axis, None] + inside for axis in (0, 1))
        cut = stored[frame[:, :, None, None], row[:, None, :, None], column[:, None, None, :]]
        return cut.permute(0, 2, 3, 1, 4).flatten(3)

    def bonus(self, index: np.ndarray) -> torch.Tensor | float:
        """The bonus, beta r_i / std, of the transitions `index`."""
        if self.neighbour is None:
            return 0.0
        distance = self.neighbour(self.latents[index], self.latents, 4)
        self.std = 0.99 * self.std + 0.01 * float(distance.std())
        return 0.05 * distance / self.std

    def update(self, full: bool) -> None:
        """One update; `full` includes actor, temperature and target."""
        index = self.rng.integers(0, len(self.frames) - 1, self.config.batch_size)
        action = self.actions[index]
        observation, following = self.crops(index), self.crops(index + 1)
        noise, next_noise = torch.randn_like(action), torch.randn_like(action)
        bonus, goes_on = self.bonus(index), torch.ones(len(index))
        batch = Transitions(None, action, self.rewards[index], bonus, goes_on, None)
        self.learner.update(batch, Draws(observation, following, next_noise, noise), full)
