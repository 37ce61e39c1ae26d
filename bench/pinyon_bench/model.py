"""Verification: runs a row's steps and compares every reply with the right one."""

from __future__ import annotations

from typing import Any

from .calls import Adapter, Calls, bind, connected, finish_quiet
from .protocol import RowSpec, Step, value_of


class WrongResult(Exception):
    """A client's reply was wrong."""


class Model:
    """A model of a cache: a dict that predicts every reply.

    In a quiet row, a get may overtake earlier quiet commands. So a key that the row deletes may also be absent.
    """

    def __init__(self, row: RowSpec) -> None:
        self._row = row
        self._items: dict[str, Any] = {}
        self._unsettled = {
            step[1] for phase in row["phases"] for step in phase["steps"] if row["quiet"] and step[0] == "delete"
        }

    def items(self) -> dict[str, Any]:
        """Returns everything that must be stored now."""
        return dict(self._items)

    def check(self, step: Step, reply: Any) -> None:
        """Applies one step; raises WrongResult when its reply is wrong."""
        operation, key, *rest = step
        if operation in ("set", "add", "replace"):
            self._store(operation, key, value_of(self._row["kind"], self._row["length"], rest[0]), reply)
        elif operation == "get":
            self._compare_get(key, reply)
        elif operation == "multiget":
            expect(step, reply, {name: self._items[name] for name in key if name in self._items})
        elif operation == "delete":
            if self._items.pop(key, None) is not None and not self._row["quiet"] and not reply:
                raise WrongResult(f"delete of {short(key)} answered {short(reply)}")
        else:
            self._count(step, reply)

    def _store(self, operation: str, key: str, value: Any, reply: Any) -> None:
        allowed = operation == "set" or (operation == "add") == (key not in self._items)
        if allowed:
            self._items[key] = value
        if not self._row["quiet"] and bool(reply) != allowed:
            raise WrongResult(f"{operation} of {short(key)} answered {short(reply)}")

    def _compare_get(self, key: str, reply: Any) -> None:
        if reply is None and key in self._unsettled:
            return
        expect(["get", key], reply, self._items.get(key))

    def _count(self, step: Step, reply: Any) -> None:
        operation, key, delta, *rest = step
        initial: int | None = rest[0] if rest else None
        if key in self._items:
            signed = delta if operation == "incr" else -delta
            self._items[key] = max(0, self._items[key] + signed)
        elif initial is not None:
            self._items[key] = initial
        expect(step, reply, self._items.get(key))


def verify(adapter: Adapter, row: RowSpec) -> None:
    """Runs the row once against the model, then reads everything back with a new client.

    Raises WrongResult, CannotDo, or the client's exception.
    """
    model = Model(row)
    with connected(adapter, row) as calls:
        _check_steps(model, row["prepare"], bind(calls, row["prepare"], row), calls)
    with connected(adapter, row, row["quiet"]) as calls:
        for phase in row["phases"]:
            bound = bind(calls, phase["steps"], row)
            for _ in range(phase["iterations"]):
                _check_steps(model, phase["steps"], bound, calls)
        finish_quiet(calls, row)
    _read_back(adapter, row, model)


def _check_steps(model: Model, steps: list[Step], bound: Any, calls: Calls) -> None:
    for step, (function, arguments) in zip(steps, bound):
        reply = function(*arguments)
        model.check(step, calls.found(reply) if step[0] == "multiget" else reply)


def _read_back(adapter: Adapter, row: RowSpec, model: Model) -> None:
    counters = {step[1] for phase in row["phases"] for step in phase["steps"] if step[0] in ("incr", "decr")}
    with connected(adapter, row) as calls:
        for key, value in model.items().items():
            if key not in counters:
                expect(["get", key], calls.get(key), value)


def expect(step: Step, reply: Any, wanted: Any) -> None:
    """Raises WrongResult when a reply is not the one wanted."""
    if reply != wanted:
        raise WrongResult(f"{step[0]} {short(step[1])} answered {short(reply)} instead of {short(wanted)}")


def short(value: Any) -> str:
    """Returns the value's text, shortened for a message."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
