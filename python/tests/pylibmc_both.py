"""pylibmc and Pinyon's stand-in for it, side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pylibmc as original
from servers import Memcached

from pinyon.compat import pylibmc


def outcome(ask: Callable[[Any], Any], mc: Any) -> Any:
    """The result, or the name of the exception."""
    try:
        return ask(mc)
    except Exception as error:
        return type(error).__name__


def filled(server: Memcached, **settings: Any) -> tuple[Any, Any]:
    """pylibmc and Pinyon's stand-in, for a server with a few items."""
    server.flush()
    theirs = original.Client([server.address], **settings)
    assert theirs.set_multi({"text": "text", "number": 5, "bytes": b"bytes"}) == []
    return theirs, pylibmc.Client([server.address], **settings)
