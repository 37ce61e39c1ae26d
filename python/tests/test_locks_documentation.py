"""The pages about locks are right: programs, commands for operators, permissions, and tables.

test_documentation.py runs their Python blocks.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from locking import queued
from servers import Memcached, Redis
from waiting import PATIENT, wait_until

import pinyon
import pinyon.aio
from pinyon._aio_locks import Held as AioHeld
from pinyon._native import DEFAULT_SETTINGS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "locks.md").read_text()
COUNTERPARTS = (DOCS / "locks-from-redis-em-mutex.md").read_text()

PRINTED = {
    "locks_sql": "refused: account 1 has been written by a later holder\nbalance: 65\n",
    "locks_cached": "stored: True\nstored: True\nstored late: False\nstored late: False\nb'new' new\n",
}


def test_every_program_about_locks_is_run() -> None:
    assert {path.stem for path in (DOCS / "examples").glob("locks_*.py")} == set(PRINTED)


@pytest.mark.parametrize("program", PRINTED)
def test_a_recipe_refuses_the_late_writer(program: str, redis: Redis, server: Memcached) -> None:
    environment = {**os.environ, "REDIS_URL": redis.url, "MEMCACHE_SERVERS": server.address}
    command = [sys.executable, str(DOCS / "examples" / f"{program}.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert (done.returncode, done.stdout) == (0, PRINTED[program]), done.stderr


def test_the_statement_of_the_page_is_the_one_that_is_run() -> None:
    (block,) = re.findall(r"```sql\n(.*?)\n```", PAGE, re.DOTALL)
    assert f'"{block}"' in (DOCS / "examples" / "locks_sql.py").read_text()


def commands(page: str) -> list[str]:
    """The lines of a page's shell blocks, with continued lines joined."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def test_an_operator_looks_and_releases_as_the_page_says(redis: Redis) -> None:
    lines = [line for line in commands(PAGE) if line.startswith("pinyon") or "DEL" in line]
    assert len(lines) == 4
    printed = []
    with pinyon.Locks(redis.url, namespace="app", **PATIENT) as locks:
        for line in lines:
            held = locks.lock("account:1").acquire()
            words = shlex.split(line)
            if words[0] == "pinyon":
                words[:1] = [sys.executable, "-m", "pinyon"]
            else:
                words[1:1] = ["-p", str(redis.port)]
            environment = {**os.environ, "REDIS_URL": redis.url}
            done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=150, check=True)
            printed.append(done.stdout)
            assert held.release() is ("release" not in line and "DEL" not in line)
        assert all("account:1" in text for text in printed[:3])
        assert printed[3].strip() == "1"


def test_those_who_wait_notice_a_deletion_within_a_heartbeat(redis: Redis) -> None:
    with (
        pinyon.Locks(redis.url, **PATIENT) as locks,
        pinyon.Locks(redis.url, heartbeat=0.5, **PATIENT) as others,
    ):
        held = locks.lock("a").acquire()
        with background(lambda: take_and_give_back(others, "a")):
            wait_until(lambda: queued(redis) == 1)
            redis.ask("DEL", "{pinyon}:l:a")
            deleted_at = time.monotonic()
        assert time.monotonic() - deleted_at < 40
        assert held.extend(60) is False


def take_and_give_back(locks: pinyon.Locks, name: str) -> None:
    assert locks.lock(name, timeout=60).acquire().release()


@contextlib.contextmanager
def background(work: Callable[[], object]) -> Iterator[None]:
    """Runs it in another thread meanwhile. Raises its exception."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        yield
        done.result(120)


def granted(page: str, user: str) -> list[str]:
    """The rules of the user's permissions, according to the page."""
    lines = [shlex.split(line) for line in commands(page)]
    (rules,) = [line[4:] for line in lines if line[1:4] == ["ACL", "SETUSER", user]]
    return rules


#: What the server lacks, and what the page says to leave out of the rules.
SERVERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "functions": ((), ("+evalsha", "+script|load")),
    "scripts": (("--rename-command", "FCALL", "", "--rename-command", "FUNCTION", ""), ()),
    "RESP2": (("--rename-command", "HELLO", ""), ()),
}


@pytest.mark.parametrize("kind", SERVERS)
def test_the_permissions_of_the_page_are_enough(kind: str, redis_with: Callable[..., Redis]) -> None:
    arguments, spared = SERVERS[kind]
    redis = redis_with(*arguments)
    rules = [rule for rule in granted(PAGE, "app") if rule not in spared]
    with user_of(redis, "app", rules) as (locks, others):
        everything(redis, locks, others)
        conditions(redis, locks, others)
    nothing_was_denied(redis)


def test_the_permissions_of_the_page_are_enough_without_scripts(redis_with: Callable[..., Redis]) -> None:
    redis = redis_with()
    with user_of(redis, "plain", granted(PAGE, "plain"), handler="pure") as (locks, others):
        everything(redis, locks, others)
    nothing_was_denied(redis)


def added(page: str, what: str, handler: str) -> list[str]:
    """The permissions that the page adds for something."""
    (row,) = [line for line in page.splitlines() if line.startswith("|") and what in line and "`+" in line]
    with_scripts, _, without = row.partition('with `handler="pure"`')
    return re.findall(r"\+\w+", without if handler == "pure" else with_scripts)


@pytest.mark.parametrize(("user", "handler"), [("app", "script"), ("plain", "pure")])
def test_the_permissions_of_the_page_are_enough_for_names_to_read_and_permits(
    user: str, handler: str, redis_with: Callable[..., Redis]
) -> None:
    redis = redis_with()
    rules = granted(PAGE, user) + added(PAGE, "names to read, and permits", handler)
    with user_of(redis, user, rules, handler=handler) as (locks, others):
        sharing(locks, others)
    nothing_was_denied(redis)
    missing = granted(PAGE, user)
    redis.ask("ACL", "SETUSER", "less", *missing)
    with (
        user_of(redis, "less", missing, handler=handler) as (less, _),
        pytest.raises(pinyon.ServerError, match=r"the user may not run"),
    ):
        sharing(less, less)


def sharing(locks: pinyon.Locks, others: pinyon.Locks) -> None:
    """A renewal, readers and a writer, a limit that changes, and a forced release."""
    with contextlib.suppress(pinyon.LockLost), locks.read("a"), others.lock("b", read=("a",), permits={"p": (1, 2)}):
        time.sleep(2.5)  # one renewal
        assert len(locks.status("a")[0].readers) == 2
        assert locks.try_lock("a") is None
        with background(lambda: take_and_give_back(others, "a")):
            assert locks.permits("p", limit=3).available() == 1
            with locks.permits("p", limit=3, n=2):
                assert locks.permits("p", limit=3).available() == 0
            assert locks.force_release("a") == 1


@contextlib.contextmanager
def user_of(
    redis: Redis, name: str, rules: list[str], handler: str = "script"
) -> Iterator[tuple[pinyon.Locks, pinyon.Locks]]:
    assert redis.ask("ACL", "SETUSER", name, *rules) == "OK"
    url = f"redis://{name}:secret@{redis.address}"
    settings: dict[str, Any] = {**PATIENT, "namespace": "app", "ttl": 6, "handler": handler, "heartbeat": 1}
    with pinyon.Locks(url, **settings) as locks, pinyon.Locks(url, **settings) as others:
        yield locks, others


def nothing_was_denied(redis: Redis) -> None:
    assert redis.ask("ACL", "LOG") == []
    assert {key for key in redis.left_behind() if b"#x:" not in key} == set()


def everything(redis: Redis, locks: pinyon.Locks, others: pinyon.Locks) -> None:
    """A renewal, a hand-over, a wait that times out, nested locks, and a forced release."""
    handed: list[int] = []

    def take() -> None:
        with others.lock("b", timeout=60) as held:
            handed.append(held.token)

    held = locks.lock("a", "b").acquire()
    with background(take):
        time.sleep(2.5)  # one renewal, and two heartbeats of the one that waits
        held.check()
        assert held.extend(20)
        assert others.try_lock("a") is None
        assert others.status("a")[0].holder
        assert held.release()
    assert handed[0] > held.token
    with locks.lock("a"), locks.lock("c"), background(lambda: in_vain(others, "d", "c")):
        in_vain(others, "e", "a")
    lost = threading.Event()
    held = locks.lock("a", on_lost=lambda held: lost.set()).acquire()
    assert others.force_release("a") == 1
    assert lost.wait(60)
    assert held.release() is False
    assert redis.ask("ACL", "LOG") == []
    with pytest.raises(pinyon.ServerError, match="NOPERM"):
        locks.execute("FLUSHALL")
    redis.ask("ACL", "LOG", "RESET")


def in_vain(locks: pinyon.Locks, has: str, wants: str) -> None:
    with locks.lock(has), pytest.raises(pinyon.LockTimeout):
        locks.lock(wants, timeout=2).acquire()


def conditions(redis: Redis, locks: pinyon.Locks, others: pinyon.Locks) -> None:
    def wait() -> None:
        with others.lock("a", timeout=60) as held:
            assert held.wait(60) is True

    with background(wait):
        wait_until(lambda: redis.ask("ZCARD", "{app}:#n") == 1)
        for number in range(17):  # a ticket in sixteen sweeps the queues; each round draws three
            name = str(number)
            held = locks.lock(name).acquire()
            with background(functools.partial(take_and_give_back, others, name)):
                wait_until(lambda: queued(redis, "app"))
                assert held.release()
        with locks.lock("a", timeout=60) as held:
            wait_until(lambda: held.notify() == 1)
    with locks.lock("a") as held:
        assert held.wait(0.1) is False


def tables(page: str) -> dict[str, list[list[str]]]:
    """The rows of each table, by the first cell of its heading."""
    found: dict[str, list[list[str]]] = {}
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in table.splitlines()]
        found.setdefault(rows[0][0], []).extend(rows[2:])
    return found


def test_every_error_of_locks_is_documented() -> None:
    rows = tables(PAGE)["error"]
    named = {name: also for name, also, _ in rows}
    for cell, also in named.items():
        kind = getattr(pinyon, cell.strip("`"))
        for other in re.findall(r"`(\w+)`", also):
            assert issubclass(kind, getattr(pinyon, other, None) or getattr(builtins, other))
    kinds = {kind.__name__ for kind in pinyon.LockError.__subclasses__()}
    assert kinds <= {cell.strip("`") for cell in named}


def documented_settings() -> dict[str, str]:
    rows = tables(PAGE)["setting"]
    return {name: default.strip("`") for cell, default, _ in rows for name in re.findall(r"`(\w+)`", cell)}


def test_the_settings_have_their_defaults() -> None:
    documented = documented_settings()
    made = json.loads(DEFAULT_SETTINGS)["Locks"]
    names = set(made)
    taken = inspect.signature(pinyon.Locks.lock).parameters
    assert set(documented) == names | {"on_event"} | (set(taken) - {"self", "names"})
    assert documented["on_event"] == f"{inspect.signature(pinyon.Locks.__new__).parameters['on_event'].default}"
    later = ("ttl", "timeout", "reentrant")
    for name in names - set(later):
        assert documented[name] == f"{made[name]}".removesuffix(".0"), name
    for name in ("renew", "max_hold", "on_lost"):
        assert documented[name] == f"{taken[name].default}", name
    assert all(taken[name].default is None for name in later)
    for name in later:
        assert f"| `{name}` | {made[name]:g} |".replace("| 0 |", "| False |") in PAGE


@pytest.mark.parametrize("kind", [(pinyon.Locks, pinyon.Held), (pinyon.aio.Locks, AioHeld)], ids=["threads", "asyncio"])
def test_what_the_pages_call_exists(kind: tuple[type, type]) -> None:
    known = {"locks": kind[0], "held": kind[1]}
    for page in (PAGE, COUNTERPARTS):
        for owner, name in re.findall(r"\b(locks|held)\.([a-z_]+)", page.replace("locks.md", "")):
            assert hasattr(known[owner], name) or (owner, name) == ("held", "names"), f"{owner}.{name}"


#: The settings, methods, classes and errors of redis-em-mutex 0.3.1.
OLD = """
url scheme host port password db path redis redis_factory connection_pool_class size expire ns handler reconnect_max
lock synchronize new default_expire can_refresh_expired? ready? watching? start_watcher stop_watcher wakeup_queue_all
reset_autoname reconnect_max_retries sweep name block owner try_lock unlock! unlock refresh locked? owned? expired?
expires_in expires_at expiration_timestamp sleep wakeup expire_timeout block_timeout names Mutex::NS Mutex::Macro
auto_mutex no_auto_mutex on_timeout MutexError MutexTimeout REDIS_EM_MUTEX_HANDLER
"""


@pytest.mark.parametrize("feature", OLD.split())
def test_every_feature_of_redis_em_mutex_has_its_line(feature: str) -> None:
    cells = [row[0] for rows in tables(COUNTERPARTS).values() for row in rows]
    word = rf"(?<![\w:]){re.escape(feature)}(?![\w?!])"
    assert any(re.search(word, cell) for cell in cells)


def test_the_links_of_the_pages_lead_somewhere() -> None:
    for page in (PAGE, COUNTERPARTS):
        for target in re.findall(r"\]\(([^)]+)\)", page):
            path, _, anchor = target.partition("#")
            assert (DOCS / path).exists(), target
            headings = re.findall(r"^#+ (.*)$", (DOCS / path).read_text(), re.MULTILINE) if anchor else []
            assert not anchor or anchor in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


def test_names_in_the_examples_are_the_namespaces_own(redis: Redis) -> None:
    """The keys on the page are those of a real lock."""
    with pinyon.Locks(redis.url, namespace="app", **PATIENT) as locks, locks.lock("NAME", ttl=10) as held:
        assert redis.keys() == {b"{app}:l:NAME", b"{app}:#f"}
        value = redis.ask("GET", "{app}:l:NAME").decode()
        assert re.fullmatch(
            rf"[0-9a-f]{{16}}\.{os.getpid():x}\.\d+\.[\w%-]*:[0-9a-f]+:[0-9a-f]+ {held.token} 10000", value
        )
    assert redis.keys() == {b"{app}:#f"}
