"""What redis-py's locks take, and what that is called here."""

from __future__ import annotations

from collections.abc import Iterable

from pinyon.errors import UsageError

PAGE = "docs/from-redis-py.md"
#: Arguments that redis-py's locks have, and these do not.
COUNTERPARTS = {
    "blocking_timeout": "pass timeout, which is how long to wait; redis-py's timeout is ttl here",
    "blocking": "call acquire(blocking=False), or try_lock; redis-py's timeout is ttl here",
    "sleep": "leave it out, as waiting does not poll; redis-py's timeout is ttl here",
    "thread_local": "leave it out, as a lock belongs to the thread or task that acquired it",
    "raise_on_release_error": "leave it out, as release returns whether the lock was held",
    "lock_class": "leave it out",
    "token": "leave it out, as the server makes the tokens",
}


def unknown_argument(method: str, names: Iterable[str]) -> Exception:
    """Return the error for arguments that a method does not have."""
    name = min(names)
    if name in COUNTERPARTS:
        return UsageError(f"{method}() has no argument {name!r}: {COUNTERPARTS[name]} ({PAGE})")
    return TypeError(f"{method}() got an unexpected keyword argument {name!r}")
