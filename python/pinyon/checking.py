"""Checks of servers, for ``pinyon check`` and for Django's system check at deployment."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from pinyon.client import Client
from pinyon.errors import Error, ServerError, UsageError
from pinyon.locks import Locks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Literal

__all__ = ["Finding", "check_caches", "check_locks"]

#: The first version of memcached whose meta commands are used.
META = (1, 6, 10)

#: How far a server's clock may differ from this machine's, in seconds, not counting the time of the request.
CLOCKS = 1.0

_KEY = "pinyon:check"


class Finding(NamedTuple):
    """One result of a check.

    Attributes:
        level: ``"ok"``; ``"warning"``: it works, but may surprise; ``"error"``: it does not work.
        server: the server's name. If the result is about several servers, all their names.
        message: what was found, and what to do about it.
    """

    level: Literal["ok", "warning", "error"]
    server: str
    message: str


def check_caches(servers: str | Iterable[str] | None = None, **settings: Any) -> list[Finding]:
    """Check whether memcached servers are ready for use.

    Args:
        servers: as for ``pinyon.Client``.
        settings: those of ``pinyon.Client``.

    Raises:
        UsageError: the settings themselves are wrong.
    """
    limit = settings.get("max_value_size", 1024 * 1024)
    settings = {**settings, "on_failure": "raise", "failover": False, "gutter": None}
    found: list[Finding] = []
    versions = set()
    with Client(servers, **settings) as client:
        names = client.servers
        if settings.get("discovery"):
            try:
                names = list(client.version())
            except Error as error:
                return [Finding("error", ", ".join(names), _without(str(error), names))]
    single = {name: setting for name, setting in settings.items() if name not in ("discovery", "ring")}
    for name in names:
        with Client([name], **single) as one:
            findings = list(_cache(one, name, limit))
        found += findings
        versions |= {finding.message.split(",")[0] for finding in findings if "answers" in finding.message}
    if len(names) > 1:
        found += _ring(names, versions, settings.get("ring", "ketama"))
    return found


def _cache(client: Client, name: str, limit: int) -> Iterator[Finding]:
    try:
        version = client.version()[name]
        figures, configured = client.stats()[name], client.stats("settings")[name]
    except Error as error:
        yield Finding("error", name, _without(str(error), [name]))
        return
    try:
        client.set(_KEY, b"1", ttl=1)
        works = client.get(_KEY) is not None
    except Error as error:
        yield Finding("error", name, f"a value could not be stored: {_without(str(error), [name])}")
        return
    if not works:
        yield Finding("error", name, "it lost a value that was just stored: give it more memory (-m)")
    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    manner = "meta commands" if numbers >= META else "classic text"
    yield Finding("ok", name, f"memcached {version}, {manner}, answers and stores")
    if numbers < META:
        text = "get_or_set, leases, get_with_ttl and meta need memcached 1.6.10 or newer: upgrade it to use them"
        yield Finding("warning", name, text)
    stored = int(configured.get("item_size_max", 0))
    if stored and limit > stored:
        text = (
            f"stores values of at most {stored} bytes, and max_value_size is {limit}: raise the server's -I, "
            "or lower max_value_size"
        )
        yield Finding("warning", name, text)
    elif stored:
        yield Finding("ok", name, f"stores values of up to {stored} bytes (-I)")
    evicted = int(figures.get("evictions", 0))
    if evicted:
        text = f"has evicted {evicted} items that had not expired since it started: give it more memory (-m)"
        yield Finding("warning", name, text)


def _ring(names: list[str], versions: set[str], ring: str) -> Iterator[Finding]:
    together = ", ".join(names)
    if len(versions) > 1:
        text = f"the servers have different versions ({', '.join(sorted(versions))}): not all keys have all commands"
        yield Finding("warning", together, text)
    with Client(names, ring=ring) as client:
        shares = dict.fromkeys(names, 0)
        for number in range(1000):
            shares[client.servers_of(f"{_KEY}:{number}")[0]] += 1
    text = ", ".join(f"{name} {share / 10:.0f} %" for name, share in shares.items())
    yield Finding("ok", together, f"ring {ring!r}: of 1000 keys {text}; every client must list the same servers")
    hosts = {name.rpartition(":")[0] for name in names}
    if hosts & {"localhost", "127.0.0.1", "[::1]"} and len(hosts) > 1:
        text = "some servers are on this machine and some are not: use names that mean the same on every machine"
        yield Finding("warning", together, text)


def check_locks(url: str, **settings: Any) -> list[Finding]:
    """Check whether a Redis or Valkey server can keep locks.

    Args:
        url: as for ``pinyon.Locks``.
        settings: those of ``pinyon.Locks``.

    Raises:
        UsageError: the settings themselves are wrong.
    """
    with Locks(url, **settings) as locks:
        server = locks.server
        try:
            return list(_lock_server(locks, server))
        except UsageError:
            raise
        except Error as error:
            return [Finding("error", server, _without(str(error), [server]))]


def _lock_server(locks: Locks, server: str) -> Iterator[Finding]:
    with locks.lock(_KEY, ttl=1, timeout=0, renew=False) as held:
        held.check()
    told = _info(locks)
    product = "valkey" if "valkey_version" in told else "redis"
    version = told.get("valkey_version") or told.get("redis_version", "of an unknown version")
    yield Finding("ok", server, f"{product} {version} answers and locks")
    if told.get("role", "master") != "master":
        yield Finding("error", server, "is a replica: use the primary instead")
    yield from _eviction(told, server)
    if told.get("aof_enabled") == "0":
        yield Finding("warning", server, _after_a_restart(locks))
    yield from _clock(locks, server)


def _after_a_restart(locks: Locks) -> str:
    try:
        saved = locks.execute("CONFIG", "GET", "save")
    except ServerError:  # Managed servers refuse it.
        saved = None
    values = saved.values() if isinstance(saved, dict) else (saved or [])[1:]
    lost = "all locks" if not any(values) else "the locks since the last snapshot"
    return f"has no append-only file: {lost} are lost when it restarts; set appendonly yes"


def _eviction(told: dict[str, str], server: str) -> Iterator[Finding]:
    policy, limited = told.get("maxmemory_policy", "noeviction"), told.get("maxmemory", "0") != "0"
    if policy == "noeviction":
        return
    remedy = "set it to noeviction, or use a server for locks alone"
    text = f"maxmemory-policy {policy} may evict locks that are held: {remedy}"
    yield Finding("error" if limited else "warning", server, text)


def _clock(locks: Locks, server: str) -> Iterator[Finding]:
    before = time.time()
    seconds, micros = locks.execute("TIME")
    after = time.time()
    there = int(seconds) + int(micros) / 1e6
    apart = max(before - there, there - after, 0)
    if apart > CLOCKS:
        text = (
            f"its clock differs from this machine's by {apart:.1f} s: synchronise it. Locks do not need the clock, but "
            "fencing tokens restart from it if the server loses its data"
        )
        yield Finding("warning", server, text)


def _info(locks: Locks) -> dict[str, str]:
    reply = locks.execute("INFO")
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _without(message: str, names: list[str]) -> str:
    for name in names:
        message = message.removeprefix(f"{name}: ")
    return message
