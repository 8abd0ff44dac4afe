"""SAC in PyTorch, the released code's algorithm: an oracle and a speed baseline.

denisyarats/drq with tied convolutions and the bonus in the target, with every optimisation that
PyTorch offers: the memory format `channels_last`, convolutions passed once per batch of images and
weights, no gradient where none is needed.
"""

import jax
import numpy as np
import torch
from torch.nn import functional as F

from re3_jax.agents.sac.agent import Draws, SACState
from re3_jax.agents.sac.config import SACConfig
from re3_jax.networks import conv_stack
from tests.torch_oracle.layers import convolve_all, flat, linear, mlp
from tests.torch_oracle.weights import adam, as_tensors, detached, step, values


class TorchSAC:
    """One learner; its weights are trees of tensors with the names of ours.

    Args:
      config: numbers of the agent.
      state: the weights and the temperature to begin with.
      as_released: lay it out as the released code is instead: PyTorch's default memory format,
        flattened in that order, and actor and critic each encode the images for themselves.
    """

    def __init__(self, config: SACConfig, state: SACState, as_released: bool = False):
        self.config, self.as_released = config, as_released
        self.memory_format = torch.contiguous_format if as_released else torch.channels_last
        self.actor, self.critic, self.target = (
            as_tensors(self._flattened_as(tree, "torch"), torch.float32)
            for tree in (state.actor, state.critic, state.target)
        )
        self.target = detached(self.target)
        self.log_alpha = torch.tensor(float(state.log_alpha), requires_grad=True)
        self.actor_optimizer = adam(self.actor, config.actor_learning_rate)
        self.critic_optimizer = adam(self.critic, config.critic_learning_rate)
        self.alpha_optimizer = adam(self.log_alpha, config.temperature_learning_rate)

    def ours(self, tree, read=values):
        """Values or gradients of a tree of weights, as arrays in our layout."""
        return self._flattened_as(read(tree), "ours")

    def prepared(self, draws: Draws) -> Draws:
        """The batch with images in the layout of convolutions and flat observations unchanged."""

        def images(x):
            if x.ndim == 2:
                return x
            return x.permute(0, 3, 1, 2).contiguous(memory_format=self.memory_format) / 255

        return draws._replace(
            observation=images(draws.observation), next_observation=images(draws.next_observation)
        )

    def features(self, convs, x):
        if convs is None:
            return x
        x = convolve_all(convs, x)
        return x.flatten(1) if self.as_released else flat(x)

    def policy(self, actor, features, noise):
        """A sampled action and its log-probability."""
        c = self.config
        mean, raw = mlp(actor.policy, encode(actor.head, features)).chunk(2, dim=1)
        log_std = c.log_std_min + 0.5 * (c.log_std_max - c.log_std_min) * (torch.tanh(raw) + 1)
        u = mean + log_std.exp() * noise
        log_normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
        log_det = 2 * (np.log(2) - u - F.softplus(-2 * u))
        return torch.tanh(u), (log_normal - log_det).sum(1)

    def target_values(self, batch, draws):
        """The mean target over the augmented copies; `draws` are prepared, here and below."""
        size, found = len(batch.action), []
        with torch.no_grad():
            alpha = self.log_alpha.exp()
            for x, noise in zip(
                draws.next_observation.split(size), draws.next_noise.split(size), strict=True
            ):
                features = self.features(self.critic.convs, x)
                action, log_prob = self.policy(self.actor, features, noise)
                q = q_values(self.target, self.features(self.target.convs, x), action)
                value = torch.min(*q) - alpha * log_prob
                reward = batch.reward + batch.bonus
                found.append(reward + batch.discount * self.config.discount * value)
        return sum(found) / len(found)

    def critic_loss(self, batch, draws, target):
        """The loss, and the mean of Q1."""
        loss, first = 0, []
        for x in draws.observation.split(len(batch.action)):
            features = self.features(self.critic.convs, x)
            both = q_values(self.critic, features, batch.action)
            first.append(both[0].detach().mean())
            for q in both:
                loss = loss + F.mse_loss(q, target)
        return loss, sum(first) / len(first)

    def actor_loss(self, draws):
        """The loss, and log pi(a|o)."""
        observation = draws.observation[: len(draws.noise)]
        # Only the actor's own weights get a gradient.
        critic = detached(self.critic)
        features = self.features(critic.convs, observation)
        action, log_prob = self.policy(self.actor, features, draws.noise)
        if self.as_released:
            features = self.features(critic.convs, observation)
        q = torch.min(*q_values(critic, features, action))
        return (self.log_alpha.exp().detach() * log_prob - q).mean(), log_prob

    def alpha_loss(self, log_prob):
        target_entropy = -self.actor.policy[-1].bias.shape[0] / 2
        return (self.log_alpha.exp() * (-log_prob - target_entropy).detach()).mean()

    def update(self, batch, draws: Draws, full: bool) -> dict[str, float]:
        """One update; `full` includes actor, temperature and target."""
        draws = self.prepared(draws)
        target = self.target_values(batch, draws)
        loss, q_mean = self.critic_loss(batch, draws, target)
        step(self.critic_optimizer, loss)
        info = {"critic_loss": loss.item(), "q_mean": q_mean.item()}
        info["target_mean"] = target.mean().item()
        if full:
            loss, log_prob = self.actor_loss(draws)
            step(self.actor_optimizer, loss)
            step(self.alpha_optimizer, self.alpha_loss(log_prob))
            self._move_target()
            info |= {"actor_loss": loss.item(), "entropy": -log_prob.mean().item()}
        return info

    def _move_target(self):
        c = self.config
        for name, tau in (
            ("convs", c.encoder_tau), ("head", c.encoder_tau), ("q", c.critic_tau),
        ):  # fmt: skip
            new, old = (jax.tree.leaves(getattr(x, name)) for x in (self.critic, self.target))
            if new:
                torch._foreach_lerp_(old, [leaf.detach() for leaf in new], tau)

    def _flattened_as(self, tree, order):
        """Weights with the rows of the layer after the convolutions in "torch" or "ours" order."""
        if not self.as_released or tree.head is None:
            return tree
        kernel = tree.head.linear.kernel
        filters = conv_stack.colour(self.config.torso, self.config.num_filters)[-1].filters
        first = filters if order == "ours" else len(kernel) // filters
        rows = kernel.reshape(first, -1, kernel.shape[1]).swapaxes(0, 1).reshape(kernel.shape)
        return tree._replace(head=tree.head._replace(linear=tree.head.linear._replace(kernel=rows)))


def encode(head, features):
    if head is None:
        return features
    x = linear(head.linear, features)
    return torch.tanh(F.layer_norm(x, x.shape[1:], head.scale, head.bias))


def q_values(critic, features, action):
    x = torch.cat([encode(critic.head, features), action], dim=1)
    return [mlp(q, x)[:, 0] for q in critic.q]
