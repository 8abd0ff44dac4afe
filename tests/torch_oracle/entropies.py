"""Rewards of other state entropies, written anew in PyTorch after their authors' code.

APT: `PBE` of rll-research/url_benchmark. RISE: `compute_intrinsic_rewards` of yuanmingqi/RISE.
VCSE: `VCSE` of kingdy2002/VCSE, and `compute_value_condition_state_entropy` of its A2C.
"""

import torch


class RunningMean:
    """URLB's `RMS`, of which `PBE` uses the mean: it begins as 1e-4 values of 0."""

    def __init__(self):
        self.mean, self.count = torch.zeros(1, dtype=torch.float64), 1e-4

    def __call__(self, values):
        total = self.count + len(values)
        self.mean = self.mean + (values.mean() - self.mean) * len(values) / total
        self.count = total
        return self.mean


def apt(latents, k, running_mean=None):
    """[batch, latent] -> [batch]: log(1 + mean to the k nearest, the row itself included)."""
    distances = torch.cdist(latents, latents, compute_mode="donot_use_mm_for_euclid_dist")
    nearest = distances.topk(k, dim=1, largest=False).values
    if running_mean is not None:
        nearest = nearest / running_mean(nearest.reshape(-1))
    return torch.log(1 + nearest.mean(dim=1))


def rise(latents, store, rank, alpha):
    """[batch, latent], [rows, latent] -> [batch]: the distance of this rank to the power."""
    distances = torch.cdist(latents, store, compute_mode="donot_use_mm_for_euclid_dist")
    return distances.sort(dim=1).values[:, rank - 1] ** (1 - alpha)


def vcse(latents, values, k):
    """[batch, latent], [batch] -> (reward, radius, count), each [batch]; k counts the row itself.

    Values pass through PyTorch's `layer_norm` over the batch first, as they do in the agents.
    """
    values = torch.nn.functional.layer_norm(values, values.shape)
    apart = torch.cdist(latents, latents, compute_mode="donot_use_mm_for_euclid_dist")
    gap = (values[:, None] - values[None]).abs()
    radius = torch.maximum(apart, gap).kthvalue(k, dim=1).values
    count = (gap < radius[:, None]).sum(dim=1)
    reward = torch.special.digamma(count + 1.0) / latents.shape[1] + torch.log(2 * radius + 1e-5)
    return reward, radius, count
