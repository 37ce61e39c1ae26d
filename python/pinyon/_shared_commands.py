"""Which commands may be sent on a connection that others share."""

from __future__ import annotations

from pinyon.errors import UnsupportedType, UsageError

#: Commands that would change what the connection is, or wait on it while others want to use it.
_UNSHAREABLE = frozenset(
    b"SUBSCRIBE UNSUBSCRIBE PSUBSCRIBE PUNSUBSCRIBE SSUBSCRIBE SUNSUBSCRIBE MULTI EXEC DISCARD WATCH UNWATCH MONITOR "
    b"HELLO AUTH SELECT RESET QUIT SYNC PSYNC BLPOP BRPOP BRPOPLPUSH BLMOVE BLMPOP BZPOPMIN BZPOPMAX BZMPOP WAIT "
    b"WAITAOF READONLY READWRITE ASKING".split()
)


def checked_command(parts: tuple[str | bytes | int | float, ...]) -> tuple[str | bytes | int | float, ...]:
    """Return the parts of a command that may be sent on a shared connection."""
    if not parts:
        raise UsageError("a command has at least its name")
    words = [_word(part) for part in parts]
    if not words[0]:
        raise UnsupportedType(f"a command's name is str or bytes, not {type(parts[0]).__qualname__}")
    blocks = words[0] in (b"XREAD", b"XREADGROUP") and b"BLOCK" in words[1:]
    replies = words[0] == b"CLIENT" and words[1:2] in ([b"REPLY"], [b"TRACKING"], [b"CACHING"])
    if words[0] in _UNSHAREABLE or blocks or replies:
        raise UsageError(
            f"{words[0].decode('utf-8', 'replace')} would change or block the connection that the locks share; "
            "use a connection of your own"
        )
    return parts


def _word(part: str | bytes | int | float) -> bytes:
    text = part.encode("utf-8", "replace") if isinstance(part, str) else part
    return text.upper() if isinstance(text, bytes) else b""
