"""The one exception that ends a command with a sentence and exit code 2."""


class UsageError(Exception):
    """What was asked for cannot be done; the message is one sentence with the remedy."""
