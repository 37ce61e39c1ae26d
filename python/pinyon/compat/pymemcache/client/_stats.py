"""Statistics as pymemcache returns them: names are bytes, and values have Python's types where possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_CONVERSIONS: dict[bytes, Callable[[bytes], Any]] = {
    **dict.fromkeys((b"version", b"inter", b"stat_key_prefix"), bytes),
    **dict.fromkeys((b"rusage_user", b"rusage_system"), lambda value: float(value.replace(b":", b"."))),
    **dict.fromkeys(
        (
            *(b"hash_is_expanding", b"slab_reassign_running", b"detail_enabled", b"cas_enabled"),
            *(b"maxconns_fast", b"slab_reassign", b"slab_automove"),
        ),
        lambda value: int(value) != 0,
    ),
    b"growth_factor": float,
    b"umask": lambda value: int(value, 8),
    b"auth_enabled_sasl": lambda value: value == b"yes",
}


def converted(name: bytes, value: bytes) -> Any:
    """Return the value of a statistic with its Python type, or else as bytes."""
    try:
        return _CONVERSIONS.get(name, int)(value)
    except ValueError:
        return value


def items_of(reply: bytes) -> dict[bytes, bytes]:
    """Return what ``stats cachedump`` says about each item."""
    words = [line.split(b" ", 2) for line in reply.splitlines()]
    return {item[1]: item[2] for item in words if item[0] == b"ITEM" and len(item) == 3}
