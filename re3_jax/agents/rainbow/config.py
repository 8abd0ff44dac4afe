"""Rainbow's hyperparameters: the defaults of Kaixhin/Rainbow, which the authors used."""

from dataclasses import dataclass
from typing import Literal

from re3_jax import checks

Torso = Literal["canonical", "data_efficient", "minatar", "mlp"]


@dataclass(frozen=True)
class RainbowConfig:
    """DQN with six improvements, each of which can be left out alone.

    Attributes:
      double: the online network chooses the action whose value the target network gives.
      dueling: value and advantages have hidden layers of their own.
      noisy: noise in the linear layers explores; without it epsilon does.
      distributional: a distribution over returns is learned (C51); without it their mean, with
        Huber's loss.
      prioritized: transitions are drawn by their last loss; without it uniformly.
      n_steps: rewards summed before the value is bootstrapped; 1 leaves multi-step returns out.
      torso: what turns observations into features: the convolutions of DQN, the smaller ones of
        data-efficient Rainbow, one 3x3 convolution (MinAtar), or one hidden layer.
      hidden_dim: width of the hidden layer of each stream.
      num_atoms: places of the distribution.
      v_min: the lowest.
      v_max: the highest.
      noise: sigma_0 of the noisy layers.
      epsilon: share of uniformly random actions while training without `noisy`.
      discount: gamma.
      learning_rate: Adam's step size.
      adam_eps: added to the root of Adam's second moment.
      max_grad_norm: gradients are clipped to this global norm.
      target_every: updates between two copies to the target network.
      batch_size: transitions per update.
      priority_exponent: alpha of the priorities loss^alpha, without a distribution |error|^alpha.
      priority_weight: beta of the importance weights at the first update; it rises linearly to 1.
      anneal_agent_steps: the agent step at which it is 1.
      replay_capacity: agent steps kept per seed.
      initial_agent_steps: agent steps before the first update.
      agent_steps_per_update: agent steps that go with one update.
      num_envs: lanes stepped in parallel.
      reward_clip: rewards are stored within plus and minus this.

    Raises:
      ValueError: if a value is out of range; the sentence says which and what is allowed.
    """

    double: bool = True
    dueling: bool = True
    noisy: bool = True
    distributional: bool = True
    prioritized: bool = True
    n_steps: int = 3
    torso: Torso = "canonical"
    hidden_dim: int = 512
    num_atoms: int = 51
    v_min: float = -10.0
    v_max: float = 10.0
    noise: float = 0.1
    epsilon: float = 0.05
    discount: float = 0.99
    learning_rate: float = 6.25e-5
    adam_eps: float = 1.5e-4
    max_grad_norm: float = 10.0
    target_every: int = 2000
    batch_size: int = 32
    priority_exponent: float = 0.5
    priority_weight: float = 0.4
    anneal_agent_steps: int = 50_000_000
    replay_capacity: int = 1_000_000
    initial_agent_steps: int = 20_000
    agent_steps_per_update: int = 4
    num_envs: int = 1
    reward_clip: float = 1.0

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.switches(self)
        checks.one_of(self, torso=Torso)
        counts = "n_steps", "hidden_dim", "target_every", "batch_size", "anneal_agent_steps"
        loop = "replay_capacity", "initial_agent_steps", "agent_steps_per_update", "num_envs"
        checks.at_least(self, 1, *counts, *loop)
        checks.at_least(self, 2, "num_atoms")
        is_float32 = abs(self.v_min) + abs(self.v_max) <= checks.FLOAT32_MAX
        if not (is_float32 and self.v_min < self.v_max):
            raise ValueError(
                f"v_min ({self.v_min}) must be below v_max ({self.v_max}), and float32 must hold "
                "both and their difference"
            )
        checks.positive(self, "learning_rate", "adam_eps", "max_grad_norm", "reward_clip")
        checks.share(self, "epsilon", "discount", "priority_exponent", "priority_weight")
        checks.not_negative(self, "noise")
