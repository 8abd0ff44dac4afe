"""A2C's hyperparameters (torch-ac; the MiniGrid table of the paper's appendix)."""

from dataclasses import dataclass
from typing import Literal

from re3_jax import checks

BonusTarget = Literal["reward", "advantage"]


@dataclass(frozen=True)
class A2CConfig:
    """Advantage actor-critic with GAE.

    Attributes:
      num_envs: lanes stepped in parallel ("processes").
      rollout_length: agent steps per lane per update ("frames per process").
      learning_rate: RMSprop step size.
      rmsprop_decay: RMSprop's smoothing constant (PyTorch's alpha).
      rmsprop_eps: added to the root, as PyTorch does.
      discount: gamma.
      gae_lambda: lambda of generalised advantage estimation.
      entropy_coef: weight of the entropy bonus.
      value_coef: weight of the squared value error (no further factor 1/2).
      max_grad_norm: bound on the global norm of the gradient.
      bonus_target: where beta * r_int goes: into the `reward` before GAE (Algorithm 2), or
        onto the `advantage` and the return after GAE on the task reward alone (released code).
      bootstrap_truncation: whether V(final observation) replaces the future cut off by a time
        limit; torch-ac treats a time limit as the end of the task.
      hidden_dim: width of the actor's and critic's hidden layer.

    Raises:
      ValueError: if a value is out of range; the sentence says which and what is allowed.
    """

    num_envs: int = 16
    rollout_length: int = 8
    learning_rate: float = 1e-3
    rmsprop_decay: float = 0.99
    rmsprop_eps: float = 1e-8
    discount: float = 0.99
    gae_lambda: float = 0.95
    entropy_coef: float = 0.01
    value_coef: float = 0.5
    max_grad_norm: float = 0.5
    bonus_target: BonusTarget = "reward"
    bootstrap_truncation: bool = False
    hidden_dim: int = 64

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.switches(self)
        checks.at_least(self, 1, "num_envs", "rollout_length", "hidden_dim")
        # An eps of 0 divides 0 by 0 wherever a gradient has always been 0.
        checks.positive(self, "learning_rate", "rmsprop_eps", "max_grad_norm")
        checks.not_negative(self, "entropy_coef", "value_coef")
        checks.share(self, "discount", "gae_lambda")
        if not 0 <= self.rmsprop_decay < 1:
            raise ValueError(
                f"rmsprop_decay must be at least 0 and below 1, but it is {self.rmsprop_decay}"
            )
        checks.one_of(self, bonus_target=BonusTarget)
