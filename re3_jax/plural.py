"""Numbers of things in a sentence."""


def number_of(number: int, noun: str) -> str:
    """The number and its noun: `1 seed`, `5 seeds`, `1,000 seeds`."""
    return f"{number:,} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """The noun alone, with an s unless there is one."""
    return noun if number == 1 else f"{noun}s"
