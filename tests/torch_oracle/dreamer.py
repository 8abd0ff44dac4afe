"""Dreamer in PyTorch, as danijar/dreamer has it: an oracle and a speed baseline."""

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from re3_jax.agents.dreamer.agent import DreamerState, SequenceBatch
from re3_jax.agents.dreamer.config import DreamerConfig
from tests.torch_oracle.layers import convolve_all, flat, linear, mlp
from tests.torch_oracle.weights import adam, as_tensors, detached, native

BETA2 = 0.999
PARTS = "model", "actor", "value"


class Noise(NamedTuple):
    """Normal numbers: of the posteriors [time, batch, stoch], and of each imagined step."""

    posterior: torch.Tensor
    action: list[torch.Tensor]
    prior: list[torch.Tensor]


class TorchDreamer:
    """World model, actor and value as trees of tensors with our names, and their optimisers."""

    def __init__(self, config: DreamerConfig, state: DreamerState, dtype=torch.float32):
        self.config, self.dtype, self.updates = config, dtype, 0
        self.model, self.actor, self.value = self.parts = [
            as_tensors(getattr(state, name), dtype) for name in PARTS
        ]
        self.optimizers = [
            adam(part, rate) for part, rate in zip(self.parts, learning_rates(config), strict=True)
        ]

    def losses(self, batch: SequenceBatch, noise: Noise) -> list[torch.Tensor]:
        """Losses of model, actor and value."""
        c, model = self.config, self.model
        size, time = batch.reward.shape
        image = preprocessed(batch.frames.flatten(0, 1), self.dtype)
        embedding = encode(model.encoder, image).reshape(size, time, -1)
        stoch, deter, prior, posterior = observe(
            model.dynamics, embedding.swapaxes(0, 1), batch.action.swapaxes(0, 1), noise.posterior
        )
        features = torch.cat([stoch, deter], -1).swapaxes(0, 1)
        decoded = decode(model.decoder, features.flatten(0, 1))
        image_loss = 0.5 * ((decoded - image) ** 2).sum() / (size * time)
        reward_loss = 0.5 * ((scalar(model.reward, features) - batch.reward) ** 2).mean()
        divergence = torch.distributions.kl_divergence(posterior, prior).sum(-1).mean()
        model_loss = image_loss + reward_loss + c.kl_scale * divergence.clamp(min=c.free_nats)
        if model.discount is not None:
            wanted = c.discount * batch.discount
            logit = scalar(model.discount, features)
            entropy = F.binary_cross_entropy_with_logits(logit, wanted)
            model_loss = model_loss + c.discount_scale * entropy
            # Nothing is imagined from states in which the task may have ended.
            stoch, deter = stoch[:-1], deter[:-1]
        starts = [x.detach().flatten(0, 1) for x in (stoch, deter)]
        return [model_loss, *self.imagined_losses(*starts, noise)]

    def imagined_losses(self, stoch, deter, noise: Noise) -> list[torch.Tensor]:
        """Losses of actor and value, from states [start, ...]."""
        c, model, value = self.config, detached(self.model), detached(self.value)
        cell, imagined = gru_cell(model.dynamics.gru), []
        for of_action, of_prior in zip(noise.action, noise.prior, strict=True):
            mean, std = policy(self.actor, torch.cat([stoch, deter], -1).detach(), c)
            action = torch.tanh(mean + std * of_action)
            deter = advance(model.dynamics, cell, stoch, deter, action)
            prior = normal(model.dynamics.prior, deter)
            stoch = prior.mean + prior.stddev * of_prior
            imagined.append(torch.cat([stoch, deter], -1))
        imagined = torch.stack(imagined)
        reward, values = scalar(model.reward, imagined), scalar(value, imagined)
        discount = torch.full_like(reward, c.discount)
        if model.discount is not None:
            discount = torch.sigmoid(scalar(model.discount, imagined))
        returns = lambda_returns(reward[:-1], values, discount[:-1], c.td_lambda)
        ones = torch.ones_like(discount[:1])
        weight = torch.cumprod(torch.cat([ones, discount[:-2]]), 0).detach()
        guess = scalar(self.value, imagined[:-1].detach())
        value_loss = (weight * 0.5 * (guess - returns.detach()) ** 2).mean()
        return [-(weight * returns).mean(), value_loss]

    def update(self, batch: SequenceBatch, noise: Noise) -> dict[str, float]:
        """One update of all three parts; all gradients are taken at the same parameters."""
        losses, info = self.losses(batch, noise), {}
        for optimizer, loss in zip(self.optimizers, losses, strict=True):
            optimizer.zero_grad()
            loss.backward()
        self.updates += 1
        for name, optimizer, loss in zip(PARTS, self.optimizers, losses, strict=True):
            (group,) = optimizer.param_groups
            norm = nn.utils.clip_grad_norm_(group["params"], self.config.max_grad_norm)
            # Keras adds epsilon before it corrects the second moment's bias.
            group["eps"] = self.config.adam_eps / math.sqrt(1 - BETA2**self.updates)
            optimizer.step()
            info |= {f"{name}_loss": loss.item(), f"{name}_gradient_norm": norm.item()}
        return info


def learning_rates(config: DreamerConfig) -> tuple[float, float, float]:
    """Of `PARTS`."""
    c = config
    return c.model_learning_rate, c.actor_learning_rate, c.value_learning_rate


def draw_noise(config: DreamerConfig, action_dim: int) -> Noise:
    """Noise for one update without a predicted discount."""
    c = config
    starts, steps = c.batch_size * c.sequence_length, range(c.horizon)
    return Noise(
        torch.randn(c.sequence_length, c.batch_size, c.stoch),
        [torch.randn(starts, action_dim) for _ in steps],
        [torch.randn(starts, c.stoch) for _ in steps],
    )


def preprocessed(frames, dtype):
    """Bytes [batch, 64, 64, channels] scaled to [-0.5, 0.5], in the layout of convolutions."""
    return frames.permute(0, 3, 1, 2).to(dtype) / 255 - 0.5


def encode(stack, image):
    return flat(convolve_all(stack, image))


def decode(decoder, features):
    x = linear(decoder.hidden, features)[:, :, None, None]
    for number, layer in enumerate(decoder.convs):
        x = F.conv_transpose2d(F.relu(x) if number else x, native(layer.kernel), layer.bias, 2)
    return x


def scalar(head, features):
    return mlp(head, features, F.elu)[..., 0]


def policy(actor, features, config: DreamerConfig):
    """Mean and standard deviation before tanh."""
    c, (mean, raw) = config, mlp(actor, features, F.elu).chunk(2, dim=-1)
    shift = math.log(math.expm1(c.init_std))
    return c.mean_scale * torch.tanh(mean / c.mean_scale), F.softplus(raw + shift) + c.min_std


def gru_cell(gru):
    """PyTorch's cell with our weights; its gates are in the order reset, update, candidate."""

    def gates(weight):
        update, reset, candidate = weight.chunk(3)
        return torch.cat([reset, update, candidate])

    kernels = gates(native(gru.kernel)), gates(native(gru.recurrent))
    biases = gates(gru.bias), gates(gru.recurrent_bias)
    return lambda x, h: torch.gru_cell(x, h, *kernels, *biases)


def advance(dynamics, cell, stoch, deter, action):
    """The next deterministic state."""
    return cell(F.elu(linear(dynamics.into, torch.cat([stoch, action], -1))), deter)


def normal(layers, x):
    mean, raw = mlp(layers, x, F.elu).chunk(2, dim=-1)
    return torch.distributions.Normal(mean, F.softplus(raw) + 0.1)


def observe(dynamics, embedding, action, noise):
    """stoch, deter, priors and posteriors along sequences [time, batch, ...] from zeros."""
    cell, size = gru_cell(dynamics.gru), embedding.shape[1]
    stoch = embedding.new_zeros(size, noise.shape[-1])
    deter = embedding.new_zeros(size, len(dynamics.gru.recurrent))
    found = []
    for seen, moved, drawn in zip(embedding, action, noise, strict=True):
        deter = advance(dynamics, cell, stoch, deter, moved)
        posterior = normal(dynamics.posterior, torch.cat([deter, seen], 1))
        stoch = posterior.mean + posterior.stddev * drawn
        found.append((stoch, deter, posterior.mean, posterior.stddev))
    stochs, deters, means, stds = (torch.stack(x) for x in zip(*found, strict=True))
    posteriors = torch.distributions.Normal(means, stds)
    return stochs, deters, normal(dynamics.prior, deters), posteriors


def lambda_returns(reward, values, discount, lambda_):
    """danijar/dreamer's `lambda_return`; the last of `values` bootstraps."""
    later, returns = values[-1], []
    for t in reversed(range(len(reward))):
        mixed = (1 - lambda_) * values[t + 1] + lambda_ * later
        later = reward[t] + discount[t] * mixed
        returns.append(later)
    return torch.stack(returns[::-1])


def latents(encoder, frames, order, dtype=torch.float64):
    """RE3's random encoder: Keras' layers of the authors' code, or the paper's order of them."""
    x = linear(encoder.output, encode(encoder.convs, preprocessed(frames, dtype)))

    def norm(x):
        return F.layer_norm(x, x.shape[1:], eps=1e-3)

    return torch.tanh(norm(x)) if order == "layer_norm_then_tanh" else norm(torch.tanh(x))


def distances(latents, k):
    """Distances to the `k`-th neighbour in the batch, the point itself being the first."""
    return torch.cdist(latents, latents).kthvalue(k, 1).values
