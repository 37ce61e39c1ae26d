"""The blocking clients' workloads, as rows of steps: Dalli's ten rows, and rows in the steady state.

Dalli's benchmark (seeds 000 and 001) has six keys, one server under two names, and a new client per row; the timing
includes its connect. The other rows time a client that is connected and warm.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .declaration import Goals, Group, Row, goals_of
from .goals import at_least_row, bare_share, exactly_system_calls, floor_share, keeps, processor_at_most
from .names import PEER
from .protocol import Kind, PhaseSpec, RowSpec, Step

SEED, SIZE, MULTIGET, PLACEMENT = STEP_GROUPS = (
    Group(
        "seed",
        "Dalli's ten rows (seeds 000 and 001)",
        ": operations per second, connect included",
    ),
    Group(
        "size",
        "Get and set by value size",
        ": operations per second, connected and warm",
        axis="size",
    ),
    Group(
        "multiget",
        "Multi-get by keys and servers",
        ": keys per second, connected and warm",
        labels="multiget: keys: servers",
        axis="keys",
    ),
    Group(
        "placement",
        "Client and server on different cores",
        ": operations or keys per second, connected and warm",
        labels="row and placement",
    ),
)
GOALS: Goals = {
    "[gs]et:36B": (floor_share(0.95), exactly_system_calls(2)),
    "multiget:100:1": (floor_share(0.7),),
    "multiget:100:4": (keeps(0.95, "multiget:100:1"),),
    "setq:plain": (at_least_row(6.0, "set:plain"), floor_share(0.6)),
    "get:100KB": (floor_share(0.85), bare_share(0.9)),
    "*": (processor_at_most(PEER),),
}

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
# Only with one server, since it takes long: it shows that the cost per key does not grow.
MOST_MULTIGET_KEYS = 10_000
MULTIGET_SERVERS = (1, 2, 4)
WARM_UP_SHARE = 10


@dataclass(frozen=True)
class StepRow(Row):
    """A row of steps, of which `operations` are counted."""

    kind: Kind = "bytes"
    steps: list[Step] = field(default_factory=list)
    operations: int = 1
    prepare: list[Step] = field(default_factory=list)
    quiet: bool = False
    counting: bool = False
    #: Whether it is one of Dalli's rows: with their count and servers, and with its connect inside the timing.
    of_seed: bool = False

    def spec(self, servers: list[str], iterations: int) -> RowSpec:
        """Returns the row as the contestant gets it."""
        return {
            "name": self.name,
            "servers": servers,
            "kind": self.kind,
            "length": self.size,
            "quiet": self.quiet,
            "connect": "inside" if self.of_seed else "outside",
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


def step_rows() -> list[StepRow]:
    """Returns every row of steps in the order in which rows are run and shown."""
    return [*seed_rows(), *_size_rows(), *_multiget_rows()]


def seed_rows() -> list[StepRow]:
    """Returns the ten rows of seeds 000 and 001, which must run in this order."""
    plain, empty = MARSHALLED, ""
    three = [KEY1, KEY2, KEY3]
    return [
        _seed("set:plain", "bytes", _sets(three * 2, plain), "set three keys twice, 4 bytes each"),
        _seed(
            "setq:plain",
            "bytes",
            _sets(three * 2, plain),
            "set three keys twice, 4 bytes each, in one quiet batch",
            quiet=True,
        ),
        _seed(
            "set:object",
            "object",
            _sets(three * 2, empty),
            "set three keys twice, an empty list that the client pickles",
        ),
        _seed("get:plain", "bytes", _gets(three * 2), "get three keys twice, 4 bytes each", _sets(three, plain)),
        _seed(
            "get:object",
            "object",
            _gets(three * 2),
            "get three keys twice, an empty list that the client unpickles",
            _sets(three, empty),
        ),
        _seed(
            "multiget",
            "object",
            [["get_many", [KEY1, KEY2, KEY3, KEY4, KEY5, KEY6]]],
            "one multi-get of six keys: three hits, three misses",
            _sets(three, empty),
        ),
        _seed(
            "missing",
            "object",
            _each(three, "delete", "get"),
            "delete and then get each of three keys",
            _sets(three, empty),
        ),
        _seed("mixed", "object", _mixed(empty), "six sets and six gets of three keys"),
        _seed(
            "mixedq", "object", _mixedq(empty), "six gets among nine quiet commands", _sets(three, empty), quiet=True
        ),
        StepRow(
            name="incr",
            group=SEED.name,
            about="increase a counter n times, decrease it n times, check that it is 0",
            goals=goals_of("incr", GOALS),
            steps=[["incr_or_create", COUNTER, 1, 1], ["decr", COUNTER, 1], ["incr", COUNTER, 0]],
            operations=2,
            counting=True,
            of_seed=True,
        ),
    ]


def _seed(
    name: str, kind: Kind, steps: list[Step], about: str, prepare: list[Step] | None = None, quiet: bool = False
) -> StepRow:
    return StepRow(
        name=name,
        group=SEED.name,
        about=about,
        goals=goals_of(name, GOALS),
        kind=kind,
        steps=steps,
        operations=len(steps),
        prepare=prepare or [],
        quiet=quiet,
        of_seed=True,
    )


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


def _size_rows() -> list[StepRow]:
    sizes = {"36B": KEY_WIDTH, **SIZES}
    return [_size_row(operation, label, size) for label, size in sizes.items() for operation in ("set", "get")]


def _size_row(operation: str, label: str, size: int) -> StepRow:
    key, name = wide_key(0), f"{operation}:{label}"
    store: Step = ["set", key, "0123456789abcdef"]
    return StepRow(
        name=name,
        group=SIZE.name,
        about=f"{operation} of {size:,} bytes, {KEY_WIDTH}-byte key",
        operation=operation,
        size=size,
        also=("system calls", "memory", "placement") if size == KEY_WIDTH else (),
        goals=goals_of(name, GOALS),
        steps=[store] if operation == "set" else [["get", key]],
        prepare=[] if operation == "set" else [store],
    )


def _multiget_rows() -> list[StepRow]:
    rows = [_multiget_row(keys, servers) for servers in MULTIGET_SERVERS for keys in MULTIGET_KEYS]
    return [*rows, _multiget_row(MOST_MULTIGET_KEYS, 1)]


def _multiget_row(count: int, servers: int) -> StepRow:
    keys, name = [wide_key(number) for number in range(count)], f"multiget:{count}:{servers}"
    return StepRow(
        name=name,
        group=MULTIGET.name,
        about=f"multi-get of {count:,} key{'s' * (count > 1)} of {KEY_WIDTH} bytes from {servers} server{'s' * (servers > 1)}",
        unit="keys",
        keys=count,
        servers=servers,
        also=("system calls", "placement") if (count, servers) == (100, 1) else (),
        goals=goals_of(name, GOALS),
        steps=[["get_many", keys]],
        operations=count,
        prepare=[["set", key, key[::-1]] for key in keys],
    )


def wide_key(number: int) -> str:
    """Returns a key of 36 bytes."""
    return f"bench:{number:06d}:".ljust(KEY_WIDTH, "k")
