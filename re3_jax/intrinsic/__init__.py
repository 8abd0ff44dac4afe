"""Intrinsic rewards: `re3` and `none`, transforms of them, and `chain`."""

from re3_jax.intrinsic.base import (
    IntrinsicBatch,
    IntrinsicReward,
    RewardTransform,
    chain,
    none,
)
from re3_jax.intrinsic.re3 import RE3Config, from_config, re3
from re3_jax.intrinsic.transforms import log1p, normalize_by_running_std, scale_by_schedule

__all__ = [
    "IntrinsicBatch",
    "IntrinsicReward",
    "RE3Config",
    "RewardTransform",
    "chain",
    "from_config",
    "log1p",
    "none",
    "normalize_by_running_std",
    "re3",
    "scale_by_schedule",
]
