"""What a rate answers."""

from __future__ import annotations

from typing import NamedTuple


class RateResult(NamedTuple):
    """Whether a rate allows something, and when it does. It is true if it allows it.

    Attributes:
        allowed: whether the permits were given.
        limit: how many permits the rate gives in its period.
        remaining: how many permits it would give at once now.
        retry_after: seconds until it gives as many permits as were asked for. None if it gave them.
        reset: seconds until the whole burst is there again, if no permits are taken until then.
    """

    allowed: bool
    limit: int
    remaining: int
    retry_after: float | None
    reset: float

    def __bool__(self) -> bool:
        return self.allowed
