"""The paper's count of floating-point operations, from its networks' closed forms."""

import json
from pathlib import Path

import pytest

from benchmarks import bonuses

FRAMES, ACTION_REPEAT, BATCH = 500_000, 2, 512
OPERATIONS_OF_RE3 = 7.233e16
"""Of RAD + RE3 on Hopper Hop ("Compute-efficiency"), whose actions are 4 numbers."""

ACTIONS, WIDTH, LATENT = 4, 1024, 50


def multiply_adds_of_the_encoder():
    """3x3 convolutions over 84x84x9: 41x41, 39x39, 37x37 and 35x35 places; then a linear layer."""
    channels = (9, 32, 32, 32)
    convs = sum(s**2 * 32 * 9 * c for s, c in zip((41, 39, 37, 35), channels, strict=True))
    return convs + 35**2 * 32 * LATENT


def multiply_adds_of_the_heads():
    """An actor with mean and log std, and two critics."""
    actor = LATENT * WIDTH + WIDTH**2 + WIDTH * 2 * ACTIONS
    return actor + 2 * ((LATENT + ACTIONS) * WIDTH + WIDTH**2 + WIDTH)


def test_sizes_of_the_networks():
    assert bonuses.ENCODER_OPERATIONS == pytest.approx(multiply_adds_of_the_encoder(), rel=1e-3)
    assert bonuses.HEAD_OPERATIONS == pytest.approx(multiply_adds_of_the_heads(), rel=1e-3)


def test_passes_are_those_of_the_papers_total():
    """b (F + 2 B) (E + M) + (E + M) + E for an iteration: Appendix, "Calculation of ..."."""
    encoder, heads = multiply_adds_of_the_encoder(), multiply_adds_of_the_heads()
    multiply_adds = OPERATIONS_OF_RE3 / 2 / (FRAMES // ACTION_REPEAT)
    passes = (multiply_adds - (encoder + heads) - encoder) / (BATCH * (encoder + heads))
    assert passes == pytest.approx(5.94, abs=0.005)
    assert round(passes) == bonuses.RAD_PASSES


def test_inverse_dynamics_takes_roughly_twice_as_many():
    """4 b E and 6 b E operations more; the text says "roughly twice as many" of the latter."""
    encoder, heads = multiply_adds_of_the_encoder(), multiply_adds_of_the_heads()
    for name, passes, ratio in (("contrastive", 4, 1.62), ("inverse_dynamics", 6, 1.93)):
        assert 1 + passes * encoder / (6 * (encoder + heads)) == pytest.approx(ratio, abs=0.001)
        assert bonuses.paper_ratio(name) == pytest.approx(ratio, abs=0.001)
    assert bonuses.paper_ratio("re3") == pytest.approx(1, abs=0.001)


def test_the_committed_ratios_are_these():
    path = Path(bonuses.__file__).parent / "results" / "bonuses.json"
    for name, found in json.loads(path.read_text())["pixels"]["bonuses"].items():
        assert found["paper_operations_times_plain"] == bonuses.paper_ratio(name)
