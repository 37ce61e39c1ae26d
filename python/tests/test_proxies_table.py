"""The table of docs/proxies.md: each operation is done on each server or proxy, and does what its cell says."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Memcached, Pool, Twemproxy
from test_proxies import a_proxy_of_memcacheds_own

import pinyon


def quiet(cache: pinyon.Client) -> None:
    with cache.quiet() as batch:
        batch.set("quiet", 1)


def encode_keys(cache: pinyon.Client) -> None:
    cache.set("a key", "value")


#: What each name of the table's first column stands for.
OPERATIONS: dict[str, Callable[[pinyon.Client], object]] = {
    "get": lambda cache: cache.get("key"),
    "gets": lambda cache: cache.gets("key"),
    "set": lambda cache: cache.set("key", "value"),
    "add": lambda cache: cache.add("key", "value"),
    "replace": lambda cache: cache.replace("key", "value"),
    "append": lambda cache: cache.append("text", "!"),
    "prepend": lambda cache: cache.prepend("text", "!"),
    "cas": lambda cache: cache.cas("key", "value", 1),
    "delete": lambda cache: cache.delete("key"),
    "incr": lambda cache: cache.incr("number"),
    "decr": lambda cache: cache.decr("number"),
    "touch": lambda cache: cache.touch("key", 10),
    "get_many": lambda cache: cache.get_many(["key", "other"]),
    "gets_many": lambda cache: cache.gets_many(["key", "other"]),
    "set_many": lambda cache: cache.set_many({"key": "value", "other": "value"}),
    "delete_many": lambda cache: cache.delete_many(["key", "other"]),
    "touch_many": lambda cache: cache.touch_many(["key", "other"], 10),
    "quiet": quiet,
    "version": lambda cache: cache.version(),
    "gat": lambda cache: cache.gat("key", 10),
    "gat_many": lambda cache: cache.gat_many(["key", "other"], 10),
    "stats": lambda cache: cache.stats(),
    "flush_all": lambda cache: cache.flush_all(),
    "get_or_set": lambda cache: cache.get_or_set("made", lambda: "made", ttl=10),
    "lease": lambda cache: cache.lease("leased"),
    "delete(stale=)": lambda cache: cache.delete("key", stale=10),
    "get_with_ttl": lambda cache: cache.get_with_ttl("key"),
    "meta": lambda cache: cache.meta("key"),
    "incr(initial=)": lambda cache: cache.incr("counter", initial=1),
    "encode_keys=True": encode_keys,
}


@contextlib.contextmanager
def classic(server: Memcached) -> Iterator[dict[str, Any]]:
    yield {"servers": server.address, "protocol": "classic"}


@contextlib.contextmanager
def twemproxy(server: Memcached) -> Iterator[dict[str, Any]]:
    if not shutil.which("nutcracker"):
        pytest.skip("nutcracker is not installed")
    with Twemproxy(Pool(server)) as proxy:
        yield {"servers": proxy.address}


@contextlib.contextmanager
def memcacheds_own(server: Memcached) -> Iterator[dict[str, Any]]:
    with a_proxy_of_memcacheds_own(server) as proxy:
        yield {"servers": proxy.address}


#: By the beginning of a column's title.
COLUMNS = {"Classic text": classic, "twemproxy": twemproxy, "memcached's proxy": memcacheds_own}


def table(repository: Path) -> dict[str, dict[str, bool]]:
    """Whether each operation works, by the title of its column."""
    page = (repository / "docs" / "proxies.md").read_text()
    rows = [line.strip("| \n").split(" | ") for line in page[page.index("| Operation") :].splitlines()]
    titles, cells = rows[0][1:], rows[2 : rows.index([""])]
    works: dict[str, dict[str, bool]] = {title: {} for title in titles}
    for operations, *columns in cells:
        for title, cell in zip(titles, columns):
            for name in re.findall("`([^`]+)`", operations):
                works[title][name] = {"yes": True, "no": False}[cell.partition(":")[0]]
    return works


@pytest.mark.parametrize("column", COLUMNS)
def test_each_operation_works_as_the_table_says(column: str, own_server: Memcached, repository: Path) -> None:
    (works,) = (operations for title, operations in table(repository).items() if title.startswith(column))
    assert works.keys() == OPERATIONS.keys()
    found = {}
    with (
        COLUMNS[column](own_server) as settings,
        pinyon.Client(**settings, encode_keys=True, timeout=30, connect_timeout=30) as cache,
    ):
        for name, operation in OPERATIONS.items():
            cache.set_many({"key": "value", "text": "text", "number": 1})
            try:
                operation(cache)
            except (pinyon.Unsupported, pinyon.ServerError):
                found[name] = False
            except pinyon.ConnectionLost:
                assert name == "flush_all", "memcached's own proxy refuses it so, as of 1.6.45"
                found[name] = False
            else:
                found[name] = True
    assert found == works
