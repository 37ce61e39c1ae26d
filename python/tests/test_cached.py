"""Cached functions: what their keys are, when they are called, and what becomes of their values."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pydantic
import pytest
from models import Awaited, Model, every_model
from servers import Memcached

import pinyon
import pinyon.aio

Connect = Callable[..., Any]


class AwaitedFunction(Awaited):
    """Wraps a cached function so that its blocking calls can be awaited."""

    async def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.wrapped(*arguments, **keywords)

    def key(self, *arguments: Any, **keywords: Any) -> Any:
        return self.wrapped.key(*arguments, **keywords)


def cached(cache: Any, function: Callable[..., Any], *settings: Any, **terms: Any) -> Any:
    """Caches a function, or a coroutine function that does the same if the client is one of asyncio."""
    if isinstance(cache, Awaited):
        return AwaitedFunction(cache.wrapped.cached(*settings, **terms)(function))

    @functools.wraps(function)
    async def awaited(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    return cache.cached(*settings, **terms)(awaited)


class Products:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def product(self, number: int, *, language: str = "en") -> Any:
        self.calls.append(number)
        if number < 0:
            raise ValueError("there is no such product")
        return {"number": number, "language": language, "call": len(self.calls)}


@every_model
async def test_a_function_is_called_once_for_each_key(model: Model, server: Memcached, connect: Connect) -> None:
    products, cache = Products(), connect(server)
    product = cached(cache, products.product, "product:{number}:{language}", 60)
    assert product.key(7) == product.key(number=7, language="en") == "product:7:en"
    for _ in range(2):
        assert await product(7) == {"number": 7, "language": "en", "call": 1}
    assert await product(number=7, language="de") == {"number": 7, "language": "de", "call": 2}
    assert await cache.get("product:7:de") == {"number": 7, "language": "de", "call": 2}
    assert products.calls == [7, 7]
    with pytest.raises(ValueError, match="no such product"):
        await product(-1)
    with pytest.raises(TypeError, match="number"):
        await product()


@every_model
async def test_values_are_looked_at_made_anew_and_deleted(model: Model, server: Memcached, connect: Connect) -> None:
    products, cache = Products(), connect(server)
    product = cached(cache, products.product, "product:{0}", 60, stale=30)
    assert await product.peek(7) is None
    assert await product.invalidate(7) is False
    assert products.calls == []
    assert (await product.refresh(7))["call"] == 1, "there was no old value"
    assert (await product.refresh(7))["call"] == 2
    assert (await product.peek(7))["call"] == (await product(7))["call"] == 2
    _, ttl = await cache.get_with_ttl("product:7")
    assert 60 < ttl <= 90, "it is stored on the terms of the decorator"
    assert await product.invalidate(7) is True
    assert (await product(7))["call"] == 3
    products.product = None  # type: ignore[method-assign]
    failing = cached(cache, Products().product, "product:7", 60)
    with pytest.raises(ValueError, match="no such product"):
        await failing.refresh(-1)
    assert (await failing.peek(7))["call"] == 3, "the old value stays"


@every_model
async def test_none_is_a_value(model: Model, server: Memcached, connect: Connect) -> None:
    calls: list[int] = []
    nothing = cached(connect(server), lambda: calls.append(1), "nothing", 60)
    assert [await nothing(), await nothing(), await nothing.peek()] == [None] * 3
    assert calls == [1]


@dataclass
class Part:
    name: str
    weight: float | None = None


@dataclass
class Whole:
    number: int
    parts: list[Part]
    spare: Part | None = None
    named: dict[str, Part] = field(default_factory=dict)
    pair: tuple[Part, int] = (Part("x"), 1)
    inner: list[Whole] = field(default_factory=list)
    marks: frozenset[int] = frozenset({1})


class Model1(pydantic.BaseModel):
    number: int
    parts: list[str]


class Struct(msgspec.Struct):
    number: int
    parts: list[str]


class Reversed:
    """A converter of the user's own."""

    @staticmethod
    def dump(text: str) -> str:
        return text[::-1]

    load = dump


BOLT, NUT = Part("bolt", 1.5), Part("nut")


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (
            Whole,
            Whole(1, [BOLT, NUT], NUT, {"a": BOLT}, (NUT, 2), [Whole(2, [])]),
            {"number": 1, "spare": {"name": "nut", "weight": None}},
        ),
        (Model1, Model1(number=1, parts=["a"]), {"number": 1, "parts": ["a"]}),
        (Struct, Struct(1, ["a"]), {"number": 1, "parts": ["a"]}),
        (Reversed, "abc", "cba"),
    ],
    ids=["dataclass", "pydantic", "msgspec", "own"],
)
@every_model
async def test_typed_values_are_plain_data_in_the_cache(
    model: Model, kind: Any, value: Any, stored: Any, server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    function = cached(cache, lambda: value, "whole", 60, as_=kind)
    for _ in range(2):
        got = await function()
        assert got == value
        assert type(got) is type(value)
    assert await function.peek() == await function.refresh() == value
    there = await cache.get("whole")
    assert (there if isinstance(stored, str) else {name: there[name] for name in stored}) == stored


@every_model
async def test_the_function_decides_how_long_its_value_is_kept(
    model: Model, server: Memcached, connect: Connect
) -> None:
    cache = connect(server)
    for kind, value in ((None, {"name": "nut"}), (Part, NUT)):
        short = cached(cache, lambda value=value: pinyon.Made(value, ttl=20), "short", 60, as_=kind)
        by_value = cached(
            cache, lambda value=value: value, "by-value", lambda made: 30 if made == NUT else 31, as_=kind
        )
        unstored = cached(cache, lambda value=value: pinyon.Made(value, store=False), "unstored", 60, as_=kind)
        for function, ttls in ((short, (10, 20)), (by_value, (21, 31))):
            assert await function.refresh() == await function() == value
            _, ttl = await cache.get_with_ttl(function.key())
            assert ttls[0] < ttl <= ttls[1]
        assert await unstored() == value
        assert await unstored.peek() is None


@every_model
async def test_a_value_of_another_shape_is_made_anew(model: Model, server: Memcached, connect: Connect) -> None:
    cache = connect(server)
    await cache.set("part", {"title": "of an older program"})
    part = cached(cache, lambda: NUT, "part", 60, as_=Part)
    assert await part() == NUT
    assert await cache.get("part") == {"name": "nut", "weight": None}


def test_methods(server: Memcached) -> None:
    with pinyon.Client(server.address) as cache:

        class Shop:
            def __init__(self, name: str) -> None:
                self.name, self.calls = name, 0

            @cache.cached("{self.name}:{number}", ttl=60)
            def product(self, number: int) -> str:
                """Return a product."""
                self.calls += 1
                return f"{number} of {self.name}"

            @staticmethod
            @cache.cached("static:{number}", ttl=60)
            def of_none(number: int) -> int:
                return number

            @classmethod
            @cache.cached("{cls.__name__}:{number}", ttl=60)
            def of_class(cls, number: int) -> str:
                return f"{number} of {cls.__name__}"

        shops = Shop("one"), Shop("two")
        assert [shop.product(number=5) for shop in (*shops, *shops)] == ["5 of one", "5 of two"] * 2
        assert [shop.calls for shop in shops] == [1, 1]
        assert shops[0].product.key(5) == Shop.product.key(shops[0], 5) == "one:5"
        assert shops[0].product.invalidate(5) is True
        assert shops[1].product.peek(5) == "5 of two"
        assert (Shop.of_none(1), Shop.of_class(1), Shop.of_class(1)) == (1, "1 of Shop", "1 of Shop")
        method = shops[0].product
        assert (method.__name__, method.__doc__) == ("product", "Return a product.")
        assert list(inspect.signature(method).parameters) == ["number"]
        assert list(inspect.signature(Shop.product).parameters) == ["self", "number"]


def a_function(number: int) -> int:
    return number


async def a_coroutine_function(number: int) -> int:
    return number


def a_generator(number: int) -> Any:
    yield number


async def an_async_generator(number: int) -> Any:
    yield number


class Odd:
    pass


def test_what_cannot_be_cached_is_refused_at_once() -> None:
    client, aio = pinyon.Client("127.0.0.1:1"), pinyon.aio.Client("127.0.0.1:1")
    for cache, function, says in (
        (client, a_generator, "a_generator is a generator, whose body runs later: cache a function that returns"),
        (client, an_async_generator, "an_async_generator is a generator"),
        (client, a_coroutine_function, r"is a coroutine function: decorate it with a client of pinyon\.aio"),
        (aio, a_function, r"is no coroutine function: decorate it with a client of pinyon$"),
        (aio, an_async_generator, "is a generator"),
        (client, 5, "5 is no function that could make a value"),
    ):
        with pytest.raises(pinyon.UsageError, match=says):
            cache.cached("key:{number}", 60)(function)
    for key in ("{missing}", "{missing.id}", "{1}", "{number}:{missing}"):
        with pytest.raises(pinyon.UsageError, match=r"no argument of a_function fills '(missing|1)' in"):
            client.cached(key, 60)(a_function)
    with pytest.raises(pinyon.UsageError, match=r"names no key: .*; a brace itself is written twice"):
        client.cached("{number", 60)
    with pytest.raises(
        pinyon.UsageError, match=r'cached needs a key, as in @cache\.cached\("product:\{id\}", ttl=60\)'
    ):
        client.cached(a_function, 60)  # type: ignore[arg-type]
    with pytest.raises(pinyon.UsageError, match="as_ takes a dataclass, a model of pydantic, a struct of msgspec"):
        client.cached("key", 60, as_=Odd)(a_function)


cache_of_module = pinyon.Client("127.0.0.1:1")


@cache_of_module.cached("{id}", ttl=60)
def of_module(id: int) -> int:
    return id


def test_a_cached_function_is_copied_and_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(of_module)) is of_module
    assert copy.deepcopy(of_module) is of_module


def test_a_cached_coroutine_function_passes_for_one() -> None:
    @pinyon.aio.Client("127.0.0.1:1").cached("{id}", ttl=60)
    async def function(id: int) -> int:
        return id

    assert asyncio.iscoroutinefunction(function)


@pytest.mark.parametrize("client", [pinyon.Client("127.0.0.1:1"), pinyon.aio.Client("127.0.0.1:1")])
def test_settings_are_checked_when_the_decorator_runs(client: Any) -> None:
    with pytest.raises(TypeError, match='no setting "stail"'):
        client.cached("key", ttl=60, stail=5)
    for settings, says in (({"ttl": -1}, "ttl must be positive"), ({"ttl": 60, "on_error": "stale"}, "needs stale")):
        with pytest.raises(pinyon.UsageError, match=says):
            client.cached("key", **settings)
