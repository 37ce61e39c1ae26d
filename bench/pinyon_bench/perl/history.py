"""The figures that seed 003 published, beside today's in the shape of its program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..compare import participants, rate
from ..coroutines.rows import OPERATIONS, SYNC
from ..grids import NONE, Grid, model_of
from ..names import CORO, OURS, contestant_name
from ..results import Document
from ..step_rows import SIZES
from .rows import LINKS, LOCAL, LOOPS, PAIRS_GROUPS, PREFIX, SEMAPHORE

DATA = Path(__file__).with_name("history.json")
COLUMNS = [f"{operation}:{label}" for label in SIZES for operation in OPERATIONS]
#: Where the seed's figures were measured, by link.
SOURCES = {
    "local": "memcached on the same machine, an Intel Core i7 930; 10,000 operations.",
    "slow": "a remote memcached over WiFi, from a MacBook Pro of 2010; 100 operations. Its round trip is not stated: "
    "a blocking call took about 70 ms. Here: {how}.",
}


def seed_003_grids(document: Document) -> list[Grid]:
    """Returns the operations per second that the seed published, and those measured here, for each link."""
    return [_grid(document, link) for link in LINKS]


def _grid(document: Document, link: str) -> Grid:
    here = _here(document, link)
    past = [
        [_named(each["name"], each["coroutines"]), *(_shown(each["figures"].get(column)) for column in COLUMNS)]
        for each in _published(link)
    ]
    columns = [0, *(number for number, _ in enumerate(COLUMNS, 1) if any(line[number] != NONE for line in past + here))]
    lines = [[line[column] for column in columns] for line in (*past, *here)] if here else []
    how = document.versions.get("slow link", "a link with a delay")
    note = (
        f"In the seed: {SOURCES[link].format(how=how)} Mcc is not in Debian and does not take part here. With coroutines, "
        "every operation has one of its own, and a semaphore lets so many work at a time; without, calls come one after "
        "another."
    )
    where = "server nearby" if link == LOCAL else "slow link"
    title = f"History: operations per second as published in seed 003, and here, {where}"
    header = ["client, coroutines at a time", *(COLUMNS[column - 1].replace(":", "\n") for column in columns[1:])]
    return Grid(title, header, lines, note)


def _published(link: str) -> list[dict[str, Any]]:
    return [each for each in json.loads(DATA.read_text()) if each["link"] == link]


def _here(document: Document, link: str) -> list[list[str]]:
    """Returns the lines of blocking clients, then of Pinyon in coroutines; a line without figures is left out."""
    blocking = [name for name in participants(document, PAIRS_GROUPS[LOOPS, link].name) if model_of(name) == PREFIX]
    rows = document.rows_of(PAIRS_GROUPS[SEMAPHORE, link].name)
    cells = [(name, LOOPS, 0) for name in blocking]
    cells += [(contestant_name(OURS, CORO), SEMAPHORE, many) for many in sorted({row.concurrency for row in rows})]
    lines = []
    for name, shape, many in cells:
        found = [rate(document, f"{PREFIX}:{shape}:{link}:{column}:{many or SYNC}", name) for column in COLUMNS]
        if any(found):
            lines.append([f"{_named(name, many)}, here", *(_shown(value) for value in found)])
    return lines


def _named(client: str, coroutines: int) -> str:
    return f"{client}, {coroutines}" if coroutines else client


def _shown(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"
