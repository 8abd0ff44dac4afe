"""Dreamer's update in PyTorch: what `dreamer_update` compares with.

The layers, sizes and losses of danijar/dreamer as one would write them with `torch.nn`; minibatch
RE3 by `torch.cdist` and `kthvalue`.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from re3_jax.agents.dreamer.config import DreamerConfig


def mlp(inputs: int, units: int, layers: int, outputs: int) -> nn.Sequential:
    """Linear layers with ELU between them."""
    widths = [inputs] + [units] * layers
    hidden: list[nn.Module] = []
    for here, there in zip(widths, widths[1:], strict=False):
        hidden += [nn.Linear(here, there), nn.ELU()]
    return nn.Sequential(*hidden, nn.Linear(widths[-1], outputs))


def encoder(depth: int) -> nn.Sequential:
    """Four convolutions."""
    widths = [3, depth, 2 * depth, 4 * depth, 8 * depth]
    layers: list[nn.Module] = []
    for here, there in zip(widths, widths[1:], strict=False):
        layers += [nn.Conv2d(here, there, 4, 2), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten())


class WorldModel(nn.Module):
    """Encoder, recurrent state-space model, decoder, reward."""

    def __init__(self, config: DreamerConfig, action_dim: int):
        """Draws the parameters."""
        super().__init__()
        c, features = config, config.deter + config.stoch
        self.encoder = encoder(c.conv_depth)
        self.into = nn.Linear(c.stoch + action_dim, c.hidden)
        self.gru = nn.GRUCell(c.hidden, c.deter)
        self.prior = mlp(c.deter, c.hidden, 1, 2 * c.stoch)
        self.posterior = mlp(c.deter + 32 * c.conv_depth, c.hidden, 1, 2 * c.stoch)
        self.hidden = nn.Linear(features, 32 * c.conv_depth)
        widths = [32 * c.conv_depth, 4 * c.conv_depth, 2 * c.conv_depth, c.conv_depth, 3]
        layers: list[nn.Module] = []
        for kernel, here, there in zip((5, 5, 6, 6), widths, widths[1:], strict=False):
            layers += [nn.ConvTranspose2d(here, there, kernel, 2), nn.ReLU()]
        self.decoder = nn.Sequential(*layers[:-1])
        self.reward = mlp(features, c.head_units, 2, 1)

    def advance(self, stoch, deter, action):
        """The next deterministic part."""
        return self.gru(F.elu(self.into(torch.cat([stoch, action], -1))), deter)


def normal(parameters: torch.Tensor) -> torch.distributions.Normal:
    """Mean, and what becomes a standard deviation."""
    mean, raw = parameters.chunk(2, -1)
    return torch.distributions.Normal(mean, F.softplus(raw) + 0.1)


class TorchDreamer:
    """All parts and their optimisers."""

    def __init__(self, config: DreamerConfig, action_dim: int, k: int | None):
        """With RE3 where k is given: the rank of the neighbour, the frame itself included."""
        self.config, self.k = config, k
        features = config.deter + config.stoch
        self.model = WorldModel(config, action_dim)
        self.actor = mlp(features, config.head_units, 4, 2 * action_dim)
        self.value = mlp(features, config.head_units, 3, 1)
        self.random = encoder(config.conv_depth).requires_grad_(False)
        self.latent = nn.Linear(32 * config.conv_depth, 50).requires_grad_(False)
        rates = config.model_learning_rate, config.actor_learning_rate, config.value_learning_rate
        self.parts = self.model, self.actor, self.value
        self.optimizers = [
            torch.optim.Adam(part.parameters(), rate, eps=config.adam_eps)
            for part, rate in zip(self.parts, rates, strict=True)
        ]

    def bonus(self, image: torch.Tensor) -> torch.Tensor:
        """Distance to the k-th neighbour in the batch."""
        latent = F.layer_norm(torch.tanh(self.latent(self.random(image))), (50,), eps=1e-3)
        return torch.cdist(latent, latent).kthvalue(self.k, 1).values

    def update(self, frames: np.ndarray, action: np.ndarray, reward: np.ndarray) -> None:
        """One update of all three parts."""
        c, model = self.config, self.model
        size, time = reward.shape
        image = torch.from_numpy(frames).flatten(0, 1).permute(0, 3, 1, 2).float() / 255 - 0.5
        target = torch.from_numpy(reward)
        if self.k is not None:
            target = target + 0.1 * self.bonus(image).reshape(size, time)
        moves = torch.from_numpy(action)
        embedding = model.encoder(image).reshape(size, time, -1)
        stoch, deter = torch.zeros(size, c.stoch), torch.zeros(size, c.deter)
        stochs, deters, means, stds = [], [], [], []
        for t in range(time):
            deter = model.advance(stoch, deter, moves[:, t])
            posterior = normal(model.posterior(torch.cat([deter, embedding[:, t]], 1)))
            stoch = posterior.rsample()
            stochs.append(stoch)
            deters.append(deter)
            means.append(posterior.mean)
            stds.append(posterior.stddev)
        stoch, deter, mean, std = (torch.stack(x, 1) for x in (stochs, deters, means, stds))
        posterior = torch.distributions.Normal(mean, std)
        features = torch.cat([stoch, deter], -1)
        decoded = model.decoder(model.hidden(features).reshape(size * time, -1, 1, 1))
        image_loss = 0.5 * ((decoded - image) ** 2).sum() / (size * time)
        reward_loss = 0.5 * ((model.reward(features)[..., 0] - target) ** 2).mean()
        divergence = torch.distributions.kl_divergence(posterior, normal(model.prior(deter)))
        model_loss = image_loss + reward_loss + divergence.sum(-1).mean().clamp(min=c.free_nats)
        model.requires_grad_(False)
        stoch, deter = (x.detach().flatten(0, 1) for x in (stoch, deter))
        imagined = []
        for _ in range(c.horizon):
            mean, raw = self.actor(torch.cat([stoch, deter], -1).detach()).chunk(2, -1)
            std = F.softplus(raw + float(np.log(np.expm1(5.0)))) + 1e-4
            chosen = torch.tanh(torch.distributions.Normal(5 * torch.tanh(mean / 5), std).rsample())
            deter = model.advance(stoch, deter, chosen)
            stoch = normal(model.prior(deter)).rsample()
            imagined.append(torch.cat([stoch, deter], -1))
        imagined = torch.stack(imagined)
        self.value.requires_grad_(False)
        rewards, values = model.reward(imagined)[..., 0], self.value(imagined)[..., 0]
        self.value.requires_grad_(True)
        later, returns = values[-1], []
        for t in reversed(range(c.horizon - 1)):
            mixed = (1 - c.td_lambda) * values[t + 1] + c.td_lambda * later
            later = rewards[t] + c.discount * mixed
            returns.append(later)
        returns = torch.stack(returns[::-1])
        weight = c.discount ** torch.arange(c.horizon - 1)[:, None]
        actor_loss = -(weight * returns).mean()
        guess = self.value(imagined[:-1].detach())[..., 0]
        value_loss = (weight * 0.5 * (guess - returns.detach()) ** 2).mean()
        model.requires_grad_(True)
        losses = model_loss, actor_loss, value_loss
        # All three gradients are taken at the same parameters.
        for optimizer, loss in zip(self.optimizers, losses, strict=True):
            optimizer.zero_grad()
            loss.backward()
        for part, optimizer in zip(self.parts, self.optimizers, strict=True):
            nn.utils.clip_grad_norm_(part.parameters(), c.max_grad_norm)
            optimizer.step()
