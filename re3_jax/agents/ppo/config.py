"""PPO's hyperparameters (Schulman et al., 2017), with the defaults of CleanRL's `ppo.py`."""

from dataclasses import dataclass
from typing import Literal

from re3_jax import checks

ScaledRewards = Literal["none", "all", "intrinsic"]


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimisation with the clipped objective and GAE.

    Attributes:
      num_envs: lanes stepped in parallel.
      rollout_length: agent steps per lane per rollout.
      num_epochs: passes over each rollout.
      num_minibatches: parts of a rollout, one Adam step each; must divide its size.
      learning_rate: of Adam.
      anneal_agent_steps: agent steps over which the learning rate falls linearly to 0; None keeps
        it.
      adam_eps: Adam's epsilon.
      discount: gamma.
      gae_lambda: lambda of generalised advantage estimation.
      clip_epsilon: the bound of the probability ratio is 1 - epsilon to 1 + epsilon.
      clip_value_loss: whether a value counts at most epsilon away from what it was at the rollout.
      entropy_coef: weight of the entropy bonus.
      value_coef: weight of the value loss, half the squared error.
      max_grad_norm: bound on the global norm of the gradient.
      target_kl: no epoch follows one that ends with a larger estimate of the KL divergence from
        the policy of the rollout; None makes all epochs.
      bootstrap_truncation: whether V(final observation) replaces the future cut off by a time
        limit; CleanRL treats a time limit as the end of the task.
      normalize_observations: whether the networks see each element minus its running mean, divided
        by its running standard deviation and clipped to [-10, 10].
      reward_clip: the task's rewards are clipped to plus and minus this, before anything else;
        CleanRL's Atari agent learns from their signs. None leaves them.
      scaled_rewards: rewards divided by the running standard deviation of their discounted sums
        and clipped to [-10, 10]: all of them (CleanRL's continuous control), or those of the
        intrinsic value head alone (RND). A constant beta has no effect on rewards so divided.
      intrinsic_value_head: whether the bonus has a value function of its own, whose returns do not
        end with episodes (RND, Section 2.3), instead of being added to the reward.
      intrinsic_discount: its gamma.
      extrinsic_coef: weight of the task's advantage where the bonus has its own.
      intrinsic_coef: weight of the bonus's advantage.
      hidden_dim: width of the hidden layers.
      recurrent: whether a GRU of that width remembers the episode. Minibatches are then whole
        sequences of some of the lanes, as in CleanRL's `ppo_atari_lstm.py`.

    Raises:
      ValueError: if a value is out of range; the sentence says which and what is allowed.
    """

    num_envs: int = 4
    rollout_length: int = 128
    num_epochs: int = 4
    num_minibatches: int = 4
    learning_rate: float = 2.5e-4
    anneal_agent_steps: int | None = None
    adam_eps: float = 1e-5
    discount: float = 0.99
    gae_lambda: float = 0.95
    clip_epsilon: float = 0.2
    clip_value_loss: bool = True
    entropy_coef: float = 0.01
    value_coef: float = 0.5
    max_grad_norm: float = 0.5
    target_kl: float | None = None
    bootstrap_truncation: bool = False
    normalize_observations: bool = False
    reward_clip: float | None = None
    scaled_rewards: ScaledRewards = "none"
    intrinsic_value_head: bool = False
    intrinsic_discount: float = 0.99
    extrinsic_coef: float = 2.0
    intrinsic_coef: float = 1.0
    hidden_dim: int = 64
    recurrent: bool = False

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.switches(self)
        checks.at_least(self, 1, "num_envs", "rollout_length", "num_epochs", "num_minibatches")
        checks.at_least(self, 1, "hidden_dim")
        checks.positive(self, "learning_rate", "adam_eps", "clip_epsilon", "max_grad_norm")
        checks.not_negative(self, "entropy_coef", "value_coef", "extrinsic_coef", "intrinsic_coef")
        checks.share(self, "discount", "gae_lambda", "intrinsic_discount")
        checks.one_of(self, scaled_rewards=ScaledRewards)
        if self.anneal_agent_steps is not None:
            checks.at_least(self, 1, "anneal_agent_steps")
        for name in ("target_kl", "reward_clip"):
            if getattr(self, name) is not None:
                checks.positive(self, name)
        if self.scaled_rewards == "intrinsic" and not self.intrinsic_value_head:
            raise ValueError(
                "scaled_rewards intrinsic scales the rewards of the intrinsic value head, which "
                "there is none of: set intrinsic_value_head, or scaled_rewards to none or all"
            )
        if self.recurrent and self.num_envs % self.num_minibatches:
            raise ValueError(
                f"num_minibatches {self.num_minibatches} must divide the {self.num_envs} lanes, "
                "because a GRU learns from whole sequences: lower num_minibatches or "
                "change num_envs"
            )
        size, parts = self.num_envs * self.rollout_length, self.num_minibatches
        if size % parts or size < 2 * parts:
            raise ValueError(
                f"num_minibatches {parts} must divide the {size} steps of a rollout "
                f"({self.num_envs} lanes x {self.rollout_length}) into parts of 2 or more"
            )

    @property
    def num_values(self) -> int:
        """Values of a state: the task's, and the bonus's where it has its own."""
        return 1 + self.intrinsic_value_head
