"""Counts of floating-point operations: the paper's rule and XLA's, against closed forms."""

import csv
import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from benchmarks import bonuses
from experiments import operations, program_operations
from re3_jax.agents.sac.config import SACConfig
from re3_jax.cpu.conv import convolve
from re3_jax.runs import build
from re3_jax.runs.resolve import resolve

ROOT = Path(__file__).parents[2]
ENV_FRAMES, ACTION_REPEAT, BATCH = 500_000, 2, 512
ACTIONS, WIDTH, LATENT = 4, 1024, 50
"""Of Hopper Hop, of which the paper states the total."""

CONVS = [s**2 * 32 * 9 * c for s, c in zip((41, 39, 37, 35), (9, 32, 32, 32), strict=True)]
"""Multiply-adds of 3x3 convolutions over 84x84x9, with these places and input channels."""
LINEAR = 35**2 * 32 * LATENT
POLICY = LATENT * WIDTH + WIDTH**2 + WIDTH * 2 * ACTIONS
Q = 2 * ((LATENT + ACTIONS) * WIDTH + WIDTH**2 + WIDTH)


def test_sizes_of_the_networks():
    found = operations.networks(SACConfig(), (84, 84, 9), ACTIONS)
    assert found == (sum(CONVS) + LINEAR, POLICY + Q)


def of_run(bonus):
    found = operations.networks(SACConfig(), (84, 84, 9), ACTIONS)
    return ENV_FRAMES // ACTION_REPEAT * operations.of_iteration(bonus, found, BATCH)


def test_total_of_re3_is_the_papers():
    assert of_run("re3") == pytest.approx(operations.STATED["re3"], rel=0.011)


def test_inverse_dynamics_takes_roughly_twice_as_many():
    for name, passes, ratio in (("contrastive", 4, 1.62), ("inverse_dynamics", 6, 1.93)):
        encoder, both = sum(CONVS) + LINEAR, sum(CONVS) + LINEAR + POLICY + Q
        assert 1 + passes * encoder / (6 * both) == pytest.approx(ratio, abs=0.001)
        assert of_run(name) / of_run("none") == pytest.approx(ratio, abs=0.001)
    assert of_run("re3") / of_run("none") == pytest.approx(1, abs=0.001)


def test_the_committed_ratios_are_these():
    path = ROOT / "benchmarks" / "results" / "bonuses.json"
    for name, found in json.loads(path.read_text())["pixels"]["bonuses"].items():
        assert found["paper_operations_times_plain"] == bonuses.paper_ratio(name)


def test_searches_are_those_of_the_papers_footnote():
    """The formula gives 0.7% less than the footnote says; with a 3 for its last 2, the same."""
    searches = operations.of_searches(range(1_000, 250_001), BATCH, 100_000, LATENT)
    rows = sum(min(n, 100_000) for n in range(1_000, 250_001))
    assert searches == pytest.approx(operations.STATED_SEARCHES, rel=0.007)
    assert searches + BATCH * rows == pytest.approx(operations.STATED_SEARCHES, rel=3e-4)


@pytest.mark.parametrize("stride", [1, 2])
def test_xla_counts_two_operations_for_each_multiply_add_of_a_convolution(stride):
    x, kernel = jnp.zeros((4, 12, 12, 3)), jnp.zeros((3, 3, 3, 8))
    places = (12 - 3) // stride + 1
    multiply_adds = 4 * places**2 * 9 * 3 * 8
    out = jnp.zeros((4, places, places, 8))

    def of_images(kernel, out):
        return jax.vjp(lambda x: convolve(x, kernel, stride), x)[1](out)

    def of_kernel(x, out):
        return jax.vjp(lambda kernel: convolve(x, kernel, stride), kernel)[1](out)

    counted = program_operations.counted
    assert counted(lambda x, kernel: convolve(x, kernel, stride), x, kernel) == 2 * multiply_adds
    assert counted(of_images, kernel, out) == 2 * multiply_adds
    assert counted(of_kernel, x, out) == 2 * multiply_adds


def test_xla_counts_a_small_network():
    weights = [jnp.zeros((7, 5)), jnp.zeros((5, 3))]

    def loss(weights, x):
        return jnp.sum(jax.nn.relu(x @ weights[0]) @ weights[1])

    # A maximum for each hidden unit; the sum of n numbers takes n - 1 additions.
    forward = 2 * 11 * (7 * 5 + 5 * 3) + 11 * 5 + (11 * 3 - 1)
    assert program_operations.counted(loss, weights, jnp.zeros((11, 7))) == forward


def test_xla_counts_the_body_of_a_loop_once():
    """The reason why the product of a search is counted over all rows at once."""

    def products(x):
        return lax.fori_loop(0, 7, lambda _, carry: carry @ x, x)

    x = jnp.zeros((20, 20))
    assert program_operations.counted(products, x) == pytest.approx(2 * 20**3, rel=0.001)


@pytest.fixture(scope="module")
def rad():
    config = dataclasses.replace(resolve("hopper_hop", bonus="re3", preset="paper"), seeds=1)
    return program_operations.of_run(config, build.task_spec(config))


def test_programs_of_rad_are_its_networks(rad):
    """Passes are those that `re3_jax.agents.sac.agent` lists; no gradient reaches the images."""
    programs, totals = rad
    convs, first = sum(CONVS), CONVS[0]
    with_actor = 6 * convs - first + 8 * LINEAR + 4 * POLICY + 6 * Q
    critic_only = 5 * convs - first + 5 * LINEAR + POLICY + 4 * Q
    learn = 2 * BATCH * (with_actor + critic_only) / 2
    assert learn < programs.learn < 1.01 * learn
    act = 2 * (convs + LINEAR + POLICY)
    assert act < programs.act < 1.01 * act
    encode = 2 * (convs + LINEAR)
    assert encode < programs.store < 1.03 * encode
    product = 2 * BATCH * LATENT
    assert product < programs.search_per_row < 1.03 * product
    assert programs.act_randomly < 1_000
    steps = ENV_FRAMES // ACTION_REPEAT
    assert totals.updates == steps - 1_000
    rows = sum(min(step, 100_000) for step in range(1_000, steps))
    assert totals.of_searches == pytest.approx(programs.search_per_row * rows, rel=1e-4)
    total = programs.learn * totals.updates + totals.of_searches
    total += programs.act * (steps - 1_000) + programs.store * steps
    assert totals.of_all == pytest.approx(total, rel=1e-6)


def test_the_committed_counts_are_these(rad):
    folder = ROOT / "results" / "flops"
    calls = json.loads((folder / "counts.json").read_text())["operations_of_one_call"]["paper"]
    programs, totals = rad
    for name, value in programs._asdict().items():
        assert calls["re3"][name] == pytest.approx(value, rel=1e-3)
    with (folder / "table.csv").open() as lines:
        rows = {(row["bonus"], row["counted"]): row for row in csv.DictReader(lines)}
    counted = rows["re3", "paper"]
    assert float(counted["operations"]) == pytest.approx(totals.of_all, rel=1e-3)
    for bonus in operations.EXTRA_FORWARD_PASSES:
        assert float(rows[bonus, "paper's rule"]["operations"]) == pytest.approx(
            of_run(bonus), rel=1e-4
        )
