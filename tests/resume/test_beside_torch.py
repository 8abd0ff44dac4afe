"""The benchmark in which PyTorch learns beside us goes on exactly, and notices if it does not."""

import json
import sys

import pytest

pytestmark = [pytest.mark.resume, pytest.mark.slow]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the benchmark to so many updates; its JSON."""
    from benchmarks import beside_torch

    def to(updates):
        words = ["--folder", tmp_path, "--preset", "debug", "--save-every", 20, "--updates"]
        monkeypatch.setattr(sys, "argv", ["beside_torch", *map(str, words), str(updates)])
        beside_torch.main()
        return json.loads(capsys.readouterr().out)

    return to


def test_it_goes_on_exactly(run, tmp_path):
    run(30)
    found = run(40)
    assert found["updates"] == 40
    none_late = {"programs_compiled_after_two_updates": 0}
    assert found["processes"] == [
        {"from_update": 0, "to_update": 30, "rows_computed_again": 0, **none_late},
        {"from_update": 20, "to_update": 40, "rows_computed_again": 10, **none_late},
    ]
    # What does not depend on the weights stays equal to rounding.
    sides = found["sides"]
    for name in ("running_std", "nearest_distance_p50", "intrinsic_reward_mean"):
        assert sides[name]["first_update_apart_by_a_hundredth"] is None
    assert (tmp_path / "beside_torch.png").stat().st_size > 10_000

    text = (tmp_path / "updates.csv").read_text().splitlines()
    number, loss, *rest = text[-1].split(",")
    changed = ",".join([number, str(float(loss) * 1.001), *rest])
    (tmp_path / "updates.csv").write_text("\n".join([*text[:-1], changed]) + "\n")
    for folder in (tmp_path / "checkpoints").glob("40"):
        folder.rename(tmp_path / "aside")
    with pytest.raises(SystemExit, match="update 40 computed again differs in ours_critic_loss"):
        run(40)
