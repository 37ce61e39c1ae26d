"""The status of locks, as the server reports it."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from pinyon.cli.nodes import nodes
from pinyon.cli.terminal import duration, text_of
from pinyon.cli.timeouts import connect_timeout_of
from pinyon.cli.trust import tls_of
from pinyon.locks import Locks, LockStatus

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

#: The largest number of names in one request.
_AT_ONCE = 100


def opened(options: argparse.Namespace) -> Locks:
    """Return the ``Locks`` for a command line."""
    return Locks(
        options.url,
        namespace=options.namespace,
        prefix=options.prefix,
        hash_tags=getattr(options, "hash_tags", "namespace"),
        command_timeout=options.timeout,
        connect_timeout=connect_timeout_of(options.timeout),
        tls=tls_of(options),
    )


def statuses(locks: Locks, names: list[bytes]) -> list[LockStatus]:
    """Return the status of any number of names."""
    return [status for some in _asked_together(locks, names) for status in locks.status(*some)]


def _asked_together(locks: Locks, names: list[bytes]) -> Iterator[list[bytes]]:
    """Yield the names in their order, in parts that fit one request."""
    for _, of_tag in itertools.groupby(names, key=lambda name: tag_of(locks, name)):
        while some := list(itertools.islice(of_tag, _AT_ONCE)):
            yield some


def locked_names(locks: Locks) -> list[bytes]:
    """Return the locked names, sorted."""
    prefix = locks.prefix + b"l:"
    names = {key[len(prefix) :] for key in keys_from(locks, prefix)}
    if locks.hash_tags == "names":
        given, _, rest = prefix.partition(b"{")
        after_tag = b"{" + rest
        pattern = _literally(given) + b"{*}" + _literally(after_tag) + b"*"
        keys = (key for execute in nodes(locks) for keys in _scan(execute, pattern) for key in keys)
        tagged = (key.removeprefix(given).partition(after_tag) for key in keys)
        names.update(name for before, _, name in tagged if before == b"{%s}" % (tag_of(locks, name) or b""))
    return sorted(names)


def tag_of(locks: Locks, name: bytes) -> bytes | None:
    """Return the hash tag that decides on which node a name is, unless the namespace's tag does."""
    return locks._tag_of((name,)) if locks.hash_tags == "names" else None


def keys_from(locks: Locks, prefix: bytes) -> set[bytes]:
    """Return the keys with this prefix."""
    return {key for keys in _scan(locks.execute, _literally(prefix) + b"*") for key in keys}


def _literally(text: bytes) -> bytes:
    """Return a pattern that matches exactly this text."""
    return re.sub(rb"([\\*?\[\]])", rb"\\\1", text)


def _scan(execute: Callable[..., Any], pattern: bytes) -> Iterator[list[bytes]]:
    cursor = b"0"
    while True:
        cursor, keys = execute("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
        yield keys
        if cursor == b"0":
            return


def holder(status: LockStatus) -> str:
    """Return who holds a name, for people."""
    return described(status, status.holder or "")


def described(status: LockStatus, attempt: str) -> str:
    """Return a holder or waiter by its label or host, and its process."""
    who = status.owners.get(attempt)
    if who is None or who.pid is None:
        return text_of(attempt)
    return f"{text_of(who.label or who.host or attempt)} (pid {who.pid})"


def noted(status: LockStatus, attempt: str) -> str:
    """Return a holder or waiter with what it says about its lock."""
    who = status.owners.get(attempt)
    return described(status, attempt) + (f": {text_of(who.note)}" if who is not None and who.note else "")


def token_of(status: LockStatus) -> str:
    """Return the holder's token. With the pure handler only the holder knows it."""
    return str(status.token) if status.token is not None else "unknown"


def readers(status: LockStatus) -> str:
    """Return who reads the name, or nothing if it is free or written."""
    return (
        f"{holder(status)} reads"
        if len(status.readers) == 1
        else f"{len(status.readers)} readers" * bool(status.readers)
    )


def time_left(status: LockStatus) -> str:
    """Return the time until the lock expires, if it is not renewed."""
    return duration(status.remaining) if status.remaining is not None else "for ever"


def age(status: LockStatus) -> str:
    """Return how long ago the lock was granted. With the pure handler this is unknown."""
    return duration(status.age) if status.age is not None else "unknown"


def namespace_of(locks: Locks) -> str:
    """Return a readable text of the namespace and the server."""
    return f"namespace {name_of_namespace(locks)} on {locks.server}"


def name_of_namespace(locks: Locks) -> str:
    """Return the namespace as readable text."""
    return text_of(locks.prefix.partition(b"{")[2][:-2])
