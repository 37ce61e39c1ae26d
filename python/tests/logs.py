"""What is logged and warned of by this test alone.

Clients of earlier tests that are not collected yet may still log a line about their servers, or warn.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest


def about(server: Any, log: pytest.LogCaptureFixture, containing: str = "") -> list[logging.LogRecord]:
    """The records of Pinyon's loggers about events of this server, which no other test uses, with such a text."""
    address = getattr(server, "address", server)
    return [
        record
        for record in log.records
        if record.name.startswith("pinyon.")
        and (event := getattr(record, "pinyon_event", None)) is not None
        and address in event.server.split(",")
        and containing in record.getMessage()
    ]


def text_about(server: Any, log: pytest.LogCaptureFixture) -> str:
    """The lines of these records."""
    return "\n".join(record.getMessage() for record in about(server, log))


@contextlib.contextmanager
def warned() -> Iterator[list[warnings.WarningMessage]]:
    """Collects all warnings within the block, after what earlier tests left has given its own."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def forgotten(caught: list[warnings.WarningMessage]) -> list[str]:
    """The warnings of calls that were never awaited."""
    return [str(each.message) for each in caught if each.category is RuntimeWarning]
