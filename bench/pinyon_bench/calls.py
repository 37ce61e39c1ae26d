"""The harness's view of one client: its bound methods, and which client a row needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable

from .protocol import RowSpec, Step, value_of

Call = Callable[..., Any]
STORES = ("set", "add", "replace")
BoundStep = tuple[Call, tuple[Any, ...]]


class CannotDo(Exception):
    """The client has no such operation."""


def nothing() -> None:
    """Does nothing; for clients that have no close."""


@dataclass(frozen=True)
class Calls:
    """A connected client's methods, bound, so that the timing loop costs every client the same.

    `set`, `add`, `replace` take key and value; `incr`, `decr` key and delta; `incr_or_create` key, delta and
    initial. `stored` is the answer of `set` after storing; `keys` turns text into the client's form of a key.
    `finish` ends a quiet batch: when it returns, the servers have done everything. It is None for a client that
    merely does not ask for replies. The harness then gets each of the row's keys: a reply on a connection proves
    that everything sent before is done.
    """

    get: Call
    set: Call
    close: Call
    add: Call | None = None
    replace: Call | None = None
    delete: Call | None = None
    get_many: Call | None = None
    incr: Call | None = None
    decr: Call | None = None
    incr_or_create: Call | None = None
    found: Callable[[Any], dict[str, Any]] = dict
    stored: Any = True
    keys: Callable[[str], str | bytes] = str
    finish: Callable[[], None] | None = None

    @staticmethod
    def of(client: Any, get_many: str = "get_many", close: str = "close", **others: Any) -> Calls:
        """Returns a client's own methods under the names above, where `others` do not stand instead."""
        names = {name: name for name in ("get", "set", "add", "replace", "delete", "incr", "decr")}
        names |= {"get_many": get_many, "close": close}
        return Calls(**{**{name: getattr(client, method) for name, method in names.items()}, **others})


def adding(client: Any, form: Callable[[int], Any] = int) -> Call:
    """Returns an `incr_or_create` for a client whose `incr` answers None if there is nothing: it adds the initial value."""

    def incr_or_create(key: str, delta: int, initial: int) -> Any:
        value = client.incr(key, delta)
        if value is not None:
            return value
        return initial if client.add(key, form(initial)) else client.incr(key, delta)

    return incr_or_create


@dataclass(frozen=True)
class Adapter:
    """One client library as the benchmark sees it.

    `version` has that of the C library below it, if there is one; `configuration` describes the client's settings in one line.
    `connect` returns the calls of a new client. It takes servers, the kind of values and whether rows are quiet, and raises
    CannotDo without a quiet mode when one is asked for; in coroutines it is awaited, and takes a server and the size of a pool;
    of locks, a server and the seconds that they live.
    """

    version: str
    configuration: str
    connect: Call

    def patched(self) -> Adapter:
        """Returns the same library with sockets, locks and sleeps that gevent has patched."""

        def connect(*arguments: Any) -> Any:
            from gevent import monkey

            monkey.patch_all(ssl=False)
            return self.connect(*arguments)

        return Adapter(self.version, f"{self.configuration}; monkey-patched", connect)


@contextmanager
def connected(adapter: Adapter, row: RowSpec, quiet: bool = False) -> Iterator[Calls]:
    """Connects a new client for a row's values and closes it on the way out."""
    calls: Calls = adapter.connect(row["servers"], row["kind"], quiet)
    try:
        yield calls
    finally:
        calls.close()


def bind(calls: Calls, steps: list[Step], row: RowSpec) -> list[BoundStep]:
    """Returns the steps as functions and their arguments; raises CannotDo for an operation that the client lacks."""
    return [(_required(calls, step[0]), _arguments(step, row)) for step in steps]


def _arguments(step: Step, row: RowSpec) -> tuple[Any, ...]:
    operation, key, *rest = step
    return (key, value_of(row["kind"], row["length"], rest[0])) if operation in STORES else (key, *rest)


def finish_quiet(calls: Calls, row: RowSpec) -> None:
    """Waits until the servers have done everything in a quiet row. Does nothing for other rows."""
    if not row["quiet"]:
        return
    if calls.finish is not None:
        calls.finish()
        return
    for key in sorted(row_keys(row)):
        calls.get(key)


def row_keys(row: RowSpec) -> set[str]:
    """Returns the keys in a row's steps, except those of steps with many keys."""
    return {step[1] for phase in row["phases"] for step in phase["steps"] if isinstance(step[1], str)}


def _required(calls: Calls, name: str) -> Call:
    call: Call | None = getattr(calls, name, None)
    if call is None:
        raise CannotDo(f"no {name.replace('_', ' ')}")
    return call
