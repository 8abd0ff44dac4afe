"""Rainbow in PyTorch, as in Kaixhin/Rainbow: an oracle and a speed baseline."""

import torch
from torch import nn
from torch.nn import functional as F

from re3_jax.agents.rainbow import networks
from re3_jax.agents.rainbow.agent import RainbowBatch
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.networks.noisy import Noise
from tests.torch_oracle.layers import convolve_all, flat, linear
from tests.torch_oracle.weights import adam, as_tensors, detached, native


class TorchRainbow:
    """Both networks, trees of tensors with the names of ours, and the optimiser."""

    def __init__(self, config: RainbowConfig, online: networks.Network, target: networks.Network):
        self.config = config
        self.online = as_tensors(online, torch.float32)
        self.target = detached(as_tensors(target, torch.float32))
        self.optimizer = adam(self.online, config.learning_rate, eps=config.adam_eps)
        self.support = torch.linspace(config.v_min, config.v_max, config.num_atoms)

    def outputs(self, network, observation, noise):
        """[batch, actions, atoms]; `noise` is spread over the weights, or None for their means."""
        x = observation / 255 if observation.dtype == torch.uint8 else observation.float()
        if network.convs.layers:
            x = flat(convolve_all(network.convs, x.permute(0, 3, 1, 2)))
        for layer in network.linear:
            x = F.relu(linear(layer, x))
        atoms = self.config.num_atoms if self.config.distributional else 1

        def stream(layers, noise):
            hidden, output = noise or (None, None)
            inner = F.relu(noisy_linear(layers.hidden, x, hidden))
            return noisy_linear(layers.output, inner, output)

        advantage = stream(network.advantage, noise and noise[-2:]).view(len(x), -1, atoms)
        if network.value is None:
            return advantage
        value = stream(network.value, noise and noise[:2])[:, None]
        return value + advantage - advantage.mean(1, keepdim=True)

    def mean(self, outputs):
        if not self.config.distributional:
            return outputs[..., 0]
        return (F.softmax(outputs, dim=-1) * self.support).sum(-1)

    def project(self, probability, reward, discount):
        """Probability at the places r + gamma^n z, moved to the atoms."""
        c, (size, atoms) = self.config, probability.shape
        place = reward[:, None] + discount[:, None] * self.support
        b = (place.clamp(c.v_min, c.v_max) - c.v_min) / ((c.v_max - c.v_min) / (atoms - 1))
        low, high = b.floor().long(), b.ceil().long()
        # If b is an integer, so that no probability is lost.
        low[(high > 0) & (low == high)] -= 1
        high[(low < atoms - 1) & (low == high)] += 1
        offset = (torch.arange(size) * atoms)[:, None]
        projected = torch.zeros(size * atoms)
        projected.index_add_(0, (low + offset).view(-1), (probability * (high - b)).view(-1))
        projected.index_add_(0, (high + offset).view(-1), (probability * (b - low)).view(-1))
        return projected.view(size, -1)

    def update(self, batch: RainbowBatch, noises) -> tuple[float, torch.Tensor, float]:
        """One update without the copy to the target network.

        Args:
          batch: as tensors.
          noises: of `networks.draw_noise` or `draw_noise`, for both networks.

        Returns:
          the loss, the priorities of the batch, and the norm of the gradient.
        """
        c, every, action = self.config, torch.arange(len(batch.action)), batch.action.long()
        online_noise, target_noise = map(spread, noises)
        outputs = self.outputs(self.online, batch.observation, online_noise)[every, action]
        reward = batch.reward + batch.bonus
        with torch.no_grad():
            following = self.outputs(self.target, batch.next_observation, target_noise)
            choosing = following
            if c.double:
                choosing = self.outputs(self.online, batch.next_observation, online_noise)
            chosen = following[every, self.mean(choosing).argmax(1)]
            if c.distributional:
                target = self.project(F.softmax(chosen, dim=1), reward, batch.discount)
            else:
                target = reward + batch.discount * chosen[:, 0]
        if c.distributional:
            loss = error = -(target * F.log_softmax(outputs, dim=1)).sum(1)
        else:
            loss = F.smooth_l1_loss(outputs[:, 0], target, reduction="none")
            error = (outputs[:, 0] - target).abs()
        total = (batch.weight * loss).mean()
        self.optimizer.zero_grad()
        total.backward()
        trained = self.optimizer.param_groups[0]["params"]
        norm = nn.utils.clip_grad_norm_(trained, c.max_grad_norm)
        self.optimizer.step()
        return total.item(), error.detach() ** c.priority_exponent, norm.item()


def noisy_linear(layer, x, noise):
    if noise is None:
        return linear(layer, x)
    of_weights, of_bias = noise
    weight = native(layer.kernel) + native(layer.kernel_sigma) * of_weights
    return F.linear(x, weight, layer.bias + layer.bias_sigma * of_bias)


def spread(noise):
    """Noise of every weight and bias of each layer."""
    if noise is None:
        return None
    return [(torch.outer(layer.outputs, layer.inputs), layer.outputs) for layer in noise]


def draw_noise(network) -> list[Noise]:
    """f(x) = sign(x) sqrt(|x|) of normal numbers, for the inputs and outputs of each layer."""
    layers = (*network.value, *network.advantage)
    drawn = ([torch.randn(n) for n in layer.kernel.shape] for layer in layers)
    return [Noise(*(x.sign() * x.abs().sqrt() for x in pair)) for pair in drawn]
