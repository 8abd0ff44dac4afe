"""E3B, NovelD, NGU and counts on the command line: options, refusals and fine-tuning."""

import jax
import numpy as np
import pytest

from re3_jax.commands import train
from re3_jax.runs.build import make_bonus, task_spec
from re3_jax.runs.config import flatten
from re3_jax.runs.options import parse
from re3_jax.runs.resolve import resolve
from tests.cli.refusal import DEBUG, DOORKEY, own_folder, refused  # noqa: F401
from tests.resume.compare import leaves

EPISODIC = ("e3b", "noveld", "ngu", "counts")
STEPS = ("--chunk-updates", "8", "--evaluation.episodes", "1", "--seeds", "1")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            ("--env", "gymnax:CartPole-v1", "--bonus", "counts", *DEBUG),
            ["--bonus counts", "gymnax:CartPole-v1 does not number", "doorkey_6x6"],
        ),
        (
            ("--env", "cheetah_run_sparse", "--bonus", "counts", *DEBUG),
            ["--bonus counts", "cheetah_run_sparse does not number"],
        ),
        ((*DOORKEY, "--bonus", "e3b", "--e3b.ridge", "0"), ["--e3b.ridge", "above 0"]),
        ((*DOORKEY, "--bonus", "noveld", "--noveld.alpha", "-1"), ["--noveld.alpha", "at least 0"]),
        (
            (*DOORKEY, "--bonus", "ngu", "--ngu.memory-size", "5"),
            ["memory of 5", "--ngu.memory-size", "--ngu.neighbours"],
        ),
        ((*DOORKEY, "--bonus", "ngu", "--ngu.max-modulation", "0.5"), ["--ngu.max-modulation"]),
        ((*DOORKEY, "--ngu.neighbours", "5"), ["--ngu.neighbours", "--bonus re3", "--bonus ngu"]),
    ],
)
def test_what_cannot_work_is_refused(capsys, argv, words):
    sentence = refused(capsys, *argv)
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("e3b.ridge", 0.1), ("e3b.beta", 1.0), ("e3b.normalize", "running_std"),
        ("e3b.learning_rate", 1e-4), ("noveld.alpha", 0.5), ("noveld.beta", 0.05),
        ("noveld.learning_rate", 1e-4), ("ngu.beta", 0.3), ("ngu.neighbours", 10),
        ("ngu.kernel_epsilon", 1e-4), ("ngu.cluster_distance", 0.008), ("ngu.pseudo_count", 1e-3),
        ("ngu.max_similarity", 8.0), ("ngu.max_modulation", 5.0), ("ngu.memory_size", 30_000),
        ("ngu.learning_rate", 5e-4),
    ],
)  # fmt: skip
def test_numbers_are_those_of_the_authors(option, value):
    """E3B's and NovelD's commands for MiniHack and MiniGrid, and Table 6 of NGU."""
    assert flatten(resolve("doorkey_8x8"))[option] == value


@pytest.mark.parametrize(("agent", "steps"), [("a2c", 16 * 8), ("ppo", 16 * 128)])
def test_a_rollout_is_stored_whole(agent, steps):
    config = parse(["--env", "doorkey_6x6", "--agent", agent, "--bonus", "counts"])
    state = make_bonus(config).init(jax.random.key(0), task_spec(config), 16)
    assert config.stored_steps == len(state.bonus.stored.values) == steps


@pytest.mark.slow
@pytest.mark.parametrize("bonus", EPISODIC)
def test_fine_tuning_takes_over_what_is_not_of_an_episode(bonus, tmp_path):
    source, tuned = tmp_path / "source", tmp_path / "tuned"
    words = ("--preset", "debug", "--bonus", bonus, *STEPS)
    first = ("--env", "minigrid:Empty-5x5", "--pretrain", "256", "--out", str(source))
    assert train.main((*words, *first)) == 0
    second = ("--env", "minigrid:DoorKey-5x5", "--steps", "256", "--init", str(source))
    assert train.main((*words, *second, "--out", str(tuned))) == 0
    begun, learned = leaves(tuned, 0), leaves(source)
    networks = {n for n in begun if n.startswith("intrinsic/") and "/params/" in n}
    networks |= {n for n in begun if "/target/" in n or "/predictor/" in n}
    assert bool(networks) == (bonus != "counts")
    assert all(np.array_equal(begun[name], learned[name]) for name in networks)
    stored = {
        "e3b": "bonuses/values", "noveld": "seen/num_added", "ngu": "memory/num_added",
        "counts": "visits",
    }  # fmt: skip
    name = f"intrinsic/bonus/{stored[bonus]}"
    assert learned[name].any() and not begun[name].any()
