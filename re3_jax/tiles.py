"""The tiles of 8 x 128 numbers in which a TPU keeps an array, and which axis lies innermost."""

TILE = 128
"""Numbers along the inner axis of a tile."""

LINES = 8
"""Lines of a tile."""

PADDING_BYTES = 10**8
"""What an array of one seed may waste for its rows to lie whole: a lookup of rows that lie
otherwise copies the whole array wherever the compiler finds that faster."""


def padded(width: int) -> int:
    """Numbers that a whole row takes."""
    return -(-width // TILE) * TILE


def rows_lie_whole(rows: int, width: int, itemsize: int) -> bool:
    """Whether many rows lie whole, not innermost, in the memory of a TPU.

    They do unless that would waste more than `PADDING_BYTES` and take more than twice what they
    take otherwise.

    Args:
      rows: of one seed.
      width: numbers in a row.
      itemsize: bytes of a number.
    """
    whole, turned = padded(width), -(-width // LINES) * LINES
    return whole <= 2 * turned or rows * (whole - turned) * itemsize <= PADDING_BYTES
