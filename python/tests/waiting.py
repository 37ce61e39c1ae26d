"""Waiting for what comes in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds within which awaited events happen, on busy machines too.
SOON = 60.0


def wait_until(condition: Callable[[], object], within: float = SOON) -> None:
    """Returns once the condition holds; fails if it does not within so many seconds."""
    give_up = time.monotonic() + within
    while not condition():
        assert time.monotonic() < give_up, "it did not come to that"
        time.sleep(0.01)
