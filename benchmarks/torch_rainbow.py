"""Rainbow's update in PyTorch, laid out as Kaixhin/Rainbow's: what `rainbow_update` compares with.

Prioritised replay in NumPy (a binary tree of sums and a structured array of frames, drawn from
segment by segment), noisy layers that draw their noise before each update, C51's projection with
`index_add_`. The same sizes and numbers as `RainbowConfig`.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from re3_jax.agents.rainbow.config import RainbowConfig

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
    """A binary tree of sums over priorities, and what the priorities are of."""

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
        # Kaixhin's own tree is filled one by one; here level by level, to the same sums.
        width = 2 ** (size - 1).bit_length()
        level = np.zeros(width, np.float32)
        level[:size] = 1
        self.sums[width - 1 :] = level[:size]
        while width > 1:
            level, width = level.reshape(-1, 2).sum(axis=1), width // 2
            self.sums[width - 1 : 2 * width - 1] = level

    def update(self, leaves: np.ndarray, values: np.ndarray) -> None:
        """New priorities of leaves, and the sums above them."""
        self.sums[leaves] = values
        parents = leaves
        while parents[0] != 0:
            parents = np.unique((parents - 1) // 2)
            children = parents * 2 + np.array([[1], [2]])
            inside = children < len(self.sums)
            values = np.where(inside, self.sums[np.where(inside, children, 0)], 0)
            self.sums[parents] = values.sum(axis=0)

    def find(self, values: np.ndarray) -> np.ndarray:
        """Leaves at places of the total."""
        nodes = np.zeros(len(values), int)
        while nodes[0] < self.first_leaf:
            left = nodes * 2 + 1
            goes_right = values > self.sums[left]
            values = np.where(goes_right, values - self.sums[left], values)
            nodes = left + goes_right
        return nodes


class NoisyLinear(nn.Module):
    """Factorised Gaussian noise in weights and biases."""

    def __init__(self, inputs: int, outputs: int, sigma: float):
        """Fortunato et al. (2018)."""
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma * bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma * outputs**-0.5))
        self.draw()

    def draw(self) -> None:
        """New noise."""
        inputs, outputs = torch.randn(self.weight.shape[1]), torch.randn(self.weight.shape[0])
        inputs, outputs = (x.sign() * x.abs().sqrt() for x in (inputs, outputs))
        self.weight_noise, self.bias_noise = outputs.outer(inputs), outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """With noise, as in training."""
        return F.linear(
            x,
            self.weight + self.weight_sigma * self.weight_noise,
            self.bias + self.bias_sigma * self.bias_noise,
        )


class Network(nn.Module):
    """The canonical convolutions and both streams."""

    def __init__(self, config: RainbowConfig, num_actions: int):
        """Weights as PyTorch draws them: no time depends on them."""
        super().__init__()
        self.shape = num_actions, config.num_atoms
        self.convs = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3), nn.ReLU(),
            nn.Flatten(),
        )  # fmt: skip
        sizes = 3136, config.hidden_dim
        self.hidden = nn.ModuleList(NoisyLinear(*sizes, config.noise) for _ in range(2))
        self.value = NoisyLinear(config.hidden_dim, config.num_atoms, config.noise)
        outputs = num_actions * config.num_atoms
        self.advantage = NoisyLinear(config.hidden_dim, outputs, config.noise)

    def draw(self) -> None:
        """New noise everywhere."""
        for layer in (*self.hidden, self.value, self.advantage):
            layer.draw()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the atoms of each action."""
        x = self.convs(x)
        value = self.value(F.relu(self.hidden[0](x)))[:, None]
        advantage = self.advantage(F.relu(self.hidden[1](x))).view(-1, *self.shape)
        return value + advantage - advantage.mean(1, keepdim=True)


class TorchRainbow:
    """State of one agent, and its update."""

    def __init__(self, config: RainbowConfig, frames: np.ndarray, num_actions: int):
        """Fills the replay with `frames`, uint8 [transitions, 84, 84]."""
        self.config, self.tree = config, SumTree(frames, num_actions)
        self.online, self.target = (Network(config, num_actions) for _ in range(2))
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False)
        self.optimizer = torch.optim.Adam(
            self.online.parameters(), config.learning_rate, eps=config.adam_eps
        )
        self.support = torch.linspace(config.v_min, config.v_max, config.num_atoms)
        self.gammas = torch.tensor([config.discount**i for i in range(config.n_steps)])
        self.rng = np.random.default_rng(0)

    def sample(self):
        """A batch: leaf, observation, action, return, next observation, goes on, weight."""
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
            torch.from_numpy(np.ascontiguousarray(stack)).float().div_(255)
            for stack in (frames[:, :4], frames[:, c.n_steps : c.n_steps + 4])
        )
        rewards = torch.tensor(np.ascontiguousarray(rows["reward"][:, 3:-1]))
        probability = tree.sums[leaves] / total
        weight = (tree.size * probability) ** -c.priority_weight
        return (
            leaves,
            observation,
            torch.tensor(rows["action"][:, 3].astype(np.int64)),
            rewards @ self.gammas,
            following,
            torch.tensor(rows["goes_on"][:, c.n_steps + 3].astype(np.float32))[:, None],
            torch.tensor(weight / weight.max(), dtype=torch.float32),
        )

    def update(self) -> None:
        """One update, priorities included."""
        c = self.config
        self.online.draw()
        leaves, observation, action, reward, following, goes_on, weight = self.sample()
        every = torch.arange(c.batch_size)
        log_p = F.log_softmax(self.online(observation), dim=2)[every, action]
        with torch.no_grad():
            best = (F.softmax(self.online(following), dim=2) * self.support).sum(2).argmax(1)
            self.target.draw()
            p = F.softmax(self.target(following), dim=2)[every, best]
            place = reward[:, None] + goes_on * c.discount**c.n_steps * self.support
            step = (c.v_max - c.v_min) / (c.num_atoms - 1)
            b = (place.clamp(c.v_min, c.v_max) - c.v_min) / step
            low, high = b.floor().long(), b.ceil().long()
            low[(high > 0) & (low == high)] -= 1
            high[(low < c.num_atoms - 1) & (low == high)] += 1
            offset = (every * c.num_atoms)[:, None]
            m = torch.zeros(c.batch_size * c.num_atoms)
            m.index_add_(0, (low + offset).view(-1), (p * (high.float() - b)).view(-1))
            m.index_add_(0, (high + offset).view(-1), (p * (b - low.float())).view(-1))
        loss = -(m.view(c.batch_size, -1) * log_p).sum(1)
        self.optimizer.zero_grad()
        (weight * loss).mean().backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), c.max_grad_norm)
        self.optimizer.step()
        self.tree.update(leaves, loss.detach().numpy() ** c.priority_exponent)
