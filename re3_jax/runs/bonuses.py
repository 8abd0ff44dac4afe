"""The bonuses: one entry each, the only place in `re3_jax.runs` that names it.

Command line, help, validation, building and fine-tuning are read off these entries. Another bonus
is another `Bonus(...)` in `BONUSES`, or `register(Bonus(...))` in a file that `--plugin` names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from re3_jax.intrinsic import counts, e3b, icm, ngu, noveld, rnd
from re3_jax.intrinsic.base import IntrinsicReward, none
from re3_jax.intrinsic.contrastive import contrastive
from re3_jax.intrinsic.inverse_dynamics import inverse_dynamics
from re3_jax.intrinsic.pretrained import IMAGENET_URL, atc, imagenet, load_atc, load_imagenet
from re3_jax.intrinsic.re3 import re3
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.runs.registry import Registry, Values


@dataclass(frozen=True)
class Bonus:
    """What `re3_jax.runs` knows of a bonus.

    Attributes:
      name: on the command line.
      make: (run's options, options of RE3) -> bonus; the ring of RE3's options is that of the
        agent's replay, if it has one. A state entropy is scaled afterwards.
      groups: its groups of options, as fields of `RunConfig`.
      config: dataclass of the first group, if `RunConfig` does not have that group.
      inherits: options, dotted, that decide what its encoder and its running statistics mean; a
        run that fine-tunes must have the same values.
      own: options, dotted, that only it uses in a group it shares with other bonuses.
      is_entropy: whether it is a distance to nearest neighbours, with the options `re3`.
      is_learned: whether its encoder is trained alongside the agent, with the options `learned`.
      from_one_step: whether it predicts across one step of the environment.
      weights: the file of weights that it needs, in words.
      frames: how many stacked frames an observation must have.
      counts_states: whether the task must number its states.
      rewards: whether it is a bonus at all.
    """

    name: str
    make: Callable[[Any, RE3Config], IntrinsicReward]
    groups: tuple[str, ...] = ()
    config: type | None = None
    inherits: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    is_entropy: bool = False
    is_learned: bool = False
    from_one_step: bool = False
    weights: str | None = None
    frames: int = 1
    counts_states: bool = False
    rewards: bool = True


def _dotted(group: str, names: str) -> tuple[str, ...]:
    return tuple(f"{group}.{name}" for name in names.split())


_ENCODER = "encoder_init image_input image_crop torso num_filters latent_dim normalize"
_RE3_ENCODER = _dotted("re3", f"{_ENCODER} ensemble_size")

_learned = partial(Bonus, groups=("re3", "learned"), is_entropy=True, is_learned=True)
_NETWORKS = f"{_ENCODER} hidden_dim"

_pretrained = partial(Bonus, groups=("re3", "pretrained"), is_entropy=True)

BONUSES = Registry(
    "a bonus",
    Bonus("none", lambda config, entropy: none(), rewards=False),
    Bonus(
        name="re3",
        make=lambda config, entropy: re3(entropy),
        groups=("re3",),
        inherits=_RE3_ENCODER,
        is_entropy=True,
    ),
    Bonus(
        name="rnd",
        make=lambda config, entropy: rnd.from_config(config.rnd),
        groups=("rnd",),
        inherits=_dotted("rnd", f"{_NETWORKS} rewarded normalize_observations"),
    ),
    Bonus(
        name="icm",
        make=lambda config, entropy: icm.from_config(config.icm),
        groups=("icm",),
        inherits=_dotted("icm", _NETWORKS),
        from_one_step=True,
    ),
    Bonus(
        name="e3b",
        make=lambda config, entropy: e3b.from_config(config.e3b, config.stored_steps),
        groups=("e3b",),
        inherits=_dotted("e3b", _NETWORKS),
        from_one_step=True,
    ),
    Bonus(
        name="noveld",
        make=lambda config, entropy: noveld.from_config(config.noveld, config.stored_steps),
        groups=("noveld",),
        inherits=_dotted("noveld", _NETWORKS),
        from_one_step=True,
    ),
    Bonus(
        name="ngu",
        make=lambda config, entropy: ngu.from_config(config.ngu, config.stored_steps),
        groups=("ngu",),
        inherits=_dotted("ngu", f"{_NETWORKS} neighbours"),
        from_one_step=True,
    ),
    Bonus(
        name="counts",
        make=lambda config, entropy: counts.from_config(config.counts, config.stored_steps),
        groups=("counts",),
        inherits=("counts.normalize",),
        counts_states=True,
    ),
    _learned(
        name="contrastive",
        make=lambda config, entropy: contrastive(entropy, config.learned),
        inherits=(*_RE3_ENCODER, "learned.augmentation"),
        own=_dotted("learned", "momentum augmentation shift_pad"),
    ),
    _learned(
        name="inverse_dynamics",
        make=lambda config, entropy: inverse_dynamics(entropy, config.learned),
        inherits=(*_RE3_ENCODER, "learned.hidden_dim"),
        own=("learned.hidden_dim",),
        from_one_step=True,
    ),
    _pretrained(
        name="imagenet",
        make=lambda config, entropy: imagenet(entropy, load_imagenet(config.pretrained.weights)),
        inherits=("re3.normalize", "pretrained.weights"),
        weights=f"torchvision's ResNet-50: fetch {IMAGENET_URL} and name it with --bonus.weights",
    ),
    _pretrained(
        name="atc",
        make=lambda config, entropy: atc(
            entropy, load_atc(config.pretrained.weights, config.pretrained.atc_output)
        ),
        inherits=("re3.normalize", "pretrained.weights", "pretrained.atc_output"),
        own=("pretrained.atc_output",),
        weights="a snapshot of rlpyt's ATC (params.pkl): name it with --bonus.weights",
        frames=3,
    ),
)
register = BONUSES.register


def keeps_latents(values: Values) -> bool:
    """Whether the bonus of a run has a ring of latents."""
    bonus = BONUSES[values["bonus"]]
    return bonus.is_entropy and (not bonus.is_learned or values["learned.neighbours"] == "ring")
