"""The table of docs/wire-costs.md, row by row."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from links import CountingLink
from servers import Memcached

import pinyon

PAGE = Path(__file__).parents[2] / "docs" / "wire-costs.md"
KEYS = [f"key:{number}" for number in range(10)]
TTL = 1000
STALE = {"stale": 100}


def make() -> str:
    return "made"


def fail() -> str:
    raise LookupError("no database")


def make_many(keys: list[str]) -> dict[str, str]:
    return dict.fromkeys(keys, "made")


class Case:
    """What comes before a call, and the call."""

    def __init__(self, cache: pinyon.Client, other: pinyon.Client, address: str) -> None:
        self.cache = cache
        self.near = pinyon.Client(address, near=pinyon.Near(fresh=TTL), timeout=20)
        #: For it, what is in memory is old at once.
        self.hasty = pinyon.Client(address, near=pinyon.Near(fresh=0.001), timeout=20)
        self.other = other
        self.product = cache.cached("key:{number}", ttl=TTL)(lambda number: number)
        self.tagged = cache.cached("key:{number}", ttl=TTL, tags=["tag"])(lambda number: number)

    def stored(self) -> None:
        self.other.set_many(dict.fromkeys(KEYS, 1), ttl=TTL)

    def stale(self) -> None:
        self.stored()
        self.other.delete(KEYS[0], stale=100)

    def stale_and_taken(self) -> None:
        self.stale()
        self.lease = self.other.lease(KEYS[0], lease=100)

    def made_before(self) -> None:
        self.product(0)

    def in_memory(self) -> None:
        self.stored()
        for client in (self.near, self.hasty):
            client.get_many(KEYS[:5])
        time.sleep(0.002)

    def made_before_with_a_tag(self) -> None:
        self.tagged(0)

    def nothing(self) -> None:
        self.other.delete_many(KEYS)

    def get_or_set(self, make: Callable[[], Any] = make, **terms: Any) -> Any:
        return self.cache.get_or_set(KEYS[0], make, TTL, **{**STALE, **terms})

    def get_or_set_and_fail(self) -> None:
        with pytest.raises(LookupError):
            self.get_or_set(fail)


Before = Callable[[Case], None]
CASES: dict[tuple[str, str], tuple[Before, Callable[[Case], object]]] = {
    ("get", "a value"): (Case.stored, lambda case: case.cache.get(KEYS[0])),
    ("get", "a value marked stale, whose lease nobody has"): (Case.stale, lambda case: case.cache.get(KEYS[0])),
    ("get with near", "a value in memory, younger than fresh"): (Case.in_memory, lambda case: case.near.get(KEYS[0])),
    ("get with near", "a value in memory, older"): (Case.in_memory, lambda case: case.hasty.get(KEYS[0])),
    ("get_many of 10 keys", "values"): (Case.stored, lambda case: case.cache.get_many(KEYS)),
    ("get_many of 10 keys with near", "five values in memory"): (
        Case.in_memory,
        lambda case: case.near.get_many(KEYS),
    ),
    ("set_many of 10 keys", "stored"): (Case.nothing, lambda case: case.cache.set_many(dict.fromkeys(KEYS, 1))),
    ("get_or_set", "a fresh value"): (Case.stored, Case.get_or_set),
    ("get_or_set", "no value"): (Case.nothing, Case.get_or_set),
    ("get_or_set", "no value, and make fails"): (Case.nothing, Case.get_or_set_and_fail),
    ("get_or_set", "a stale value, which this caller makes anew"): (Case.stale, Case.get_or_set),
    ("get_or_set", "a stale value, which another caller makes anew"): (Case.stale_and_taken, Case.get_or_set),
    ('get_or_set with on_error="stale"', "a stale value, and make fails"): (
        Case.stale,
        lambda case: case.get_or_set(fail, on_error="stale"),
    ),
    ("get_or_set with a Made of store=False", "no value"): (
        Case.nothing,
        lambda case: case.get_or_set(lambda: pinyon.Made("made", store=False)),
    ),
    ("get_or_set_many of 10 keys", "fresh values"): (
        Case.stored,
        lambda case: case.cache.get_or_set_many(KEYS, make_many, TTL),
    ),
    ("get_or_set_many of 10 keys", "no values"): (
        Case.nothing,
        lambda case: case.cache.get_or_set_many(KEYS, make_many, TTL),
    ),
    ("get_or_set_many of 10 keys", "no values, and make_many leaves out half of them"): (
        Case.nothing,
        lambda case: case.cache.get_or_set_many(KEYS, lambda keys: make_many(keys[::2]), TTL),
    ),
    ("a cached function", "a fresh value"): (Case.made_before, lambda case: case.product(0)),
    ("peek of a cached function", "a fresh value"): (Case.made_before, lambda case: case.product.peek(0)),
    ("invalidate of a cached function", "a fresh value"): (Case.made_before, lambda case: case.product.invalidate(0)),
    ("refresh of a cached function", "a fresh value"): (Case.made_before, lambda case: case.product.refresh(0)),
    ("refresh of a cached function with a tag", "a fresh value"): (
        Case.made_before_with_a_tag,
        lambda case: case.tagged.refresh(0),
    ),
}


def rows() -> Iterator[tuple[str, str, int, dict[str, int]]]:
    """Yields the rows of the page: a call, its case, round trips, and how many of each command."""
    for line in PAGE.read_text().splitlines():
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line).replace("`", "")
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        if len(cells) == 4 and cells[2].isdigit():
            commands = {verb: int(count) for count, verb in re.findall(r"(\d+) (\w+)", cells[3])}
            yield cells[0], cells[1], int(cells[2]), commands


def test_every_row_is_played() -> None:
    assert [(call, case) for call, case, *_ in rows()] == list(CASES)


@pytest.mark.parametrize(("call", "case", "round_trips", "commands"), list(rows()), ids=lambda value: str(value)[:50])
def test_a_call_costs_what_the_page_says(
    server: Memcached, call: str, case: str, round_trips: int, commands: dict[str, int]
) -> None:
    before, play = CASES[call, case]
    with CountingLink(server) as link, pinyon.Client(link.address, timeout=20, generation_ttl=0) as cache:
        with pinyon.Client(server.address, timeout=20) as other:
            cache.get("warm")
            played = Case(cache, other, link.address)
            with played.near, played.hasty:
                before(played)
                link.take()
                play(played)
        assert link.take() == (round_trips, commands)
