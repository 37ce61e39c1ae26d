"""Checks of servers, for ``pinyon check`` and for Django's system check at deployment."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from pinyon._calls import CALLS, PUBLIC
from pinyon._survey import info_of, survey
from pinyon.client import Client
from pinyon.errors import Error, ServerError, UsageError
from pinyon.locks import Locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Literal

    from pinyon._survey import Survey

__all__ = ["Finding", "check_caches", "check_locks"]

#: The first version of memcached whose meta commands are used.
META = (1, 6, 10)

#: The most bytes of an item besides its value: the longest key, and memcached's header.
OVERHEAD = 250 + 63

#: How far a server's clock may differ from this machine's, in seconds, not counting the time of the request.
CLOCKS = 1.0

_KEY = "pinyon:check"

#: The commands of a check.
_COMMANDS = ("version", "stats", "set", "get")

#: How long the value that a check stores lasts, in seconds: longer than a request takes.
_TTL = 60


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
            findings = list(_cache(one, name, limit, settings.get("protocol", "auto")))
        found += findings
        versions |= {finding.message.split(",")[0] for finding in findings if "answers" in finding.message}
    if len(names) > 1:
        found += _ring(names, versions, settings.get("ring", "ketama"))
    return found


def _cache(client: Client, name: str, limit: int, protocol: str) -> Iterator[Finding]:
    try:
        version = client.version()[name]
        figures, configured = client.stats()[name], client.stats("settings")[name]
    except Error as error:
        yield Finding("error", name, _without(str(error), [name]))
        return
    try:
        client.set(_KEY, b"1", ttl=_TTL)
        works = client.get(_KEY) is not None
    except Error as error:
        yield Finding("error", name, f"a value could not be stored: {_without(str(error), [name])}")
        return
    if not works:
        yield Finding("error", name, "it lost a value that was just stored: give it more memory (-m)")
    numbers = _numbers(version)
    takes_meta = protocol == "meta" or (protocol == "auto" and numbers is not None and numbers >= META)
    manner = "meta commands" if takes_meta else "classic text"
    yield Finding("ok", name, f"memcached {version}, {manner}, answers and stores")
    if not takes_meta:
        remedy = "upgrade it to use them"
        if numbers is None:
            remedy = f'the version "{version}" could not be read; if it takes meta commands, set protocol="meta"'
        elif protocol == "classic":
            remedy = 'the setting protocol="classic" does without them'
        *others, last = ("get_or_set", "leases", *(name for name in CALLS if name in PUBLIC and CALLS[name].needs_meta))
        text = f"{', '.join(others)} and {last} need memcached 1.6.10 or newer: {remedy}"
        yield Finding("warning", name, text)
    if configured.get("cas_enabled") == "no":
        text = (
            "has no CAS tokens, because it was started with -C: gets and cas do not work, nor what is built on them, "
            "such as locks of dogpile.cache and aiocache; start it without -C"
        )
        yield Finding("warning", name, text)
    stored = int(configured.get("item_size_max", 0))
    if stored and limit > stored:
        text = (
            f"stores values of at most {stored - OVERHEAD} bytes under any key, and max_value_size is {limit}: "
            f"raise the server's -I ({stored}), or lower max_value_size"
        )
        yield Finding("warning", name, text)
    elif stored:
        text = f"stores values of up to {stored - OVERHEAD} bytes under any key (-I is {stored}, with key and header)"
        yield Finding("ok", name, text)
    evicted = int(figures.get("evictions", 0))
    if evicted:
        text = f"has evicted {evicted} items that had not expired since it started: give it more memory (-m)"
        yield Finding("warning", name, text)


def _numbers(version: str) -> tuple[int, ...] | None:
    """Return a version's numbers. Without three of them, the client cannot tell what the server takes."""
    found = re.match(r"(\d+)[^.]*\.(\d+)[^.]*\.(\d+)", version)
    numbers = tuple(map(int, found.groups())) if found else ()
    return numbers if numbers and max(numbers) < 2**16 else None


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
    """Check whether Redis or Valkey servers can keep locks.

    Args:
        url: as for ``pinyon.Locks``.
        settings: those of ``pinyon.Locks``.

    Raises:
        UsageError: the settings themselves are wrong.
    """
    with Locks(url, **settings) as locks:
        found = survey(locks)
        findings = [*_sentinels(found), *_cluster(found), *_quorum(found), *_servers(found)]
        server = found.primary or locks.server
        try:
            findings += _lock_servers(locks, found) if found.kind == "quorum" else _lock_server(locks, server)
        except UsageError:
            raise
        except Error as error:
            message = _without(str(error), [locks.server])
            if not any(finding.level == "error" and finding.message in message for finding in findings):
                findings.append(Finding("error", locks.server, message))
    return findings


def _sentinels(found: Survey) -> Iterator[Finding]:
    """What Sentinels say, and whether there are enough."""
    all_of_them, needed = ", ".join(each.address for each in found.sentinels), len(found.sentinels) // 2 + 1
    for each in found.sentinels:
        if each.error is not None:
            silent = sum(other.error is not None for other in found.sentinels)
            level: Literal["error", "warning"] = "warning" if len(found.sentinels) - silent >= needed else "error"
            yield Finding(level, each.address, f"this Sentinel names no primary: {each.error}")
    named = {each.primary for each in found.sentinels if each.primary is not None}
    if len(named) > 1:
        votes = "; ".join(f"{each.address} names {each.primary}" for each in found.sentinels if each.primary)
        level = "warning" if found.primary is not None else "error"
        text = f"the Sentinels disagree: {votes}. Wait if a failover is under way; else see their logs"
        yield Finding(level, all_of_them, text)
    if not found.sentinels or not named:
        return
    if found.primary is not None:
        agreeing = sum(each.primary == found.primary for each in found.sentinels)
        text = (
            f"{agreeing} of {len(found.sentinels)} Sentinels name {found.primary} as the primary of {found.service!r}"
        )
        yield Finding("ok", all_of_them, text)
    in_url = {each.address for each in found.sentinels}
    others = sorted({other for each in found.sentinels for other in each.others} - in_url)
    if len(found.sentinels) < 3:
        remedy = f"add {', '.join(others)}" if others else "run three, and name them all"
        text = f"the URL names {len(found.sentinels)} of the Sentinels, and locks need a majority of those: {remedy}"
        yield Finding("warning", all_of_them, text)
    elif others and not any(each.error for each in found.sentinels):
        text = f"the URL does not name these Sentinels of the service: {', '.join(others)}; add them"
        yield Finding("warning", all_of_them, text)


def _cluster(found: Survey) -> Iterator[Finding]:
    """Whether a cluster has all slots, and agrees on that of the namespace."""
    if found.kind != "cluster":
        return
    nodes = ", ".join(each.address for each in found.servers if each.is_named)
    if found.missing:
        text = (
            f"no node has the slots {', '.join(found.missing)}, so the cluster may refuse all commands: "
            "repair it by redis-cli --cluster fix"
        )
        yield Finding("error", nodes, text)
    if len(found.owners) > 1:
        text = f"the nodes disagree on who has slot {found.slot}, that of the namespace: {', '.join(found.owners)}"
        yield Finding("warning", nodes, f"{text}. Wait if a failover or a move is under way")
    elif found.primary is not None:
        text = f"slot {found.slot}, that of the namespace, is on {found.primary}"
        yield Finding("ok", nodes, text)
    without = [each.address for each in found.servers if each.slots and each.role == "primary" and not each.replicas]
    if without:
        text = (
            "no replica follows this primary: when it fails, its locks have no server until it is back; add a replica"
        )
        yield from (Finding("warning", address, text) for address in without)


def _quorum(found: Survey) -> Iterator[Finding]:
    """Whether a majority of independent servers can hold a lock."""
    if found.kind != "quorum":
        return
    together, needed = ", ".join(each.address for each in found.servers), len(found.servers) // 2 + 1
    for each in found.servers:
        if each.role == "replica":
            text = f"is a replica of {each.primary}: the servers of a quorum are independent primaries"
            yield Finding("error", each.address, text)
        elif each.votes_in:
            text = f"was started a short time ago, and may have forgotten locks: it has a vote in {each.votes_in:.0f} s"
            yield Finding("warning", each.address, text)
        elif each.error is None and each.votes_in is None:
            yield Finding("error", each.address, "does not say when it was started, so it has no vote: permit INFO")
    level: Literal["ok", "error"] = "ok" if found.is_ready else "error"
    yield Finding(level, together, f"{found.votes} of {len(found.servers)} servers have a vote; a lock needs {needed}")


def _servers(found: Survey) -> Iterator[Finding]:
    """Whether the servers can be asked, and replicas keep up."""
    for each in found.servers:
        if each.error is not None:
            needed = found.kind == "server" or each.has_locks
            yield Finding("error" if needed else "warning", each.address, each.error)
        elif found.kind == "server" and each.is_named and each.role == "replica":
            text = f"is a replica of {each.primary}, which clients follow: name the primary, or its Sentinels"
            yield Finding("warning", each.address, text)
        elif each.role == "replica" and not each.is_linked:
            text = f"has no connection to its primary {each.primary}: a failover to it would lose locks"
            yield Finding("warning", each.address, text)
    versions = {each.version for each in found.servers if each.version is not None}
    if len(versions) > 1:
        together = ", ".join(each.address for each in found.servers)
        yield Finding("warning", together, f"the servers have different versions: {', '.join(sorted(versions))}")
    primaries = [each for each in found.servers if each.has_locks]
    if found.kind == "sentinels" and primaries and not any(each.role == "replica" for each in found.servers):
        yield Finding("warning", primaries[0].address, "has no replica, so the Sentinels have nothing to fail over to")


def _lock_server(locks: Locks, server: str) -> Iterator[Finding]:
    _lock(locks)
    yield from _answers(locks.execute, server)


def _lock_servers(locks: Locks, found: Survey) -> Iterator[Finding]:
    for each in found.servers:
        if each.error is None:

            def ask(*command: str, address: str = each.address) -> Any:
                (answer,) = locks._ask(address, [list(command)], False)
                if isinstance(answer, Error):
                    raise answer
                return answer

            yield from _answers(ask, each.address)
    if found.is_ready:
        _lock(locks)
        yield Finding("ok", ", ".join(each.address for each in found.servers), "lock together")


def _lock(locks: Locks) -> None:
    """Hold a lock that no other check needs: a program may be deployed on many machines at once."""
    with locks.lock(f"{_KEY}:{uuid4().hex}", timeout=0, renew=False) as held:
        held.check()


def _answers(ask: Callable[..., Any], server: str) -> Iterator[Finding]:
    """What a server says of itself."""
    told = info_of(ask("INFO"))
    product = "valkey" if "valkey_version" in told else "redis"
    version = told.get("valkey_version") or told.get("redis_version", "of an unknown version")
    yield Finding("ok", server, f"{product} {version} answers and locks")
    yield from _eviction(told, server)
    if told.get("aof_enabled") == "0":
        yield Finding("warning", server, _after_a_restart(ask))
    yield from _clock(ask, server)


def _after_a_restart(ask: Callable[..., Any]) -> str:
    try:
        saved = ask("CONFIG", "GET", "save")
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


def _clock(ask: Callable[..., Any], server: str) -> Iterator[Finding]:
    before = time.time()
    seconds, micros = ask("TIME")
    after = time.time()
    there = int(seconds) + int(micros) / 1e6
    apart = max(before - there, there - after, 0)
    if apart > CLOCKS:
        text = (
            f"its clock differs from this machine's by {apart:.1f} s: synchronise it. Locks do not need the clock, but "
            "fencing tokens restart from it if the server loses its data"
        )
        yield Finding("warning", server, text)


def _without(message: str, names: list[str]) -> str:
    """Return an error's message without the server, which a finding has, and the command, which nobody typed."""
    for name in names:
        message = message.removeprefix(f"{name}: ")
    return re.sub(rf"^({'|'.join(_COMMANDS)}): ", "", message)
