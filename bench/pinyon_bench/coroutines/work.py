"""The Python contestants' side of rows of pairs: the work, its checks and its clock, in every concurrency model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

from pinyon.cli.stress import models
from pinyon.cli.stress.models import Model, Tasks, Uvloop

from ..calls import Call, Calls
from ..clock import Stopwatch, no_garbage_collection
from ..harness import Kept
from ..names import UVLOOP
from ..protocol import Order, PairsSpec, value_of
from ..wrong import expect

#: One call: its arguments and its expected answer.
Item = tuple[tuple[Any, ...], Any]


MODELS: dict[str, type[Model]] = {**models.MODELS, UVLOOP: Uvloop}


async def call_each(call: Call, items: Iterable[Item]) -> None:
    """Makes one call after another. Raises WrongResult at the first wrong answer."""
    for arguments, wanted in items:
        reply = call(*arguments)
        if reply != wanted:
            expect(call_name(call), arguments[0], reply, wanted)


async def clock_each(call: Call, items: Iterable[Item], seconds: list[float]) -> None:
    """The same, reading the clock around each call."""
    for arguments, wanted in items:
        start = perf_counter()
        reply = call(*arguments)
        seconds.append(perf_counter() - start)
        if reply != wanted:
            expect(call_name(call), arguments[0], reply, wanted)


async def await_each(call: Call, items: Iterable[Item]) -> None:
    """`call_each` for awaited calls."""
    for arguments, wanted in items:
        reply = await call(*arguments)
        if reply != wanted:
            expect(call_name(call), arguments[0], reply, wanted)


async def clock_each_await(call: Call, items: Iterable[Item], seconds: list[float]) -> None:
    """`clock_each` for awaited calls."""
    for arguments, wanted in items:
        start = perf_counter()
        reply = await call(*arguments)
        seconds.append(perf_counter() - start)
        if reply != wanted:
            expect(call_name(call), arguments[0], reply, wanted)


def call_name(call: Call) -> str:
    """Returns the name of a call in messages."""
    return getattr(call, "__name__", "call")


def parts_of(items: list[Item], concurrency: int, order: Order, passes: int = 1) -> Sequence[Iterable[Item]]:
    """Returns what each coroutine iterates over: its own chunk, or an iterator shared by all; or everything, without
    coroutines.

    In further passes a coroutine does its own chunk again. So no two ask for one key at the same time, which a client that
    batches requests would send once.
    """
    if not concurrency:
        return [items * passes]
    if order == "shared":
        return [iter(items * passes)] * min(concurrency, len(items))
    size = max(1, math.ceil(len(items) / concurrency))
    return [items[start : start + size] * passes for start in range(0, len(items), size)]


class PairsHarness(Kept):
    """Does rows of pairs."""

    def _play(self, row: PairsSpec) -> dict[str, Any]:
        is_awaited = isinstance(self._model, Tasks)
        arguments = (row["server"], row["connections"]) if is_awaited else ([row["server"]], "bytes", False)
        calls = self._client(row["server"], *arguments)
        stores = row["operation"] == "set"
        call, items = (calls.set, set_items(row, calls)) if stores else (calls.get, get_items(row, calls))
        self._run(call, items[: row["warmup"]], row)
        drawn = [items[place] for place in row["draws"]] if "draws" in row else items
        seconds: list[float] = []
        with no_garbage_collection():
            parts = parts_of(drawn, row["concurrency"], row["order"], row["passes"])
            watch = Stopwatch()
            self._run_parts(call, parts)
            timing = watch.elapsed()
            self._run(call, items[: row["clocked"]], row, seconds)
        return {**timing, "seconds": seconds}

    def _run(self, call: Call, items: list[Item], row: PairsSpec, seconds: list[float] | None = None) -> None:
        self._run_parts(call, parts_of(items, row["concurrency"], row["order"]), seconds)

    def _run_parts(self, call: Call, parts: Sequence[Iterable[Item]], seconds: list[float] | None = None) -> None:
        is_awaited = isinstance(self._model, Tasks)
        if seconds is None:
            each = await_each if is_awaited else call_each
            works = [each(call, part) for part in parts]
        else:
            clocked = clock_each_await if is_awaited else clock_each
            works = [clocked(call, part, seconds) for part in parts]
        self._model.run(self._model.together(works))


def set_items(row: PairsSpec, calls: Calls) -> list[Item]:
    """Returns a set for each pair."""
    values = values_of(row)
    return [((calls.keys(key), values[text]), calls.stored) for key, text in row["pairs"]]


def get_items(row: PairsSpec, calls: Calls) -> list[Item]:
    """Returns a get for each pair."""
    values = values_of(row)
    return [((calls.keys(key),), values[text]) for key, text in row["pairs"]]


def values_of(row: PairsSpec) -> dict[str, Any]:
    """Returns the value of each text. Each is made once, however many pairs have it."""
    texts = {text for _, text in row["pairs"]}
    return {text: None if text is None else value_of("bytes", row["length"], text) for text in texts}
