"""Many keys of a region: no value is created that another caller has just created."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dogpile.cache
import pytest
from dogpile.cache.api import NO_VALUE
from servers import Memcached, Redis

from pinyon.frameworks.dogpile import Region, make_region

Made = Callable[..., Region]


@pytest.fixture(params=["threads", "memcached", "redis"])
def region(request: pytest.FixtureRequest, server: Memcached, redis: Redis) -> Region:
    """A region whose locks are in the process or on a server."""
    lock = {"memcached": {"distributed_lock": True}, "redis": {"lock_url": redis.url}}.get(request.param, {})
    patient = {"servers": server.address, "timeout": 60, "connect_timeout": 60}
    region = make_region()
    region.configure("pinyon", expiration_time=600, arguments={**patient, **lock})
    return region


def test_a_caller_creates_what_no_other_has_created(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    creating, has_read, gate = threading.Event(), threading.Event(), threading.Event()
    read = region.backend.get_serialized_multi

    def reading(keys: Any) -> Any:
        values = read(keys)
        if "c" in keys:
            has_read.set()
        return values

    monkeypatch.setattr(region.backend, "get_serialized_multi", reading)

    def first(*keys: str) -> list[str]:
        creating.set()
        assert gate.wait(60)
        return [f"first {key}" for key in keys]

    asked: list[tuple[str, ...]] = []

    def second(*keys: str) -> list[str]:
        asked.append(keys)
        return [f"second {key}" for key in keys]

    with ThreadPoolExecutor(2) as callers:
        one = callers.submit(region.get_or_create_multi, ["a", "b"], first)
        try:
            assert creating.wait(60)
            other = callers.submit(region.get_or_create_multi, ["c", "b", "a"], second)
            assert has_read.wait(60), "it has read before the first one stores"
        finally:
            gate.set()
        assert one.result(60) == ["first a", "first b"]
        assert other.result(60) == ["second c", "first b", "first a"]
    assert asked == [("c",)]
    assert region.get_multi(["a", "b", "c"]) == ["first a", "first b", "second c"]


def test_what_another_has_created_is_not_stored_again(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be younger than it is."""
    stored: list[str] = []
    write = region.backend.set_serialized_multi
    monkeypatch.setattr(region.backend, "set_serialized_multi", lambda values: (stored.extend(values), write(values)))
    read, is_first = region.backend.get_serialized_multi, [True]

    def reading(keys: Any) -> Any:
        if is_first and is_first.pop():
            region.set("b", "of another")
            return [NO_VALUE] * len(keys)
        return read(keys)

    monkeypatch.setattr(region.backend, "get_serialized_multi", reading)
    keys = ["a", "b", "c"]
    refused = lambda value: value != "C"  # noqa: E731
    created = region.get_or_create_multi(keys, lambda *keys: [key.upper() for key in keys], should_cache_fn=refused)
    assert created == ["A", "of another", "C"]
    assert stored == ["a"]


def test_values_that_have_expired_or_were_invalidated_are_created_again(region: Region) -> None:
    def create(number: int) -> list[str]:
        return list(region.get_or_create_multi(["a", "b"], lambda *keys: [f"{key} {number}" for key in keys]))

    assert [create(1), create(2)] == [["a 1", "b 1"]] * 2
    region.invalidate(hard=True)
    assert create(3) == ["a 3", "b 3"]
    region.invalidate(hard=False)
    assert create(4) == ["a 4", "b 4"]


def test_a_decorated_function_of_many_keys(region: Region) -> None:
    calls: list[tuple[int, ...]] = []

    @region.cache_multi_on_arguments(asdict=True)
    def double(*numbers: int) -> dict[int, int]:
        calls.append(numbers)
        return {number: 2 * number for number in numbers if number != 3}

    assert double(1, 2) == {1: 2, 2: 4}
    assert double(2, 3, 1) == {2: 4, 1: 2}
    assert calls == [(1, 2), (3,)]


def test_it_is_a_region_of_dogpile(region: Region) -> None:
    assert isinstance(region, dogpile.cache.CacheRegion)
    assert region.get_or_create("key", lambda: "made") == "made"
