"""The baseline of `rainbow_update`: the oracle of our tests with Kaixhin/Rainbow's replay.

The replay is in NumPy: a binary sum tree and a structured array of frames, sampled segment by
segment.
"""

import numpy as np
import torch

from re3_jax.agents.rainbow.agent import RainbowBatch, RainbowState
from re3_jax.agents.rainbow.config import RainbowConfig
from tests.torch_oracle.rainbow import TorchRainbow, draw_noise

TRANSITION = np.dtype(
    [
        ("age", np.int32),
        ("frame", np.uint8, (84, 84)),
        ("action", np.int32),
        ("reward", np.float32),
        ("goes_on", np.bool_),
    ]
)


class SumTree:
    """A binary sum tree over priorities, and the transitions they belong to."""

    def __init__(self, frames: np.ndarray, num_actions: int):
        """Full, every priority 1."""
        size = len(frames)
        rng = np.random.default_rng(0)
        self.size, self.index, self.first_leaf = size, 0, 2 ** (size - 1).bit_length() - 1
        self.sums = np.zeros(self.first_leaf + size, np.float32)
        self.data = np.zeros(size, TRANSITION)
        self.data["frame"] = frames
        self.data["age"] = np.arange(size) % 1_000
        self.data["action"] = rng.integers(0, num_actions, size)
        self.data["reward"] = rng.integers(-1, 2, size)
        self.data["goes_on"] = self.data["age"] != 999
        # Kaixhin fills the tree leaf by leaf; here it is filled level by level, with the same sums.
        width = 2 ** (size - 1).bit_length()
        level = np.zeros(width, np.float32)
        level[:size] = 1
        self.sums[width - 1 :] = level[:size]
        while width > 1:
            level, width = level.reshape(-1, 2).sum(axis=1), width // 2
            self.sums[width - 1 : 2 * width - 1] = level

    def update(self, leaves: np.ndarray, values: np.ndarray) -> None:
        """Sets priorities of leaves and updates the sums above them."""
        self.sums[leaves] = values
        parents = leaves
        while parents[0] != 0:
            parents = np.unique((parents - 1) // 2)
            children = parents * 2 + np.array([[1], [2]])
            inside = children < len(self.sums)
            values = np.where(inside, self.sums[np.where(inside, children, 0)], 0)
            self.sums[parents] = values.sum(axis=0)

    def find(self, values: np.ndarray) -> np.ndarray:
        """Leaves at these positions in the total."""
        nodes = np.zeros(len(values), int)
        while nodes[0] < self.first_leaf:
            left = nodes * 2 + 1
            goes_right = values > self.sums[left]
            values = np.where(goes_right, values - self.sums[left], values)
            nodes = left + goes_right
        return nodes


class Contender:
    """One learner and its replay."""

    def __init__(
        self, config: RainbowConfig, state: RainbowState, frames: np.ndarray, num_actions: int
    ):
        """Fills the replay with `frames`, uint8 [transitions, 84, 84]."""
        self.config, self.tree = config, SumTree(frames, num_actions)
        self.learner = TorchRainbow(config, state.online, state.target)
        self.gammas = torch.tensor([config.discount**i for i in range(config.n_steps)])
        self.rng = np.random.default_rng(0)

    def sample(self) -> tuple[np.ndarray, RainbowBatch]:
        """Drawn leaves and their batch."""
        c, tree = self.config, self.tree
        total = tree.sums[0]
        segment = total / c.batch_size
        while True:
            at = (np.arange(c.batch_size) + self.rng.random(c.batch_size)) * segment
            leaves = tree.find(at.astype(np.float32))
            places = leaves - tree.first_leaf
            behind = (tree.index - places) % tree.size
            if np.all((behind > c.n_steps) & ((places - tree.index) % tree.size >= 4)):
                break
        window = places[:, None] + np.arange(-3, c.n_steps + 1)
        rows = tree.data[window % tree.size]
        first, blank = rows["age"] == 0, np.zeros(window.shape, bool)
        for t in range(2, -1, -1):
            blank[:, t] = blank[:, t + 1] | first[:, t + 1]
        for t in range(4, 4 + c.n_steps):
            blank[:, t] = blank[:, t - 1] | first[:, t]
        rows[blank] = np.zeros((), TRANSITION)
        frames = rows["frame"]
        observation, following = (
            torch.as_tensor(np.ascontiguousarray(stack)).permute(0, 2, 3, 1)
            for stack in (frames[:, :4], frames[:, c.n_steps : c.n_steps + 4])
        )
        goes_on = torch.tensor(rows["goes_on"][:, c.n_steps + 3].astype(np.float32))
        weight = (tree.size * tree.sums[leaves] / total) ** -c.priority_weight
        return leaves, RainbowBatch(
            observation=observation,
            action=torch.tensor(rows["action"][:, 3].astype(np.int64)),
            reward=torch.tensor(np.ascontiguousarray(rows["reward"][:, 3:-1])) @ self.gammas,
            bonus=0.0,
            discount=goes_on * c.discount**c.n_steps,
            next_observation=following,
            weight=torch.tensor(weight / weight.max(), dtype=torch.float32),
        )

    def update(self) -> None:
        """One update, priorities included."""
        noises = [draw_noise(x) for x in (self.learner.online, self.learner.target)]
        leaves, batch = self.sample()
        _, priority, _ = self.learner.update(batch, noises)
        self.tree.update(leaves, priority.cpu().numpy())
