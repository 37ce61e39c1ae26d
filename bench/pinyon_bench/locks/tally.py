"""What the workers of a cell share: what has happened so far."""

from __future__ import annotations


class Tally:
    """The number of cycles, how long single calls took, and when workers were inside."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds: list[float] = []
        self.inside: list[tuple[float, float]] = []

    def note(self, entered: float, left: float) -> None:
        """Records when a worker was inside."""
        self.inside.append((entered, left))
        self.count += 1
