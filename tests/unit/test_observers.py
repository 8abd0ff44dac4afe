"""What watches a run does not end it."""

from types import SimpleNamespace

from re3_jax.runs import observers
from tests.cli.written_runs import write_run


def test_a_damaged_table_is_said_once_and_the_run_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(observers, "CURVE_SECONDS", -1.0)
    folder = write_run(tmp_path / "run")
    table = folder / "eval.csv"
    table.write_text(table.read_text().replace("1,100", "1,1n0"))
    session = SimpleNamespace(
        record=SimpleNamespace(evaluated_at=400), config=SimpleNamespace(agent="a2c", bonus="re3")
    )
    picture = observers.Picture(folder)
    for _ in range(2):
        picture.trained(session, {})
    said = capsys.readouterr().err
    assert said.startswith("note: curve.png is not drawn again: ") and said.count("\n") == 1
