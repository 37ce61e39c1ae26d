"""How locks stand, from the server."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from pinyon.cli.nodes import nodes
from pinyon.cli.terminal import duration, text_of
from pinyon.cli.trust import tls_of
from pinyon.locks import Locks, LockStatus

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

#: Names that one question to the server is about.
_AT_ONCE = 100


def opened(options: argparse.Namespace) -> Locks:
    """Return the locks that a command line is about, for people to look at."""
    return Locks(
        options.url,
        namespace=options.namespace,
        hash_tags=options.hash_tags,
        command_timeout=options.timeout,
        connect_timeout=options.timeout / 2,
        tls=tls_of(options),
    )


def statuses(locks: Locks, names: list[bytes]) -> list[LockStatus]:
    """Return how the names stand, however many there are."""
    return [status for some in _asked_together(locks, names) for status in locks.status(*some)]


def _asked_together(locks: Locks, names: list[bytes]) -> Iterator[list[bytes]]:
    """The names in their order, in pieces that one question may be about."""
    for _, of_tag in itertools.groupby(names, key=lambda name: tag_of(locks, name)):
        while some := list(itertools.islice(of_tag, _AT_ONCE)):
            yield some


def locked_names(locks: Locks) -> list[bytes]:
    """Return the names that are locked, in their order."""
    prefix = locks.prefix + b"l:"
    names = {key[len(prefix) :] for key in keys_from(locks, prefix)}
    if locks.hash_tags == "names":
        pattern = b"{*}" + _literally(prefix) + b"*"
        keys = (key for execute in nodes(locks) for keys in _scan(execute, pattern) for key in keys)
        tagged = (key.partition(prefix) for key in keys)
        names.update(name for before, _, name in tagged if before == b"{%s}" % (tag_of(locks, name) or b""))
    return sorted(names)


def tag_of(locks: Locks, name: bytes) -> bytes | None:
    """Return the hash tag that decides where a name is kept, unless it is the namespace's."""
    return locks._tag_of((name,)) if locks.hash_tags == "names" else None


def keys_from(locks: Locks, prefix: bytes) -> set[bytes]:
    """Return the keys that begin with this."""
    return {key for keys in _scan(locks.execute, _literally(prefix) + b"*") for key in keys}


def _literally(text: bytes) -> bytes:
    """What matches a text and nothing else."""
    return re.sub(rb"([\\*?\[\]])", rb"\\\1", text)


def _scan(execute: Callable[..., Any], pattern: bytes) -> Iterator[list[bytes]]:
    cursor = b"0"
    while True:
        cursor, keys = execute("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
        yield keys
        if cursor == b"0":
            return


def process_of(attempt: str) -> int | None:
    """Return the number of the process that made ``client:owner:number``, on whatever host that was."""
    found = re.fullmatch(r"[0-9a-f]{16}\.([0-9a-f]{1,8})\.[0-9a-f]+:[0-9a-f]+:[0-9a-f]+", attempt)
    return int(found.group(1), 16) if found else None


def described(attempt: str) -> str:
    """Return who holds or waits, with the number of its process."""
    process = process_of(attempt)
    return text_of(attempt) if process is None else f"{attempt} (process {process})"


def token_of(status: LockStatus) -> str:
    """Return the holder's token; one that the pure handler took is known to the holder alone."""
    return str(status.token) if status.token is not None else "unknown"


def time_left(status: LockStatus) -> str:
    """Return how long it lasts, if nothing prolongs it."""
    return duration(status.remaining) if status.remaining is not None else "for ever"


def age(status: LockStatus) -> str:
    """Return how long ago it was granted; of one that the pure handler took nobody knows."""
    return duration(status.age) if status.age is not None else "unknown"


def namespace_of(locks: Locks) -> str:
    """Return the namespace and the server, as people can read them."""
    return f"namespace {text_of(locks.prefix[1:-2])} on {locks.server}"
