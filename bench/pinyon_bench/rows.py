"""The blocking clients' workloads, as rows of steps: the seeds' ten rows, and the steady-state rows beside them.

The seeds' rows are those of Dalli's benchmark: six keys, one server under two names, a new client per row whose connect
is inside the timing. The others time a client that is connected and warm.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from .coroutines.models import BLOCKING
from .protocol import Kind, PhaseSpec, RowSpec, Step

Group = Literal["seed", "size", "multiget", "placement"]

KEY1 = "Short"
KEY2 = "Sym1-2-3::45" * 8
KEY3 = "Long" * 40
KEY4 = "Medium" * 8
KEY5 = "Medium2" * 8
KEY6 = "Long3" * 40
COUNTER = "counter"
MARSHALLED = "\x04\x08[\x00"

SEED_N = 2500
KEY_WIDTH = 36
SIZES = {"64B": 64, "10KB": 10_240, "100KB": 102_400}
MULTIGET_KEYS = (1, 10, 100, 1000)
# On one server alone: it shows that nothing gets dearer per key, and takes long.
MOST_MULTIGET_KEYS = 10_000
MULTIGET_SERVERS = (1, 2, 4)
WARM_UP_SHARE = 10
PLACEMENT_ROWS = ("set:36B", "get:36B", "multiget:100:1")


@dataclass(frozen=True)
class Row:
    """One workload; `operations` and `unit` say what its rate counts."""

    name: str
    group: Group
    kind: Kind
    steps: list[Step]
    operations: int
    about: str
    prepare: list[Step] = field(default_factory=list)
    servers: int = 1
    unit: str = "operations"
    length: int = 0
    quiet: bool = False
    counting: bool = False
    models: tuple[str, ...] = (BLOCKING,)

    def spec(self, servers: list[str], iterations: int) -> RowSpec:
        """Returns the row as the contestant gets it."""
        return {
            "name": self.name,
            "servers": servers,
            "kind": self.kind,
            "length": self.length,
            "quiet": self.quiet,
            "connect": "inside" if self.group == "seed" else "outside",
            "warmup": max(10, iterations // WARM_UP_SHARE),
            "prepare": self.prepare,
            "phases": self._phases(iterations),
        }

    def _phases(self, iterations: int) -> list[PhaseSpec]:
        if not self.counting:
            return [{"iterations": iterations, "steps": self.steps}]
        up, down, check = self.steps
        return [
            {"iterations": iterations, "steps": [up]},
            {"iterations": iterations, "steps": [down]},
            {"iterations": 1, "steps": [check]},
        ]


def all_rows() -> list[Row]:
    """Returns every row of steps in the order in which rows are run and shown."""
    return [*seed_rows(), *_single_rows(), *_multiget_rows()]


def seed_rows() -> list[Row]:
    """Returns the ten rows of seeds 000 and 001, which must run in this order."""
    plain, empty = MARSHALLED, ""
    three = [KEY1, KEY2, KEY3]
    return [
        _seed("set:plain", "bytes", _sets(three * 2, plain), "set k1 k2 k3 k1 k2 k3, 4 bytes"),
        _seed("setq:plain", "bytes", _sets(three * 2, plain), "the same in one quiet batch", quiet=True),
        _seed("set:object", "object", _sets(three * 2, empty), "the same with [], pickled by the client"),
        _seed("get:plain", "bytes", _gets(three * 2), "get k1 k2 k3 k1 k2 k3", _sets(three, plain)),
        _seed("get:object", "object", _gets(three * 2), "the same, unpickled", _sets(three, empty)),
        _seed(
            "multiget",
            "object",
            [["multiget", [KEY1, KEY2, KEY3, KEY4, KEY5, KEY6]]],
            "one multi-get of six keys: 3 hits, 3 misses",
            _sets(three, empty),
        ),
        _seed("missing", "object", _each(three, "delete", "get"), "delete and get, three times", _sets(three, empty)),
        _seed("mixed", "object", _mixed(empty), "6 sets, 6 gets"),
        _seed("mixedq", "object", _mixedq(empty), "6 gets among 9 quiet commands", _sets(three, empty), quiet=True),
        Row(
            name="incr",
            group="seed",
            kind="bytes",
            steps=[["incr", COUNTER, 1, 1], ["decr", COUNTER, 1], ["incr", COUNTER, 0, None]],
            operations=2,
            about="n times incr, then n times decr, then the check that it is 0",
            counting=True,
        ),
    ]


def _seed(
    name: str, kind: Kind, steps: list[Step], about: str, prepare: list[Step] | None = None, quiet: bool = False
) -> Row:
    return Row(name, "seed", kind, steps, len(steps), about, prepare or [], quiet=quiet)


def _sets(keys: list[str], text: str) -> list[Step]:
    return [["set", key, text] for key in keys]


def _gets(keys: list[str]) -> list[Step]:
    return [["get", key] for key in keys]


def _each(keys: list[str], *operations: str) -> list[Step]:
    return [[operation, key] for key in keys for operation in operations]


def _mixed(text: str) -> list[Step]:
    keys = [KEY1, KEY2, KEY3]
    pairs = [step for key in keys for step in (["set", key, text], ["get", key])]
    return [*_sets(keys, text), *_gets(keys), *pairs]


def _mixedq(text: str) -> list[Step]:
    keys = [KEY1, KEY2, KEY3]
    return [
        *_sets(keys, text),
        *_gets(keys),
        ["set", KEY1, text],
        ["get", KEY1],
        ["set", KEY2, text],
        ["replace", KEY2, text],
        ["delete", KEY3],
        ["add", KEY3, text],
        ["get", KEY2],
        ["set", KEY3, text],
        ["get", KEY3],
    ]


def _single_rows() -> list[Row]:
    sizes = {"36B": KEY_WIDTH, **SIZES}
    return [row for label, size in sizes.items() for row in _size_pair(label, size)]


def _size_pair(label: str, size: int) -> list[Row]:
    key, text = wide_key(0), "0123456789abcdef"
    store: Step = ["set", key, text]
    return [
        Row(f"set:{label}", "size", "bytes", [store], 1, f"set of {size} bytes, {KEY_WIDTH}-byte key", length=size),
        Row(
            f"get:{label}",
            "size",
            "bytes",
            [["get", key]],
            1,
            f"get of {size} bytes, {KEY_WIDTH}-byte key",
            [store],
            length=size,
        ),
    ]


def _multiget_rows() -> list[Row]:
    rows = [_multiget(keys, servers) for servers in MULTIGET_SERVERS for keys in MULTIGET_KEYS]
    return [*rows, _multiget(MOST_MULTIGET_KEYS, 1)]


def _multiget(count: int, servers: int) -> Row:
    keys = [wide_key(number) for number in range(count)]
    return Row(
        name=f"multiget:{count}:{servers}",
        group="multiget",
        kind="bytes",
        steps=[["multiget", keys]],
        operations=count,
        about=f"{count} keys of {KEY_WIDTH} bytes, {KEY_WIDTH}-byte values, {servers} server(s)",
        prepare=[["set", key, key[::-1]] for key in keys],
        servers=servers,
        unit="keys",
    )


def placement_rows(placement: str) -> list[Row]:
    """Returns the few rows that `record` also measures in another placement, which their names say."""
    chosen = [row for row in all_rows() if row.name in PLACEMENT_ROWS]
    return [replace(row, name=f"{row.name} {placement}", group="placement") for row in chosen]


def wide_key(number: int) -> str:
    """Returns a key of 36 bytes."""
    return f"bench:{number:06d}:".ljust(KEY_WIDTH, "k")
