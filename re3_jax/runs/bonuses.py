"""The bonuses: one entry each; beside it only presets name it.

Command line, help, validation, building and fine-tuning are read off these entries. Another bonus
is another `Bonus(...)` in `BONUSES`, or `register(Bonus(...))` in a file that `--plugin` names.
A run has one of them, or a sum of several, `re3+rnd`: `parts` finds the entries.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from re3_jax.intrinsic import (
    contrastive,
    counts,
    e3b,
    icm,
    inverse_dynamics,
    ngu,
    noveld,
    re3,
    rise,
    rnd,
    vcse,
)
from re3_jax.intrinsic.base import IntrinsicReward, none
from re3_jax.intrinsic.pretrained import IMAGENET_URL, atc, imagenet, load_atc, load_imagenet
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import scaled
from re3_jax.runs.registry import Registry, Values


@dataclass(frozen=True)
class Bonus:
    """What `re3_jax.runs` knows of a bonus.

    Attributes:
      name: on the command line.
      label: in legends; by default its name in capitals.
      make: (run's options, options of RE3) -> the complete bonus; the ring of RE3's options is that
        of the agent's replay, if it has one.
      groups: its groups of options, as fields of `RunConfig`; the first has its weight.
      config: dataclass of the first group, if `RunConfig` does not have that group.
      inherits: options, dotted, that decide what its encoder and its running statistics mean; a
        run that fine-tunes must have the same values.
      unused: options, dotted, that it does not use in a group it shares with other bonuses.
      is_entropy: whether it compares latents with their nearest neighbours, with the encoder and
        the ring of the options `re3`.
      is_learned: whether its encoder is trained alongside the agent, with the options `learned`.
      neighbours: option, dotted, that says where it searches neighbours, if it has the choice.
      of_minibatch: options, dotted, of a search that concern it in the minibatch, not in the ring.
      search_size: option, dotted, with the number of newest latents that it searches.
      rank: option, dotted, with the rank of its furthest neighbour; only RE3's can count the
        observation itself.
      needs_value: whether it compares the agent's values of observations.
      weights: the file of weights that it needs, in words.
      frames: how many stacked frames an observation must have.
      counts_states: whether the task must number its states.
      rewards: whether it is a bonus at all.
      values: options that its name stands for, in place of the preset's.
    """

    name: str
    make: Callable[[Any, RE3Config], IntrinsicReward]
    groups: tuple[str, ...] = ()
    config: type | None = None
    inherits: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    is_entropy: bool = False
    is_learned: bool = False
    neighbours: str | None = None
    of_minibatch: tuple[str, ...] = ()
    search_size: str = "re3.search_size"
    rank: str = "re3.last_neighbour"
    needs_value: bool = False
    weights: str | None = None
    frames: int = 1
    counts_states: bool = False
    rewards: bool = True
    values: Values = field(default_factory=dict)
    label: str = ""

    @property
    def group(self) -> str | None:
        """Its group of options, the one that has its weight."""
        return self.groups[0] if self.groups else None


def _dotted(group: str, names: str) -> tuple[str, ...]:
    return tuple(f"{group}.{name}" for name in names.split())


_ARCHITECTURE = "encoder_init image_input image_crop torso num_filters latent_dim"
_ENCODER = f"{_ARCHITECTURE} normalize"
_SCALE = "normalize log1p beta rho"
_RANKS = "first_neighbour last_neighbour count_self"
_NETWORKS = f"{_ENCODER} hidden_dim"
_CURL = "momentum augmentation shift_pad"
_RE3_ENCODER = _dotted("re3", f"{_ENCODER} ensemble_size {_RANKS}")

_learned = partial(
    Bonus,
    groups=("re3", "learned"),
    is_entropy=True,
    is_learned=True,
    neighbours="learned.neighbours",
)
_pretrained = partial(Bonus, groups=("re3", "pretrained"), is_entropy=True)

_CONTRASTIVE = _learned(
    name="contrastive",
    label="SE w/ Contrastive",
    make=lambda config, entropy: contrastive.from_config(entropy, config.learned),
    inherits=(*_RE3_ENCODER, "learned.augmentation"),
    unused=("learned.hidden_dim",),
)

BONUSES = Registry(
    "a bonus",
    Bonus,
    Bonus("none", lambda config, entropy: none(), rewards=False),
    Bonus(
        name="re3",
        make=lambda config, entropy: re3.from_config(entropy),
        groups=("re3",),
        inherits=_RE3_ENCODER,
        is_entropy=True,
    ),
    Bonus(
        name="rnd",
        make=lambda config, entropy: rnd.from_config(config.rnd),
        groups=("rnd",),
        config=rnd.RNDConfig,
        inherits=_dotted("rnd", f"{_NETWORKS} rewarded normalize_observations"),
    ),
    Bonus(
        name="icm",
        make=lambda config, entropy: icm.from_config(config.icm),
        groups=("icm",),
        config=icm.ICMConfig,
        inherits=_dotted("icm", _NETWORKS),
    ),
    Bonus(
        name="e3b",
        make=lambda config, entropy: e3b.from_config(config.e3b, config.stored_steps),
        groups=("e3b",),
        config=e3b.E3BConfig,
        inherits=_dotted("e3b", f"{_NETWORKS} ridge"),
    ),
    Bonus(
        name="noveld",
        label="NovelD",
        make=lambda config, entropy: noveld.from_config(config.noveld, config.stored_steps),
        groups=("noveld",),
        config=noveld.NovelDConfig,
        inherits=_dotted("noveld", f"{_NETWORKS} alpha"),
    ),
    Bonus(
        name="ngu",
        make=lambda config, entropy: ngu.from_config(config.ngu, config.stored_steps),
        groups=("ngu",),
        config=ngu.NGUConfig,
        inherits=_dotted("ngu", f"{_NETWORKS} neighbours"),
    ),
    Bonus(
        name="counts",
        label="counts",
        make=lambda config, entropy: counts.from_config(config.counts, config.stored_steps),
        groups=("counts",),
        config=counts.CountsConfig,
        inherits=_dotted("counts", "normalize episodic"),
        counts_states=True,
    ),
    _CONTRASTIVE,
    _learned(
        name="inverse_dynamics",
        label="SE w/ Inverse dynamics",
        make=lambda config, entropy: inverse_dynamics.from_config(entropy, config.learned),
        inherits=(*_RE3_ENCODER, "learned.hidden_dim"),
        unused=_dotted("learned", _CURL),
    ),
    replace(
        _CONTRASTIVE,
        name="apt",
        label="APT",
        # Liu and Abbeel (2021): log(1 + the mean distance to the k nearest of the minibatch, over
        # its running mean), with the k of the Unsupervised RL Benchmark, which counts the
        # observation itself.
        values={
            "learned.neighbours": "minibatch",
            "re3.first_neighbour": 1,
            "re3.last_neighbour": 12,
            "re3.count_self": True,
            "re3.search_size": None,
            "re3.normalize": "running_mean",
            "re3.log1p": True,
        },
    ),
    Bonus(
        name="rise",
        make=lambda config, entropy: rise.from_config(config.rise, entropy),
        groups=("rise", "re3"),
        config=rise.RISEConfig,
        inherits=_dotted("re3", f"{_ARCHITECTURE} ensemble_size"),
        unused=_dotted("re3", _SCALE),
        is_entropy=True,
    ),
    Bonus(
        name="vcse",
        make=lambda config, entropy: vcse.from_config(config.vcse, entropy),
        groups=("vcse", "re3"),
        config=vcse.VCSEConfig,
        inherits=_dotted("re3", _ARCHITECTURE),
        unused=_dotted("re3", f"{_SCALE} {_RANKS} search_size ensemble_size ring_shards"),
        is_entropy=True,
        neighbours="vcse.neighbours",
        of_minibatch=("re3.merge_copies",),
        search_size="vcse.search_size",
        rank="vcse.k",
        needs_value=True,
    ),
    _pretrained(
        name="imagenet",
        label="SE w/ ImageNet",
        make=lambda config, entropy: scaled(
            entropy, imagenet(entropy, load_imagenet(config.pretrained.weights))
        ),
        inherits=(*_dotted("re3", f"normalize {_RANKS}"), "pretrained.weights"),
        unused=("pretrained.atc_output",),
        weights=f"torchvision's ResNet-50: fetch {IMAGENET_URL} and name it with --bonus.weights",
    ),
    _pretrained(
        name="atc",
        label="SE w/ ATC",
        make=lambda config, entropy: scaled(
            entropy,
            atc(entropy, load_atc(config.pretrained.weights, config.pretrained.atc_output)),
        ),
        inherits=(
            *_dotted("re3", f"normalize {_RANKS}"),
            *_dotted("pretrained", "weights atc_output"),
        ),
        weights="a snapshot of rlpyt's ATC (params.pkl): name it with --bonus.weights",
        frames=3,
    ),
)
register = BONUSES.register

PLUS = "+"
"""Stands between the names of bonuses that are added."""


def parts(name: str) -> tuple[Bonus, ...]:
    """The entries of a run's bonus: one, or those of a sum.

    Raises:
      ValueError: there is no such bonus, or the parts cannot be added; one sentence.
    """
    names = name.split(PLUS)
    if not all(part in BONUSES for part in names):
        raise ValueError(
            f"--bonus {name} is not known: choose from {', '.join(BONUSES)}, add several, such as "
            f"re3{PLUS}rnd, or name the file that registers it with --plugin"
        )
    found = tuple(BONUSES[part] for part in names)
    if len(found) == 1:
        return found
    of_weight: dict[str, str] = {}
    for part in found:
        if not part.rewards:
            raise ValueError(
                f"--bonus {name} adds {part.name}, which rewards nothing: leave it out"
            )
        # Without options of its own it has nothing that a second part could share.
        weight = part.group or part.name
        if (other := of_weight.get(weight)) == part.name:
            raise ValueError(f"--bonus {name} adds {part.name} to itself: name it once")
        if other is not None:
            raise ValueError(
                f"--bonus {name} adds {other} and {part.name}, which have one weight, "
                f"--{weight}.beta: add bonuses with options of their own, such as re3{PLUS}rnd"
            )
        of_weight[weight] = part.name
    return found


def rewards(name: str) -> bool:
    """Whether a run's bonus rewards anything."""
    return any(part.rewards for part in parts(name))


def keeps_latents(values: Values) -> bool:
    """Whether the bonus of a run has a ring of latents."""
    return any(
        part.is_entropy and (not part.is_learned or values["learned.neighbours"] == "ring")
        for part in parts(values["bonus"])
    )
