"""What the benchmark and a contestant say to each other: JSON lines, one request, one reply.

The benchmark writes a request to the contestant's standard input; the contestant writes one reply to its standard
output. Every reply has `ok`; when it is false, `reason` says why, and `cannot` is true where the client lacks the
operation altogether. At the end of its input the contestant ends.

| request `do` | further fields | reply |
|---|---|---|
| `describe` | | `version`, `configuration` (texts) |
| `verify` | `row` | `ok`: every reply was compared with what it must be; for a row of locks also `wall`, `cycles` |
| `time` | `row` | `wall`, `user`, `system` in seconds; for a row of pairs or locks also `latency` |
| `fail` | `servers`, `attempts`, `fresh` | `failures`, `error` (the last one's text) |

A row is data, so a contestant in any language runs the same work:

- a step is a list: `["set", key, text]`, likewise `add` and `replace`; `["get", key]`; `["delete", key]`;
  `["multiget", [key, ...]]`; `["incr", key, delta, initial or null]`; `["decr", key, delta]`;
- `kind` says what a step's text becomes: `bytes` (one byte per character, repeated up to `length` unless that is 0),
  stored as they are, or `object`: the language's empty list, serialised by the client;
- `prepare` runs once, on a client of its own, before the clock; then a new client runs the `phases`, each its steps
  times its `iterations`;
- `connect` is `inside` or `outside` the timing; outside, `warmup` iterations of every phase run before the clock;
- when `quiet` is true all phases run in one quiet batch: set, add, replace and delete await no reply, the others go
  through the client while the batch is open, and the batch's final barrier is inside the timing.

A row of pairs is another shape of row, for coroutines that share one client: one `operation` (`set` or `get`) for every
pair of key and text.

- `concurrency` coroutines run at once; 0 is the blocking client, without any. `order` says how they share the pairs:
  `chunks` cuts them into so many runs, one for each; with `shared` each takes the next pair that none has taken yet.
- The client is made at the first row of its `server` and kept; `connections` is how many a pool may have.
- First come the first `warmup` pairs; then, by the clock, all pairs, `passes` times over; then the first `clocked` pairs
  again, with a clock reading before and after each call: `latency` is their `mean`, `median`, `p99` and `longest` in
  seconds, or null. So reading the clock slows no rate.
- Every reply is compared, within the timing too: a set must say that it stored, a get must give the pair's value.
- `verify` does every pair once, and gets what was set; a get of another key must find nothing.

A row of locks is a third shape of row. A cycle takes a lock of `keys` of the `names`, which lives `ttl` seconds, and
releases it; `workers` do so at once (threads, greenlets or tasks), on one client that is kept from row to row.

- `workload` says what a cycle is and how many there are: `ping` is one command and its reply, `pair` a lock and its
  release, `pipelined` both sent at once, `mutex` the same by workers that share `count` cycles. `latency` is that of the
  command, or of taking the lock. For `section` every worker sleeps, locks, writes, increases, reads and deletes a value
  and unlocks, for `seconds`. For `handover` there are as many processes as workers, each of which does this request: it
  locks and unlocks one name from `start` on (seconds of the clock that all processes share) for `seconds`, and replies
  with `held`: nanoseconds since then at which it asked for the lock, had it, and began to release it.
- First come `warmup` cycles. A reply has `cycles`, how many were done by the clock; those of `verify` are run with a chance
  for two to be inside at once, which is found, and its `wall` tells how long they took.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypedDict, cast

Step = list[Any]
Kind = Literal["bytes", "object"]
Operation = Literal["set", "get"]
Order = Literal["chunks", "shared"]
Workload = Literal["ping", "pair", "pipelined", "mutex", "section", "handover"]


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


class LocksSpec(TypedDict):
    """One cell's work for one contestant that locks."""

    name: str
    server: str
    workload: Workload
    workers: int
    keys: int
    names: list[str]
    ttl: int
    warmup: int
    count: int
    seconds: float
    start: float


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
