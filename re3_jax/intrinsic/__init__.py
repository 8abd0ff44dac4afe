"""Intrinsic rewards (one module per bonus), reward transforms, and `chain`.

`re3.from_config(config)` is the complete bonus; `re3.re3(config)` is the bare distance, for your
own `chain`. Modules of other bonuses have the same two functions, `rise` the first; `from_config`
at this level is RE3's. `pretrained` gives bare distances, which `state_entropy.scaled` completes,
as it does that of `state_entropy.state_entropy` over your own encoder. `sum_of` adds complete
bonuses.
"""

from re3_jax.intrinsic import (
    contrastive,
    counts,
    e3b,
    icm,
    inverse_dynamics,
    ngu,
    noveld,
    pretrained,
    re3,
    rise,
    rnd,
    state_entropy,
    transforms,
    vcse,
)
from re3_jax.intrinsic.base import (
    IntrinsicBatch,
    IntrinsicReward,
    RewardTransform,
    Step,
    chain,
    none,
    observe_rollout,
    one_by_one,
    prepared,
)
from re3_jax.intrinsic.checking import check_bonus
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.re3 import RE3Config, from_config
from re3_jax.intrinsic.rewarding import reward_batch, reward_rollout
from re3_jax.intrinsic.sums import sum_of
from re3_jax.intrinsic.transforms import log1p, normalize_by_running_std, scale_by_schedule

__all__ = [
    "IntrinsicBatch",
    "IntrinsicReward",
    "LearnedEncoderConfig",
    "RE3Config",
    "RewardTransform",
    "Step",
    "chain",
    "check_bonus",
    "contrastive",
    "counts",
    "e3b",
    "from_config",
    "icm",
    "inverse_dynamics",
    "log1p",
    "ngu",
    "none",
    "normalize_by_running_std",
    "noveld",
    "observe_rollout",
    "one_by_one",
    "prepared",
    "pretrained",
    "re3",
    "reward_batch",
    "reward_rollout",
    "rise",
    "rnd",
    "scale_by_schedule",
    "state_entropy",
    "sum_of",
    "transforms",
    "vcse",
]
