"""The figure of robustness: disturbed frames, encoders and their distances, the whole command."""

import csv

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

from experiments.figures import agreement, disturbances, frames, random_encoders, robustness
from experiments.figures.frames import Frames
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.envs.host import gl
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.re3 import RE3Config, encoder_from, re3
from tests.dm_control_suite import draw, load
from tests.equal import equal_arrays

SIZE = 24
SPEC = EnvSpec("any:any", (SIZE, SIZE, 3), np.dtype(np.uint8), Box((1,), -1.0, 1.0), 9)
IMAGES = np.random.default_rng(0).integers(0, 256, (200, SIZE, SIZE, 3)).astype(np.uint8)


def test_noise_has_its_standard_deviation_and_stays_in_range():
    grey = np.full((4, 50, 50, 3), 128, np.uint8)
    noise = disturbances.noisy(grey, np.random.default_rng(0), 10).astype(float) - 128
    assert noise.mean() == pytest.approx(0, abs=0.2)
    assert noise.std() == pytest.approx(10, rel=0.02)
    white = disturbances.noisy(np.full_like(grey, 255), np.random.default_rng(0), 10)
    # Half of the noise is above 0 and cut off.
    assert np.mean(white == 255) == pytest.approx(0.52, abs=0.02)


@pytest.mark.parametrize("change", [disturbances.tinted, disturbances.recoloured])
def test_colours_change_behind_the_body_only_and_differ_between_frames(change):
    frame = np.full((SIZE, SIZE, 3), (40, 60, 80), np.uint8)
    frame[:4] //= 2
    frame[10:14, 10:14] = (180, 130, 80)
    changed = change(np.stack([frame, frame]), np.random.default_rng(0)).astype(float)
    np.testing.assert_array_equal(changed[:, 10:14, 10:14], [frame[10:14, 10:14]] * 2)
    sky, floor = changed[:, 0, 0], changed[:, -1, -1]
    assert np.abs(floor - frame[-1, -1]).max() > 10 and np.abs(floor[0] - floor[1]).max() > 10
    # What is half as bright stays so, up to rounding.
    np.testing.assert_allclose(sky, floor / 2, atol=1)


def test_the_colour_of_a_background_leaves_the_body_out():
    frame = np.full((SIZE, SIZE, 3), (40, 60, 80), np.uint8)
    frame[10:14, 10:14] = (180, 130, 80)
    changed = frame.copy()
    changed[:12], changed[12:] = (10, 20, 30), (30, 60, 50)
    changed[10:14, 10:14] = 255
    found = disturbances.background_colours(np.stack([frame] * 2), np.stack([frame, changed]))
    np.testing.assert_allclose(found, [(40, 60, 80), (20, 40, 40)])


@pytest.mark.parametrize("task_id", ["hopper_hop", "walker_walk"])
def test_the_background_is_what_dm_control_does_not_segment_as_a_body(task_id):
    if gl.probe() is None:
        pytest.skip(gl.missing())
    env = load(task_id, 1)
    env.reset()
    model, (height, width) = env.physics.model, (100, 100)
    segments = env.physics.render(height, width, camera_id=0, segmentation=True)[..., 0]
    # Body 0 is the world: floor and sky.
    of_body = (segments >= 0) & (np.asarray(model.geom_bodyid)[segments] > 0)
    found = disturbances.background(draw(env, task_id, 100)[None])[0]
    env.physics.free()
    assert 0.01 < of_body.mean() < 0.2
    # The floor reflects the body, and its edges are mixed colours.
    assert np.mean(found[of_body]) < 0.15
    assert np.mean(~found[~of_body]) < 0.02


def test_released_encoders_are_the_librarys_and_depth_4_is_released():
    key = jax.random.key(3)
    config = RE3Config(latent_dim=50)
    truth = encoder_from(config).init(key, SPEC)
    for draw_encoder in (random_encoders.released(), random_encoders.of_depth(4)):
        jax.tree.map(equal_arrays, draw_encoder(key, SIZE), truth)
    assert len(random_encoders.of_depth(6)(key, SIZE).convs.layers) == 6


def test_the_ensembles_distance_is_the_bonus_of_two_observations():
    """The only neighbour of each is the other, so the bonus is the distance between them."""
    distances = dict(robustness.representations(IMAGES, seed=1))
    bonus = re3(
        RE3Config(
            latent_dim=50, ensemble_size=5, ring_size=2, count_self=False,
            first_neighbour=1, last_neighbour=1,
        )
    )  # fmt: skip
    pair = jnp.asarray(IMAGES[[0, 1]])
    none = jnp.zeros(2, bool)

    @jax.jit
    def rewarded(key):
        state = bonus.init(key, SPEC, 2)
        state, index = bonus.observe(state, Step(pair, jnp.zeros((2, 1)), pair, none, none))
        batch = IntrinsicBatch(pair, jnp.zeros((2, 1)), pair, index, agent_steps=0)
        return bonus.reward(state, batch)[0]

    reward = rewarded(jax.random.key(1))
    (apart,) = distances[robustness.FIVE]
    np.testing.assert_allclose(reward, [apart[0, 1]] * 2, rtol=1e-4)
    of_members = [each[0, 1] for each in distances[robustness.ONE]]
    np.testing.assert_allclose(reward[0], np.mean(of_members), rtol=1e-4)
    (of_pixels,) = distances[robustness.PIXELS]
    np.testing.assert_allclose(of_pixels, pairwise_distances(IMAGES.reshape(200, -1) / 1.0))


def test_the_command_writes_a_row_for_each_condition_and_variant(monkeypatch, tmp_path):
    states = np.random.default_rng(1).normal(size=(200, 3))
    found = Frames(IMAGES, states, np.repeat([0, 1], 100))
    monkeypatch.setattr(frames, "collect", lambda *_: found)
    monkeypatch.setattr(robustness, "VARIANTS", {"He": random_encoders.released(encoder_init="he")})
    conditions = {name: disturbances.CONDITIONS[name] for name in robustness.SHOWN}
    monkeypatch.setattr(robustness, "CONDITIONS", conditions)
    folders = ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    words = ["--tasks", "hopper_hop", "--seeds", "2", "--frames", "200"]
    assert robustness.main([*folders, *words]) == 0
    with (tmp_path / "out/table.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    cells = {(row["condition"], row["representation"]) for row in rows}
    assert len(rows) == len(cells) * len(agreement.KS)
    assert len(cells) == (len(conditions) + 1) * 5 + 1 and ("clean", "He") in cells
    # The states have nothing to do with the frames, so that all agreement is chance.
    for row in rows:
        if row["condition"] != "recoloured: colour":
            assert abs(float(row["share_nearer"]) - 0.5) < 0.12
        elif row["representation"] == robustness.PIXELS:
            assert float(row["share_nearer"]) < 0.2
    assert (tmp_path / "out/scores.png").exists() and (tmp_path / "out/hopper_hop.jpg").exists()
