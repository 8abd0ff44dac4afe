"""Runs with an encoder that was trained elsewhere, from its file of weights to their end."""

import csv
import json
import math

import pytest
import torch

from re3_jax.commands import train
from re3_jax.runs import machine
from tests.resume.compare import leaves
from tests.torch_oracle import atc, resnet

pytest.importorskip("dm_control")

WORDS = (
    *("--env", "cartpole_balance", "--preset", "debug", "--seeds", "1", "--dmc.renderer", "warp"),
    *("--steps", "1000", "--no-video", "--evaluation.episodes", "1"),
    # One kind of update compiles in less time than two.
    *("--sac.actor-every", "1", "--sac.target-every", "1"),
)


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    """Changes that `main` makes to its process must not reach other tests."""
    for name in ("keep_compiled_programs", "use_cpu_devices"):
        monkeypatch.setattr(machine, name, lambda *_: None)


def small_atc():
    torch.manual_seed(0)
    return atc.snapshot(atc.Encoder(filters=4, code=12))


def resnet50():
    return resnet.with_random_weights(0).state_dict()


@pytest.mark.parametrize(
    ("bonus", "weights", "latent_dim"),
    [
        ("atc", small_atc, 12),
        pytest.param("imagenet", resnet50, 2048, marks=pytest.mark.slow),
    ],
)
def test_a_run_is_rewarded_for_distances_between_latents_of_its_file(
    bonus, weights, latent_dim, tmp_path
):
    file, out = tmp_path / "weights", tmp_path / "run"
    torch.save(weights(), file)
    words = (*WORDS, "--bonus", bonus, "--bonus.weights", str(file), "--out", str(out))
    assert train.main(words) == 0
    assert json.loads((out / "summary.json").read_text())["complete"] is True
    with (out / "train.csv").open() as lines:
        rewards = [float(row["intrinsic_reward_mean"]) for row in csv.DictReader(lines)]
    assert rewards and all(math.isfinite(reward) and reward > 0 for reward in rewards)
    assert leaves(out)["intrinsic/bonus/ring/latents"].shape[-1] == latent_dim
