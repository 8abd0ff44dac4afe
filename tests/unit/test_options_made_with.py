"""A bonus takes its own options only: another's have fields of the same names, and mean others."""

import pytest

from re3_jax.intrinsic import (
    RE3Config,
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
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig

RE3, LEARNED = RE3Config(), LearnedEncoderConfig()

RIGHT = {
    re3: (RE3,),
    rnd: (rnd.RNDConfig(),),
    icm: (icm.ICMConfig(),),
    noveld: (noveld.NovelDConfig(), 100),
    ngu: (ngu.NGUConfig(), 100),
    e3b: (e3b.E3BConfig(), 100),
    counts: (counts.CountsConfig(), 100),
    vcse: (vcse.VCSEConfig(), RE3),
    rise: (rise.RISEConfig(), RE3),
    contrastive: (RE3, LEARNED),
    inverse_dynamics: (RE3, LEARNED),
}

PLACES = [
    (module, place)
    for module, options in RIGHT.items()
    for place, value in enumerate(options)
    if not isinstance(value, int)
]


@pytest.mark.parametrize(
    ("module", "place"), PLACES, ids=[f"{m.__name__.rpartition('.')[2]}-{i}" for m, i in PLACES]
)
def test_options_of_another_bonus_are_refused(module, place):
    options = [*RIGHT[module]]
    module.from_config(*options)
    kind = type(options[place])
    others = {type(value) for values in RIGHT.values() for value in values} - {kind, int}
    for given in [other() for other in others] + [{"beta": 0.1}, None, kind]:
        options[place] = given
        with pytest.raises(ValueError, match=rf"needs options made with {kind.__name__}\(\.\.\.\)"):
            module.from_config(*options)


def test_the_sentence_says_what_was_given():
    with pytest.raises(ValueError, match=r"^rnd needs .* but got a dict$"):
        rnd.from_config({"beta": 0.1})
    with pytest.raises(ValueError, match=r"^re3 needs .* but got the class RE3Config$"):
        re3.from_config(RE3Config)
