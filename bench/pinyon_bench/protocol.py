"""The protocol between the benchmark and a contestant: JSON lines, one reply per request.

The benchmark writes a request to the contestant's standard input, and the contestant writes one reply to its standard
output. Every reply has `ok`. If it is false, `reason` says why, and `cannot` is true if the client lacks the operation
altogether. The contestant ends at the end of its input.

| request `do` | further fields | reply |
|---|---|---|
| `describe` | | `version`, `configuration` (texts) |
| `play` | `row` | `wall`, `user`, `system` in seconds; for a row of pairs or locks also `seconds`, what single calls took |
| `fail` | `servers`, `attempts`, `fresh` | `failures`, `error` (the last one's text) |

A row is data, so contestants in all languages do the same work, and `playing.py` judges what they tell. With `check` a row is
verified, not timed: of steps, the reply has `replies` then, one for each step that was done: texts with a character for each
byte, numbers, the empty list, true or false for what stores or deletes, an object for many keys, how many were stored, or null.

- A step is a list: a call of the client and its arguments. `["set", key, text]`, likewise `add` and `replace`; `["get", key]`;
  `["delete", key]`; `["get_many", [key, ...]]`; `["set_many", [[key, text], ...]]`; `["incr", key, delta]`, likewise `decr`;
  `["incr_or_create", key, delta, initial]`.
- `kind` says what a step's text becomes. `bytes` means one byte per character, repeated up to `length` unless that is
  0, and stored unchanged. `object` means the language's empty list, serialised by the client.
- A new client runs the `phases`, each its steps times its `iterations`.
- `connect` is `inside` or `outside` the timing. If it is outside, `warmup` iterations of every phase precede the
  timing.
- If `quiet` is true, all phases run in one quiet batch. Set, add, replace and delete await no reply. The others go
  through the client while the batch is open. The batch's final barrier is inside the timing.

A row of pairs is another kind of row, for coroutines that share one client: one `operation` (`set` or `get`) for every
pair of key and text.

- `concurrency` coroutines run at once; 0 means the blocking client. `order` says how they share the pairs: with
  `chunks`, each has a part of them; with `shared`, each takes the next free pair. With `semaphore`, every pair has a
  coroutine of its own, all start at once, and a semaphore lets `concurrency` of them work at a time.
- The client is made for the first row of its `server`, and kept. `connections` is the size of its pool, if it has one.
- The first `warmup` pairs come first. Then all pairs are timed, `passes` times over. Then the first `clocked` pairs
  run again, with a clock reading before and after each call, so that reading the clock slows no rate.
- If there are `draws`, these places of pairs are what is timed, one after another, instead of each pair.
- Every reply is compared, even within the timing: a set must report that it stored, a get must return the pair's
  value.
  A text that is null stands for what is absent. The floor compares only with `check`.

A row of locks is a third kind of row. A cycle acquires and releases a lock of `keys` of the `names`, with `ttl`
seconds to live. `workers` do so at once (threads, greenlets or tasks), on one client that is kept from row to row.

- `workload` is the kind of cycle, and the number of them:
  - `ping`: one command and its reply;
  - `pair`: a lock and its release;
  - `pipelined`: both sent at once;
  - `quorum`: a pair on a majority of several servers, whose names in `server` are separated by commas;
  - `mutex`: a pair, by workers that share `count` cycles;
  - `section`: for `seconds`, every worker sleeps, locks, writes, increases, reads and deletes a value, and unlocks;
  - `handover`: as many processes as workers get this request. From `start` (seconds of a clock that all processes
    share) and for `seconds`, each locks and unlocks one name. Its reply has `held`: when it asked for the lock, had
    it, and began to release it, in nanoseconds since the start.
- `draws` are the places of each cycle's names in `names`; workers take them in turn, and in a `section` over and over. There
  worker i sleeps `delays[i]`.
- `seconds` are those of the command, of the whole pair on several servers, or of acquiring the lock.
- `warmup` cycles come first. A reply has `cycles`, the number of timed cycles, and `inside`: when each worker went in and out,
  of a `section`, and with `check`, when workers stay inside for a while, so that two of them could be.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

if TYPE_CHECKING:
    from typing_extensions import NotRequired

Step = list[Any]
Kind = Literal["bytes", "object"]
Operation = Literal["set", "get"]
Order = Literal["chunks", "shared", "semaphore"]
Workload = Literal[
    "ping",
    "pair",
    "pipelined",
    "quorum",
    "mutex",
    "section",
    "handover",
    "read",
    "permits",
    "rate",
    "writers",
    "readers",
]


class PhaseSpec(TypedDict):
    """Steps done `iterations` times over."""

    iterations: int
    steps: list[Step]


class RowSpec(TypedDict):
    """One cell's work for one contestant."""

    name: str
    servers: list[str]
    kind: Kind
    length: int
    quiet: bool
    connect: Literal["inside", "outside"]
    warmup: int
    prepare: list[Step]
    phases: list[PhaseSpec]


class PairsSpec(TypedDict):
    """One cell's work for one contestant's coroutines."""

    name: str
    server: str
    operation: Operation
    concurrency: int
    order: Order
    connections: int
    length: int
    warmup: int
    passes: int
    clocked: int
    pairs: list[list[str]]
    draws: NotRequired[list[int]]


class LocksSpec(TypedDict):
    """One cell's work for one contestant that locks."""

    name: str
    server: str
    workload: Workload
    workers: int
    keys: int
    names: list[str]
    draws: list[list[int]]
    delays: list[float]
    ttl: int
    warmup: int
    count: int
    seconds: float
    start: float
    check: bool


class Timing(TypedDict):
    """Seconds that a contestant spent: by the clock, in its own code, and in the kernel on its behalf."""

    wall: float
    user: float
    system: float


class ProtocolError(Exception):
    """The other side wrote something that is not a message."""


def encode(message: dict[str, Any]) -> bytes:
    """Returns the message as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Returns the message on a line; raises ProtocolError when it is not a JSON object."""
    try:
        message = json.loads(line)
    except ValueError:
        raise ProtocolError(f"not JSON: {line[:80]!r}") from None
    if not isinstance(message, dict):
        raise ProtocolError(f"not a JSON object: {line[:80]!r}")
    return cast("dict[str, Any]", message)


def value_of(kind: Kind, length: int, text: str) -> Any:
    """Returns the value that a step's text stands for."""
    if kind == "object":
        return []
    if length:
        text = (text * (length // len(text) + 1))[:length]
    return text.encode("latin-1")


def address_of(server: str) -> tuple[str, int]:
    """Returns host and port of a server's name."""
    host, _, port = server.rpartition(":")
    return host, int(port)
