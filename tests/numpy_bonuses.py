"""Bonuses behind the NumPy facade, and what a loop of four lanes hands them."""

from functools import cache

import jax
import numpy as np
import pytest
import torch

from re3_jax import compilation
from re3_jax.interop.numpy_bonus import NumpyBonus
from re3_jax.intrinsic import (
    LearnedEncoderConfig,
    RE3Config,
    contrastive,
    e3b,
    from_config,
    icm,
    inverse_dynamics,
    ngu,
    none,
    noveld,
    pretrained,
    rnd,
    sum_of,
    vcse,
)
from re3_jax.intrinsic.base import IntrinsicBatch, IntrinsicReward, Step
from re3_jax.intrinsic.rewarding import reward_rollout
from re3_jax.intrinsic.state_entropy import scaled
from tests.prediction_tasks import SIZES, TASKS, make_batch
from tests.torch_oracle import atc
from tests.unit.test_episodic_bonus import episodic_counts

LANES, TIME = 4, 3
ENTROPY = RE3Config(
    ring_size=32, latent_dim=6, num_filters=4, image_crop=16, beta=0.5, rho=0.01,
    normalize="running_std",
)  # fmt: skip
LEARNED = LearnedEncoderConfig(hidden_dim=16)
WHITENED = rnd.RNDConfig(**SIZES, normalize_observations=True)


@cache
def with_atc() -> IntrinsicReward:
    torch.manual_seed(0)
    weights = pretrained.atc_network.from_tensors(
        {name: leaf.numpy() for name, leaf in atc.Encoder(filters=4, code=12).state_dict().items()}
    )
    return scaled(ENTROPY, pretrained.atc(ENTROPY, weights))


BONUSES = {
    "none": none,
    "re3": lambda: from_config(ENTROPY),
    "re3 ensemble": lambda: from_config(RE3Config(ring_size=32, ensemble_size=2)),
    "rnd": lambda: rnd.from_config(WHITENED),
    "icm": lambda: icm.from_config(icm.ICMConfig(**SIZES)),
    "contrastive": lambda: scaled(ENTROPY, contrastive.contrastive(ENTROPY, LEARNED)),
    "inverse dynamics": lambda: scaled(
        ENTROPY, inverse_dynamics.inverse_dynamics(ENTROPY, LEARNED)
    ),
    "e3b": lambda: e3b.from_config(e3b.E3BConfig(**SIZES), TIME * LANES),
    "noveld": lambda: noveld.from_config(noveld.NovelDConfig(**SIZES), TIME * LANES),
    "ngu": lambda: ngu.from_config(ngu.NGUConfig(**SIZES, neighbours=1), TIME * LANES),
    "atc": with_atc,
    "sum": lambda: sum_of({"re3": from_config(ENTROPY), "rnd": rnd.from_config(WHITENED)}),
    "vcse": lambda: vcse.from_config(vcse.VCSEConfig(k=2, neighbours="ring"), ENTROPY),
    "vcse in the rollout": lambda: vcse.from_config(vcse.VCSEConfig(k=2), ENTROPY),
    "episodic": lambda: episodic_counts(lambda seen: (seen[:, 0] > 0).astype(int), 2),
}
FAST = {("re3", "vectors"), ("rnd", "vectors"), ("episodic", "vectors")}
CASES = [
    pytest.param(*case, marks=[] if case in FAST else pytest.mark.slow)
    for case in [
        *((name, "vectors") for name in BONUSES if name not in ("contrastive", "atc")),
        ("icm", "joints"),
        ("contrastive", "views"),
        ("re3", "pixels"),
        ("rnd", "pixels"),
        ("atc", "pixels"),
    ]
]


@cache
def program(name, function):
    bonus = BONUSES[name]()
    if function == "rollout":
        return compilation.jit(lambda *given: reward_rollout(bonus, *given))
    return compilation.jit(getattr(bonus, function))


def steps(task, seed):
    """One step of every lane, as a loop in NumPy has it."""
    batch = make_batch(task, seed, LANES)
    rng = np.random.default_rng(seed)
    ends = rng.random((2, LANES)) < 0.3
    arrays = batch.observation, batch.action, batch.next_observation
    value = rng.normal(size=LANES).astype(np.float32)
    return Step(*(np.asarray(leaf) for leaf in arrays), *ends, value=value)


def rollout(task, seed):
    """`TIME` such steps."""
    return jax.tree.map(lambda *rows: np.stack(rows), *(steps(task, seed + t) for t in range(TIME)))


def start(name, task, seed=5):
    """State and random stream of the same seed, from the function `init`."""
    init_key, stream = jax.random.split(jax.random.key(seed))
    bonus = BONUSES[name]()
    init = compilation.jit(lambda key: bonus.init(key, TASKS[task], LANES))
    return init(init_key), stream


def make(name, task, seed=5):
    return NumpyBonus(BONUSES[name](), TASKS[task], LANES, seed)


def batch_of(step, index, agent_steps):
    return IntrinsicBatch(*step[:3], index, np.int32(agent_steps), step.value)
