"""Starts contestants and talks to them."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .c import entries as c_entries
from .coroutines.rows import CLIENT_POOL, THREADS, THREADS_APART
from .declaration import Row
from .hot.rows import HOT
from .locks import entries as lock_entries
from .names import (
    ASYNCIO,
    BARE,
    BLOCKING,
    FLOOR,
    GEVENT,
    HOT_CACHE,
    MODELS,
    NEAR_CLIENT,
    OURS,
    UVLOOP,
    contestant_name,
)
from .perl import entries as perl_entries
from .placement import pinned
from .protocol import ProtocolError, decode, encode
from .ruby import entries as ruby_entries
from .step_rows import SIZE, STEP_GROUPS

REPLY_SECONDS = 120.0
ALL_STEPS = tuple(group.name for group in STEP_GROUPS)
IN_THREADS = (THREADS.name, THREADS_APART.name)
FLOOR_GROUPS = (
    *(*ALL_STEPS, GEVENT, ASYNCIO, UVLOOP),
    *ruby_entries.FLOOR_GROUPS,
    *perl_entries.FLOOR_GROUPS,
    *c_entries.FLOOR_GROUPS,
    *lock_entries.FLOOR_GROUPS,
)
BENCH_FOLDER = Path(__file__).resolve().parent.parent
REPOSITORY = BENCH_FOLDER.parent


class ContestantError(Exception):
    """A contestant ended, hung, refused, or wrote something else than a reply; `cannot` if its client never can."""

    def __init__(self, reason: str, cannot: bool = False) -> None:
        super().__init__(reason)
        self.cannot = cannot


@dataclass(frozen=True)
class Entry:
    """One contestant: its name, the command that runs it, the groups of rows that it takes part in, how to build it.

    `models` are the concurrency models of which it is one. A client in coroutines is a contestant of its own, named
    `CLIENT MODEL`.
    """

    name: str
    command: list[str]
    groups: tuple[str, ...]
    models: tuple[str, ...] = (BLOCKING,)
    build: str = ""

    def takes_part(self, row: Row) -> bool:
        """Returns whether this contestant takes part in the row."""
        return row.group in self.groups and not set(self.models).isdisjoint(row.models)


def all_entries() -> list[Entry]:
    """Returns the contestants in their order; the first one present is what the others are compared with."""
    return [
        _blocking(OURS, "pinyon", "gevent", "local", "slow", *IN_THREADS, HOT.name),
        _blocking("pylibmc", "pylibmc", "gevent", "local", "slow"),
        _blocking("pymemcache", "pymemcache", "gevent"),
        _blocking("python-memcached", "python_memcached"),
        _blocking("libmc", "libmc", "gevent"),
        _blocking("meta-memcache", "meta_memcache"),
        Entry(NEAR_CLIENT, _python_command("pinyon.NEAR"), (HOT.name,)),
        Entry(HOT_CACHE, _python_command("meta_memcache.HOT_CACHE"), (HOT.name,)),
        _in_threads(CLIENT_POOL, "pylibmc.CLIENT_POOL"),
        _in_threads("pylibmc ThreadMappedPool", "pylibmc.THREAD_MAPPED_POOL"),
        _in_threads("pymemcache PooledClient", "pymemcache.POOLED"),
        _coroutines(OURS, "pinyon.GEVENT", GEVENT, "local", "slow"),
        _coroutines("pylibmc", "pylibmc", GEVENT),
        _coroutines("pymemcache", "pymemcache.GREENLETS", GEVENT, "local", "slow"),
        _coroutines("libmc", "libmc", GEVENT),
        *_event_loop(ASYNCIO, "local", "slow"),
        *_event_loop(UVLOOP),
        _near_tasks(),
        *(_locks(*each) for each in lock_entries.LOCK_CONTESTANTS),
        *(_of_language(ruby_entries, *each) for each in ruby_entries.CONTESTANTS),
        *(_of_language(perl_entries, *each) for each in perl_entries.CONTESTANTS),
        *(_of_language(c_entries, *each) for each in c_entries.CONTESTANTS),
        Entry(FLOOR, [_floor_program()], FLOOR_GROUPS, MODELS, "cargo build --release -p pinyon-floor"),
        Entry(BARE, _python_command("bare_socket"), (SIZE.name,)),
    ]


def _event_loop(model: str, *groups: str) -> list[Entry]:
    """Returns the clients for an event loop; all in the model's own group, the best of them also in these."""
    return [
        _coroutines(OURS, "pinyon.ASYNCIO", model, *groups, HOT.name),
        _coroutines("emcache", "emcache.PLAIN", model, *groups),
        _coroutines("emcache autobatch", "emcache.AUTOBATCH", model),
        _coroutines("aiomcache", "aiomcache", model, *groups),
        _coroutines("memcachio", "memcachio", model),
    ]


def _near_tasks() -> Entry:
    """Returns Pinyon with hot keys in memory, in tasks of asyncio."""
    command = [*_python_command("pinyon.NEAR_TASKS"), ASYNCIO]
    return Entry(contestant_name(NEAR_CLIENT, ASYNCIO), command, (HOT.name,), (ASYNCIO,))


def _blocking(name: str, adapter: str, *groups: str) -> Entry:
    return Entry(name, _python_command(adapter), (*ALL_STEPS, *groups))


def _in_threads(name: str, adapter: str) -> Entry:
    """Returns a pool of blocking clients, for threads."""
    return Entry(name, _python_command(adapter), IN_THREADS)


def _coroutines(client: str, adapter: str, model: str, *groups: str) -> Entry:
    return Entry(contestant_name(client, model), [*_python_command(adapter), model], (model, *groups), (model,))


def _locks(client: str, adapter: str, model: str) -> Entry:
    command = [sys.executable, "-m", "pinyon_bench.locks.contestants", adapter, model]
    return Entry(contestant_name(client, model), command, lock_entries.groups_of(client), (model,))


def _of_language(language: Any, client: str, file: str, model: str, groups: tuple[str, ...]) -> Entry:
    """Returns a contestant in another language; `language` is the module with its command and how to build it."""
    return Entry(contestant_name(client, model), language.command(file, model), groups, (model,), language.BUILD)


def _python_command(adapter: str) -> list[str]:
    return [sys.executable, "-m", "pinyon_bench.contestants", adapter]


def _floor_program() -> str:
    return os.environ.get("PINYON_FLOOR") or str(program("pinyon-floor"))


def program(name: str) -> Path:
    """Returns where cargo puts one of our programs."""
    target = os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target"
    return Path(target) / "release" / name


def answered(reply: dict[str, Any]) -> dict[str, Any]:
    """Returns the reply; raises ContestantError when the contestant refused."""
    if not reply["ok"]:
        raise ContestantError(reply["reason"], bool(reply.get("cannot")))
    return reply


@dataclass
class Contestant:
    """A contestant's process. The first request starts it; after a failure, the next request restarts it."""

    entry: Entry
    cores: set[int] | None
    _process: subprocess.Popen[bytes] | None = None
    _errors: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def ask(self, request: dict[str, Any], seconds: float = REPLY_SECONDS) -> dict[str, Any]:
        """Returns the reply to a request. Raises ContestantError if there is none within `seconds`."""
        self.send(request)
        return self.receive(seconds)

    def send(self, request: dict[str, Any]) -> None:
        """Sends a request; `receive` returns its reply."""
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(encode(request))
            process.stdin.flush()
        except OSError as error:
            self.close()
            raise ContestantError(f"{error}{self._last_words()}") from None

    def receive(self, seconds: float = REPLY_SECONDS) -> dict[str, Any]:
        """Returns the reply to the last request. Raises ContestantError if there is none within `seconds`."""
        process = self._running()
        assert process.stdout is not None
        try:
            if not select.select([process.stdout], [], [], seconds)[0]:
                raise ContestantError(f"no reply within {seconds:g} seconds")
            return self._checked(process.stdout.readline())
        except (ContestantError, ProtocolError, OSError) as error:
            self.close()
            raise ContestantError(f"{error}{self._last_words()}") from None

    @property
    def pid(self) -> int:
        """The process id. Starts the process if necessary."""
        return self._running().pid

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            with pinned(self.cores):
                try:
                    self._process = subprocess.Popen(
                        self.entry.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
                    )
                except FileNotFoundError:
                    reason = f"not built: {self.entry.build}" if self.entry.build else "its program does not exist"
                    raise ContestantError(reason) from None
        return self._process

    def _checked(self, line: bytes) -> dict[str, Any]:
        if not line:
            raise ContestantError("ended without a reply")
        reply = decode(line)
        if not isinstance(reply.get("ok"), bool):
            raise ProtocolError("a reply without `ok`")
        return reply

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def hang_up(self) -> None:
        """Closes the process's input, so that it ends; does not wait for it."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def close(self) -> None:
        """Ends the process, if any, by closing its input or else by killing it."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.close()
            process.wait(1.0)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            process.kill()
            process.wait()
        process.stdout.close()
