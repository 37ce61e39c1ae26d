"""``get_or_set_many``: carries out the steps that the native half decides on, in every concurrency model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pinyon import _native
from pinyon._get_or_set import carried_out, not_awaited, value_of
from pinyon._waits import waits_of
from pinyon.errors import UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pinyon._get_or_set import StepTable
    from pinyon._steps import Steps
    from pinyon._terms import Terms


def get_or_set_many(
    client: Any,
    keys: Iterable[str | bytes],
    make_many: Callable[[list[Any]], Any],
    ttl: Any,
    failed: dict[Any, Any] | None,
    terms: Terms,
) -> Steps:
    """Return the values of many keys. What is missing, this caller or another one makes."""
    if not callable(make_many):
        name = type(make_many).__qualname__
        raise UnsupportedType(f"make_many is called with keys to make their values; {name} is not callable")
    waits = waits_of(client)
    machine = _native.GetOrSetMany(client, keys, waits.scope(), waits.caller(), ttl, failed, terms)
    signals: dict[int, Any] = {}

    def listen(numbers: Sequence[int]) -> None:
        for number in numbers:
            signals[number] = waits.signal()
            machine.follow(number, signals[number])

    steps: StepTable = {
        "send": (lambda call, keys: client._sending(call, keys, machine.send), machine.answered),
        "make": (lambda _, keys: make_many(keys), machine.made),
        "listen": (listen, machine.done),
        "follow": (lambda number, seconds: waits.wait(signals[number], seconds), machine.done),
        "pause": (waits.sleep, machine.done),
    }

    def made(outcome: Any, numbers: list[int], keys: list[Any]) -> list[tuple[Any] | None]:
        return _made(machine, numbers, keys, outcome, ttl)

    try:
        return (yield from carried_out(machine, steps, made))
    finally:
        machine.abandon()


def _made(
    machine: _native.GetOrSetMany, numbers: list[int], keys: list[Any], made: Any, ttl: Any
) -> list[tuple[Any] | None]:
    """Return a tuple of each key's value, or None for a key that was left out."""
    values = _values_of(made)
    each: list[tuple[Any] | None] = []
    for number, key in zip(numbers, keys):
        if key in values:
            each.append((value_of(values[key], ttl, partial(machine.made_with, number)),))
        else:
            each.append(None)
    return each


def _values_of(made: Any) -> Mapping[Any, Any]:
    """Return what was made, by key."""
    not_awaited("make_many", made)
    if isinstance(made, Mapping):
        return made
    try:
        return dict(made)
    except (TypeError, ValueError):
        name = type(made).__qualname__
        raise UnsupportedType(
            f"make_many must return a dict of keys and values, or pairs of them, not {name}"
        ) from None
