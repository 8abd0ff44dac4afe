"""How fast a run is and how long it still takes, from the newer half of its time."""

from collections import deque


class Pace:
    """Seconds per env frame, evaluations and checkpoints included.

    The newer half alone counts, because the first steps of an off-policy agent learn nothing.
    """

    def __init__(self, seconds: float, env_frames: int):
        """Begins at a time of a clock, after so many env frames."""
        self._began = seconds
        self._points = deque([(seconds, env_frames)])

    def add(self, seconds: float, env_frames: int) -> None:
        """Notes how many env frames are done at a time."""
        self._points.append((seconds, env_frames))
        middle = (self._began + seconds) / 2
        while len(self._points) > 2 and self._points[1][0] <= middle:
            self._points.popleft()

    def elapsed(self) -> float:
        """Seconds from the beginning to the newest point."""
        return self._points[-1][0] - self._began

    def seconds_for(self, env_frames: int) -> float:
        """Seconds that so many more env frames take; NaN before there is a second point."""
        (then, before), (now, after) = self._points[0], self._points[-1]
        return env_frames * (now - then) / (after - before) if after > before else float("nan")

    def frames_per_second(self, seeds: int) -> float:
        """Env frames of all seeds per second; NaN before there is a second point."""
        seconds = self.seconds_for(1)
        return seeds / seconds if seconds > 0 else float("nan")
