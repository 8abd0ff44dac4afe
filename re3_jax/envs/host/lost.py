"""What a host environment raises when worker processes are gone."""


class Lost(Exception):
    """A worker died or does not answer; the message says how."""


class LostWorkers(RuntimeError):
    """The environments cannot go on without their workers; the message has the remedy."""
