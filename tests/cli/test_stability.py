"""The figure of how much distances change while an encoder learns."""

import csv

import jax
import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.neighbors import NearestNeighbors

from experiments.figures import stability
from experiments.figures.stability import K, Point
from re3_jax.envs import registry

LATENTS = np.random.default_rng(0).normal(size=(40, 6))


def test_rewards_are_those_of_scikit_learns_kth_neighbour():
    distances, _ = NearestNeighbors(n_neighbors=K + 1).fit(LATENTS).kneighbors(LATENTS)
    np.testing.assert_allclose(Point.of(LATENTS).rewards, np.log(1 + distances[:, K]))


def test_a_rotation_changes_nothing_and_a_factor_every_distance_but_no_rank():
    before = Point.of(LATENTS)
    turned = Point.of(LATENTS @ ortho_group.rvs(6, random_state=1) + 3.0)
    assert stability.change(before, turned) == pytest.approx(0.0, abs=1e-12)
    assert stability.rank_correlation(before, turned) == pytest.approx(1.0)
    larger = Point.of(3 * LATENTS)
    assert stability.change(before, larger) == pytest.approx(2.0)
    assert stability.rank_correlation(before, larger) == pytest.approx(1.0)


def test_other_latents_have_other_ranks():
    # The latents nearest to others become the farthest: spread by the square of their rank.
    points = np.cumsum(np.arange(1.0, 41.0))[:, None]
    assert stability.rank_correlation(Point.of(points), Point.of(points.max() - points)) == 1.0
    reversed_gaps = np.cumsum(np.arange(40.0, 0.0, -1.0))[:, None]
    found = stability.rank_correlation(Point.of(points), Point.of(reversed_gaps))
    assert found == pytest.approx(-1.0, abs=0.05)


def test_observations_are_different_and_the_same_each_time():
    env = registry.make("minigrid:Empty-5x5")
    one, again = (stability.observations(env, jax.random.key(0)) for _ in range(2))
    np.testing.assert_array_equal(one, again)
    assert one.shape[1:] == env.spec.observation_shape
    assert 10 < len(one) == len({view.tobytes() for view in one}) <= stability.OBSERVATIONS


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--task", "cheetah_run_sparse"], "stepped on the host"),
        (["--task", "no_such_task"], "no_such_task"),
        (["--steps", "5"], "give at least 10"),
    ],
)
def test_bad_input_ends_in_one_sentence(words, sentence, tmp_path, capsys):
    assert stability.main([*words, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and sentence in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_run_of_one_chunk_has_no_changes(tmp_path, capsys):
    words = ["--task", "minigrid:Empty-5x5", "--steps", "2560", "--seeds", "1", "--rows", "re3"]
    assert stability.main([*words, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == (
        "error: --steps 2560 are one chunk of minigrid:Empty-5x5, and a change needs two: give "
        "more\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_fixed_encoder_changes_nothing_and_one_that_learns_does(tmp_path, monkeypatch):
    words = ["--task", "minigrid:Empty-5x5", "--preset", "debug", "--seeds", "2"]
    words += ["--rows", "re3", "contrastive", "--steps", "20480"]
    assert stability.main([*words, "--out", str(tmp_path)]) == 0
    written = (tmp_path / "points.csv").read_bytes()
    (tmp_path / "points.csv").unlink()
    monkeypatch.setattr(stability, "points", lambda words, bonus: pytest.fail("trains again"))
    assert stability.main([*words, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "points.csv").read_bytes() == written
    (kept,) = tmp_path.glob("*-contrastive-*.json")
    kept.write_text(
        kept.read_text().replace('"learned.learning_rate": ', '"learned.learning_rate": 2')
    )
    with pytest.raises(pytest.fail.Exception, match="trains again"):
        stability.main([*words, "--out", str(tmp_path)])
    with (tmp_path / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    values = {
        (encoder, measure): np.array(
            [
                float(row["value"])
                for row in rows
                if (row["encoder"], row["measure"]) == (encoder, measure)
            ]
        )
        for encoder in ("re3", "contrastive")
        for measure in stability.MEASURES
    }
    # Two whole chunks, so two points.
    assert {name: len(found) for name, found in values.items()} == {
        (encoder, measure): 2 * (2 if measure.endswith("end") else 1)
        for encoder in ("re3", "contrastive")
        for measure in stability.MEASURES
    }
    assert not values["re3", "change_of_distances"].any()
    assert (values["re3", "rank_correlation_with_end"] == 1).all()
    assert (values["contrastive", "change_of_distances"] > 1e-3).all()
    assert values["contrastive", "rank_correlation_with_end"].min() < 0.999
    assert (tmp_path / "stability.png").read_bytes().startswith(b"\x89PNG")
