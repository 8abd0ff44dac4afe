"""What loops raise where an episode does not end when its task says that it does."""


class EndlessEpisode(ValueError):
    """An episode goes on for more than the `max_agent_steps` of its task."""

    def __init__(self, task: str, max_agent_steps: int):
        """Says which, and the remedy."""
        super().__init__(
            f"an episode of {task} goes on for more than its max_agent_steps of "
            f"{max_agent_steps}: end it with terminated or truncated, and begin the next"
        )
