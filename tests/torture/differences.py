"""What differs in the final states of two runs."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.resume.compare import frames, leaves


class Difference(NamedTuple):
    """Of an array, or of the frames of a replay.

    Attributes:
      bytes: how many differ.
      first_row: the first place on the axis after the seeds', such as a latent of a ring, that
        differs; of frames the number of the first one, of all that were ever stored.
    """

    bytes: int
    first_row: int


def differing_bytes(run: Path, reference: Path) -> int:
    """Bytes that differ in the final states, the frames that both replays hold included."""
    return sum(difference.bytes for difference in differing(run, reference).values())


def differing(run: Path, reference: Path) -> dict[str, Difference]:
    """Everything that differs, by its name in the checkpoint."""
    ours, theirs = leaves(run), leaves(reference)
    assert ours.keys() == theirs.keys()
    found = {name: _of_array(ours[name], value) for name, value in theirs.items()}
    found = {name: difference for name, difference in found.items() if difference.bytes}
    return found | differing_frames(run, reference)


def differing_frames(run: Path, reference: Path) -> dict[str, Difference]:
    """The rings whose frames differ, of those frames that both runs still hold."""
    found = {}
    our_frames, their_frames = frames(run), frames(reference)
    assert our_frames.keys() == their_frames.keys()
    for ring, held in their_frames.items():
        end = max(held)
        # A segment may begin with frames that the replay has overwritten since.
        first = max(min(held), min(our_frames[ring]))
        assert max(our_frames[ring]) == end
        numbers = range(first, end + 1)
        counts = {n: int(_differs(our_frames[ring][n], held[n]).sum()) for n in numbers}
        if rows := [n for n, count in counts.items() if count]:
            found[f"frames of {ring}"] = Difference(sum(counts.values()), min(rows))
    return found


def _of_array(ours: np.ndarray, theirs: np.ndarray) -> Difference:
    differs = _differs(ours.tobytes(), theirs.tobytes())
    if theirs.ndim < 2 or not differs.any():
        return Difference(int(differs.sum()), 0)
    by_row = differs.reshape(*theirs.shape[:2], -1).any(axis=(0, 2))
    return Difference(int(differs.sum()), int(by_row.argmax()))


def _differs(ours: bytes, theirs: bytes) -> np.ndarray:
    return np.frombuffer(ours, np.uint8) != np.frombuffer(theirs, np.uint8)
