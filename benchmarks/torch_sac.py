"""SAC with RE3 from pixels in PyTorch, written to be fast: what `sac_update` compares with.

The same arithmetic as `re3_jax.agents.sac` at the same size, with every saving that PyTorch
offers as well: convolutions tied and passed once per batch of images and weights, no gradient
where none is needed, frames stored once and cropped as uint8. With `as_released` it is laid out
as the released code is instead: PyTorch's default memory format, and actor and critic each
encode the images for themselves.
"""

import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from re3_jax.agents.sac.config import SACConfig

STACK = 3


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(),
        nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, outputs),
    )  # fmt: skip


def convolutions(filters: int, memory_format: torch.memory_format) -> nn.Sequential:
    """Four convolutions and the flattening."""
    layers: list[nn.Module] = []
    for inputs, stride in ((3 * STACK, 2), (filters, 1), (filters, 1), (filters, 1)):
        layers += [nn.Conv2d(inputs, filters, 3, stride), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten()).to(memory_format=memory_format)


def head(side: int, config: SACConfig) -> nn.Sequential:
    """Linear, LayerNorm, tanh."""
    last = (side - 3) // 2 + 1 - 6
    linear = nn.Linear(config.num_filters * last**2, config.latent_dim)
    return nn.Sequential(linear, nn.LayerNorm(config.latent_dim), nn.Tanh())


class Critic(nn.Module):
    """Convolutions, head and two Q functions."""

    def __init__(self, config: SACConfig, action_dim: int, memory_format: torch.memory_format):
        """Weights as PyTorch draws them: no time depends on them."""
        super().__init__()
        self.convs = convolutions(config.num_filters, memory_format)
        self.head = head(config.crop_size, config)
        size = config.latent_dim + action_dim
        self.q1, self.q2 = (mlp(size, config.hidden_dim, 1) for _ in range(2))

    def forward(self, flat: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Both Q values of features of the convolutions."""
        x = torch.cat([self.head(flat), action], dim=1)
        return self.q1(x)[:, 0], self.q2(x)[:, 0]


class Actor(nn.Module):
    """Head and policy."""

    def __init__(self, config: SACConfig, action_dim: int):
        """Weights as PyTorch draws them."""
        super().__init__()
        self.head = head(config.crop_size, config)
        self.trunk = mlp(config.latent_dim, config.hidden_dim, 2 * action_dim)

    def forward(self, flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A sampled action and its log-probability."""
        mean, raw = self.trunk(self.head(flat)).chunk(2, dim=1)
        log_std = -10 + 6 * (torch.tanh(raw) + 1)
        noise = torch.randn_like(mean)
        u = mean + log_std.exp() * noise
        log_det = 2 * (np.log(2) - u - F.softplus(-2 * u))
        log_normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
        return torch.tanh(u), (log_normal - log_det).sum(1)


class TorchSAC:
    """One learner and its replay.

    Args:
      config: sizes.
      frames: uint8 [transitions + 1, height, width, 3]; transition i starts at frame i.
      latents: float32 [rows, latent], row i that of transition i.
      action_dim: length of an action.
      neighbour: the search for neighbours, `nearest` or `nearest_by_broadcast`, None without RE3.
      as_released: lay it out as the released code is.
    """

    def __init__(self, config, frames, latents, action_dim, neighbour, as_released=False):
        """Makes networks and optimisers."""
        self.as_released = as_released
        self.memory_format = torch.contiguous_format if as_released else torch.channels_last
        self.config, self.frames, self.latents = config, frames, latents
        self.neighbour, self.action_dim = neighbour, action_dim
        self.critic = Critic(config, action_dim, self.memory_format)
        self.actor = Actor(config, action_dim)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.tensor(np.log(0.1), dtype=torch.float32, requires_grad=True)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), 2e-4)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), 2e-4)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], 1e-3)
        self.rng = np.random.default_rng(0)
        self.actions = torch.rand(len(frames), action_dim) * 2 - 1
        self.rewards = torch.rand(len(frames))
        self.std = 1.0

    def crops(self, newest: np.ndarray) -> torch.Tensor:
        """Stacks that end with the frames `newest`, each cropped, float32 in 0..1."""
        size = self.config.crop_size
        offsets = self.rng.integers(0, self.frames.shape[1] - size + 1, (len(newest), 2))
        out = np.empty((len(newest), size, size, 3 * STACK), np.uint8)
        for image, number, (row, column) in zip(out, newest, offsets, strict=True):
            for place in range(STACK):
                frame = self.frames[max(number - STACK + 1 + place, 0)]
                image[..., 3 * place : 3 * place + 3] = frame[
                    row : row + size, column : column + size
                ]
        images = torch.from_numpy(out).permute(0, 3, 1, 2)
        return images.contiguous(memory_format=self.memory_format).float().div_(255)

    def bonus(self, index: np.ndarray) -> torch.Tensor:
        """The bonus, beta r_i / std, of the transitions `index`."""
        distance = self.neighbour(self.latents[index], self.latents)
        self.std = 0.99 * self.std + 0.01 * float(distance.std())
        return 0.05 * distance / self.std

    def update(self, full: bool) -> None:
        """One update; `full` includes actor, temperature and target."""
        index = self.rng.integers(0, len(self.frames) - 1, self.config.batch_size)
        observation, next_observation = self.crops(index), self.crops(index + 1)
        reward, action = self.rewards[index], self.actions[index]
        if self.neighbour is not None:
            reward = reward + self.bonus(index)
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            next_action, log_prob = self.actor(self.critic.convs(next_observation))
            q = torch.min(*self.target(self.target.convs(next_observation), next_action))
            target = reward + 0.99 * (q - alpha * log_prob)
        q1, q2 = self.critic(self.critic.convs(observation), action)
        step(self.critic_optimizer, F.mse_loss(q1, target) + F.mse_loss(q2, target))
        if full:
            self.update_actor_and_target(observation, alpha)

    def update_actor_and_target(self, observation: torch.Tensor, alpha: torch.Tensor) -> None:
        """What every second update adds."""
        with torch.no_grad():
            flat = self.critic.convs(observation)
        action, log_prob = self.actor(flat)
        if self.as_released:
            with torch.no_grad():
                flat = self.critic.convs(observation)
        self.critic.requires_grad_(False)
        q = torch.min(*self.critic(flat, action))
        step(self.actor_optimizer, (alpha * log_prob - q).mean())
        self.critic.requires_grad_(True)
        loss = self.log_alpha.exp() * (self.action_dim - log_prob.detach().mean())
        step(self.alpha_optimizer, loss)
        with torch.no_grad():
            for name in ("convs", "head", "q1", "q2"):
                tau = 0.05 if name in ("convs", "head") else 0.01
                new, old = getattr(self.critic, name), getattr(self.target, name)
                torch._foreach_lerp_(list(old.parameters()), list(new.parameters()), tau)


def step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """One step of an optimiser."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def nearest(queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Distance of rank 4, the query itself included: one matrix product and `topk`."""
    distance = torch.cdist(queries, rows, compute_mode="use_mm_for_euclid_dist")
    return distance.topk(4, largest=False)[0][:, -1]


def nearest_by_broadcast(queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The same as the released code has it: differences in chunks of 10,000 rows."""
    chunks = [
        torch.norm(queries[:, None] - chunk[None], dim=-1, p=2) for chunk in rows.split(10_000)
    ]
    return torch.kthvalue(torch.cat(chunks, dim=1), 4, dim=1)[0]
