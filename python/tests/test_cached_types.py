"""What ``as_`` of a cached function stores of objects, and reads back."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Optional, Union

import msgspec
import pydantic
import pytest
from servers import Memcached

import pinyon
from pinyon._plain import plain

AT = datetime.datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=datetime.timezone.utc)


class Color(enum.Enum):
    """A choice."""

    RED = "red"


@dataclasses.dataclass
class Price:
    """A part of others."""

    amount: decimal.Decimal
    currency: str = "EUR"


@dataclasses.dataclass(frozen=True)
class Product:
    """Has a field of each kind."""

    id: int
    at: datetime.datetime
    price: Price
    color: Color
    key: uuid.UUID
    kind: Literal["new", "used"]
    weight: float
    data: bytes
    day: datetime.date
    hour: datetime.time
    length: datetime.timedelta
    tags: frozenset[str]
    prices: dict[str, Price]
    sizes: dict[int, list[int]]
    place: tuple[float, str]
    others: tuple[int, ...]
    anything: Any
    noted: Annotated[int, "noted"]
    number_or_text: int | str
    sequence: Sequence[Price]
    mapping: Mapping[str, int]
    parent: Product | None = None
    made_of_others: str = dataclasses.field(init=False, default="")


PRODUCT = Product(
    7, AT, Price(decimal.Decimal("1.50")), Color.RED, uuid.UUID(int=5), "used", 5, b"\0\xff", AT.date(), AT.time(),
    datetime.timedelta(days=1, microseconds=5), frozenset(["a"]), {"a": Price(decimal.Decimal(2), "USD")}, {5: [1, 2]},
    (1.5, "x"), (1, 2, 3), {"any": [None]}, 5, "text", [Price(decimal.Decimal(3))], {"a": 1},
)  # fmt: skip


class Model(pydantic.BaseModel):
    """A model with a name of its own for a field."""

    id: int
    at: datetime.datetime
    of_class: str = pydantic.Field(alias="class")


class Strict(pydantic.BaseModel):
    """A model that takes no text for a time by itself."""

    model_config = pydantic.ConfigDict(strict=True)
    at: datetime.datetime


class Struct(msgspec.Struct):
    """A struct of msgspec."""

    id: int
    at: datetime.datetime
    sizes: dict[int, str]


@dataclasses.dataclass
class Mixed:
    """A dataclass with fields of both."""

    model: Model
    structs: list[Struct]


MODEL = Model(**{"id": 5, "at": AT, "class": "x"})
STRUCT = Struct(5, AT, {1: "one"})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Product, dataclasses.replace(PRODUCT, parent=PRODUCT)),
        (Model, MODEL),
        (Strict, Strict(at=AT)),
        (Struct, STRUCT),
        (Mixed, Mixed(MODEL, [STRUCT])),
        (list[Model], [MODEL, MODEL]),
        (dict[str, Struct], {"a": STRUCT}),
        (Optional[Product], PRODUCT),
        (set[int], {1, 2}),
        (list, [1, "two"]),
        (dict, {"a": [1]}),
        (tuple, (1, "a")),
        (datetime.date, AT.date()),
    ],
    ids=str,
)
def test_what_is_stored_is_plain_and_is_read_back_as_it_was(kind: Any, value: Any, server: Memcached) -> None:
    with pinyon.Client(server.address) as cache, pinyon.Client(server.address, serializer="json") as of_json:

        @cache.cached("value", ttl=60, as_=kind)
        def make() -> Any:
            return value

        for result in (make(), make(), make.peek()):
            assert result == value
            assert type(result) is type(value)
        stored = cache.get("value")
        assert json.loads(json.dumps(stored)) == stored, "plain data"
        of_json.set("value", stored)
        assert of_json.cached("value", ttl=60, as_=kind)(lambda: None)() == value


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Product, {"unknown": 5}),
        (Product, [1]),
        (Price, {"amount": 5}),
        (Model, {"id": "x"}),
        (Struct, {"id": "x"}),
        (list[int], ["1"]),
        (list[int], {"1": 1}),
        (int, True),
        (set[Price], {"a": 1}),
        (tuple[int, int], [1]),
        (Literal["a"], "b"),
    ],
)
def test_what_does_not_fit_the_type_is_made_anew(kind: Any, data: Any, server: Memcached) -> None:
    """A class has changed, and the cache still has what was stored before."""
    with pinyon.Client(server.address) as cache:
        with pytest.raises(Exception):  # noqa: B017, PT011
            plain(kind).load(data)
        cache.set("value", data)
        calls: list[int] = []
        make = cache.cached("value", ttl=60, as_=kind)(lambda: calls.append(1))
        with pytest.raises(Exception):  # noqa: B017, PT011
            make.peek()
        assert [make(), make(), len(calls), cache.get("value", "missing")] == [None, None, 1, None]


def test_types_without_plain_data_are_refused_with_the_field() -> None:
    @dataclasses.dataclass
    class WithFunction:
        run: object
        inner: list[Exception]

    client = pinyon.Client("127.0.0.1:1")
    for kind, says in (
        (WithFunction, r"not Exception in the field .*WithFunction\.inner$"),
        (Exception, "as_ takes a dataclass.* not Exception$"),
        (Union[int, Price], r"not .*Union"),
        (dict[Price, int], "as_ takes a dataclass"),
    ):
        with pytest.raises(pinyon.UsageError, match=says):
            client.cached("key", ttl=60, as_=kind)(len)


def test_another_type_than_as_says_is_refused_when_it_is_stored(server: Memcached) -> None:
    with pinyon.Client(server.address) as cache:
        make = cache.cached("value", ttl=60, as_=Price)(lambda: PRODUCT)
        with pytest.raises(pinyon.UsageError, match="as_ says Price, and the value is a Product"):
            make()
        assert cache.get("value") is None


def test_a_class_that_is_defined_later() -> None:
    of_later = plain(Earlier)
    assert of_later.load(of_later.dump(Earlier(Later(5)))) == Earlier(Later(5))


@dataclasses.dataclass
class Earlier:
    """Has a field of a later class."""

    later: Later


@dataclasses.dataclass
class Later:
    """Defined later."""

    id: int


def test_none_is_a_value_of_every_type(server: Memcached) -> None:
    with pinyon.Client(server.address) as cache:
        for kind in (Product, Model, Struct, list[int]):
            calls: list[int] = []
            nothing = cache.cached(str(kind).replace(" ", ""), ttl=60, as_=kind)(lambda calls=calls: calls.append(1))
            assert [nothing(), nothing(), nothing.peek(), len(calls)] == [None, None, None, 1]
