"""The faults of `planted_faults` can still be planted: it runs seldom, and the code goes on."""

from pathlib import Path

import pytest

from tests.faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted(fault: Fault):
    assert (ROOT / fault.file).read_text().count(fault.right) == 1
    assert fault.wrong != fault.right
    for test in fault.tests.split():
        assert (ROOT / test.partition("::")[0]).exists(), test
