"""What a fine-tuned run inherits from the run that it starts from, and what it begins afresh.

The paper: "we initialize the parameters using the pre-trained parameters", and "we load the
running estimate of the standard deviation from pre-training phase" (Appendix, "Details on
DeepMind Control Suite Experiments"). That estimate is of distances in the space of one encoder,
so the encoder goes with it. `FIELDS` is the whole list: networks, encoders and running
statistics are inherited; optimisers, replays, latents, temperature, counters, environments and
random streams are not.
"""

from collections.abc import Mapping
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array

from re3_jax.agents.a2c.agent import A2CState
from re3_jax.agents.dreamer.agent import DreamerState
from re3_jax.agents.dreamer.state_entropy import RandomEncoder
from re3_jax.agents.rainbow.agent import RainbowState
from re3_jax.agents.sac.agent import SACState
from re3_jax.intrinsic.base import ChainState
from re3_jax.intrinsic.contrastive import ContrastiveState
from re3_jax.intrinsic.icm import ICMState
from re3_jax.intrinsic.inverse_dynamics import InverseDynamicsState
from re3_jax.intrinsic.rnd import RNDState
from re3_jax.intrinsic.state_entropy import StateEntropyState
from re3_jax.random_encoder import GreyEncoder, PixelEncoder, VectorEncoder
from re3_jax.training.train_state import TrainState

Fate = Literal["inherited", "afresh", "by field"]
"""Of one field; `by field` where its own type says it."""

FIELDS: dict[type, dict[str, Fate]] = {
    TrainState: {
        "agent": "by field",
        "intrinsic": "by field",
        "replay": "afresh",
        "memory": "afresh",
        "lanes": "afresh",
        "counters": "afresh",
        "key": "afresh",
        "evaluation_key": "afresh",
        "visited": "afresh",
    },
    A2CState: {"params": "inherited", "opt_state": "afresh"},
    SACState: {
        "actor": "inherited",
        "critic": "inherited",
        "target": "inherited",
        "log_alpha": "afresh",
        "actor_opt_state": "afresh",
        "critic_opt_state": "afresh",
        "temperature_opt_state": "afresh",
        "actor_info": "afresh",
    },
    RainbowState: {
        "online": "inherited",
        "target": "inherited",
        "opt_state": "afresh",
        "updates": "afresh",
    },
    DreamerState: {
        "model": "inherited",
        "actor": "inherited",
        "value": "inherited",
        "model_opt_state": "afresh",
        "actor_opt_state": "afresh",
        "value_opt_state": "afresh",
        "updates": "afresh",
    },
    # Of the transforms only the running standard deviation has a state.
    ChainState: {"bonus": "by field", "transforms": "inherited"},
    StateEntropyState: {"encoder": "by field", "ring": "afresh", "newest": "afresh"},
    PixelEncoder: {"convs": "inherited", "output": "inherited"},
    GreyEncoder: {"convs": "inherited", "output": "inherited"},
    VectorEncoder: {"hidden": "inherited", "output": "inherited"},
    RandomEncoder: {"convs": "inherited", "output": "inherited"},
    ContrastiveState: {"params": "inherited", "key_encoder": "inherited", "opt_state": "afresh"},
    InverseDynamicsState: {"params": "inherited", "opt_state": "afresh"},
    RNDState: {
        "target": "inherited",
        "predictor": "inherited",
        "opt_state": "afresh",
        "seen": "inherited",
    },
    ICMState: {"params": "inherited", "opt_state": "afresh"},
}
"""Type of a state -> its fields; every field of each is named.

A plain tuple is inherited whole: the random encoder of MiniGrid is one, and the empty state of no
bonus.
"""


def inherited(state: TrainState) -> dict[str, Array]:
    """The leaves of a state that a fine-tuned run inherits, by their path: `agent/params/...`.

    Raises:
      TypeError: it holds a state of which `FIELDS` says nothing.
    """
    return {
        name_of(path): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if _is_inherited(state, path)
    }


def inherit(fresh: TrainState, source: Mapping[str, Array | np.ndarray]) -> TrainState:
    """`fresh` with all that it inherits taken from another run.

    Without a bonus there is none to inherit: the agent's networks alone are taken.

    Args:
      fresh: state at env frame 0, of one seed or with a leading axis of seeds.
      source: `inherited` of the other run's state, of the same seeds; what else it holds is
        left there.

    Raises:
      ValueError: something to be inherited is missing in `source` or has another shape there.
      TypeError: as `inherited`.
    """
    for name, leaf in inherited(fresh).items():
        if name not in source:
            raise ValueError(f"the run to start from has no {name}")
        found = source[name]
        if (found.shape, found.dtype) != (leaf.shape, leaf.dtype):
            raise ValueError(
                f"{name} is {leaf.dtype}{list(leaf.shape)} here and "
                f"{found.dtype}{list(found.shape)} in the run to start from"
            )
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: source[name_of(path)] if _is_inherited(fresh, path) else leaf, fresh
    )


def name_of(path: Any) -> str:
    """The path of a leaf as it is written: `agent/params/params/trunk/kernel_0`."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _is_inherited(state: Any, path: Any) -> bool:
    for key in path:
        if type(state) is tuple:
            return True
        if type(state) not in FIELDS:
            raise TypeError(
                f"whether a fine-tuned run inherits {type(state).__name__} is not said: add it to "
                "re3_jax.training.transfer.FIELDS"
            )
        fate = FIELDS[type(state)][key.name]
        if fate != "by field":
            return fate == "inherited"
        state = getattr(state, key.name)
    raise TypeError(f"{name_of(path)} is an array, of which no field says whether it is inherited")
