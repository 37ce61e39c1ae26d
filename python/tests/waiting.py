"""Waiting for what comes in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pinyon

#: Seconds within which awaited events happen, on busy machines too.
SOON = 60.0

#: Settings of locks whose server is well: on a busy machine it may take its time, and so may the holder's renewal.
PATIENT: dict[str, Any] = {"command_timeout": SOON, "connect_timeout": SOON, "ttl": SOON}

#: The ``command_timeout`` of locks whose server cannot be used at all. They try to connect for so many seconds.
#: An attempt has failed by then on a busy machine, too.
GIVES_UP = 5.0


def wait_until(condition: Callable[[], object], within: float = SOON) -> None:
    """Returns once the condition holds; fails if it does not within so many seconds."""
    give_up = time.monotonic() + within
    while not condition():
        assert time.monotonic() < give_up, "it did not come to that"
        time.sleep(0.01)


async def eventually_answers(client: Any) -> None:
    """Waits until the server is used again."""
    end = time.monotonic() + SOON
    while True:
        try:
            await client.get("key")
        except pinyon.Error:
            assert time.monotonic() < end
        else:
            return
