"""Objects as plain data, as JSON has it, and back: what ``as_`` of a cached function says of its values.

Plain data is text, numbers, booleans, None, lists, and dicts with text as keys. Every language reads it, and it does
not depend on where a class is defined, as a pickle does. Annotations say how a dataclass and its fields become plain.
pydantic and msgspec say it of their own classes, and are imported by the program that defines those.
"""

from __future__ import annotations

import base64
import collections.abc
import contextlib
import dataclasses
import datetime
import decimal
import enum
import sys
import types
import typing
import uuid
from typing import Any, Callable, NamedTuple, Union

from pinyon.errors import UsageError


class Plain(NamedTuple):
    """How the values of a type become plain data, and how plain data becomes such a value."""

    dump: Callable[[Any], Any]
    #: Raises an ``Exception`` for data that is no such value.
    load: Callable[[Any], Any]


def plain(kind: Any) -> Plain:
    """Return how values of a type become plain data.

    Args:
        kind: a dataclass, a class of pydantic or msgspec, a type of plain data, one of the standard library's in
            ``_SCALARS``, an ``Enum``, or a list, tuple, set, dict or optional value of such; or an object with ``dump``
            and ``load``.

    Raises:
        UsageError: it is something else, or has a field of something else.
    """
    return _Types().of(kind, "")


def _same(value: Any) -> Any:
    return value


def _checked(*kinds: type[Any]) -> Plain:
    """Return how values that are plain already are read: a value of another type is refused."""

    def load(data: Any) -> Any:
        if not isinstance(data, kinds) or (isinstance(data, bool) and bool not in kinds):
            raise TypeError(f"expected {kinds[0].__name__}, found {type(data).__name__}")
        return data

    return Plain(_same, load)


def _float(data: Any) -> float:
    return float(_checked(float, int).load(data))


#: Types that are plain, and types of the standard library, by what JSON has for them.
_SCALARS: dict[Any, Plain] = {
    Any: Plain(_same, _same),
    object: Plain(_same, _same),
    type(None): _checked(type(None)),
    str: _checked(str),
    bool: _checked(bool),
    int: _checked(int),
    float: Plain(_same, _float),
    bytes: Plain(
        lambda value: base64.b64encode(value).decode("ascii"), lambda data: base64.b64decode(data, validate=True)
    ),
    datetime.datetime: Plain(datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    datetime.date: Plain(datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.time: Plain(datetime.time.isoformat, datetime.time.fromisoformat),
    datetime.timedelta: Plain(datetime.timedelta.total_seconds, lambda data: datetime.timedelta(seconds=_float(data))),
    decimal.Decimal: Plain(str, lambda data: decimal.Decimal(_SCALARS[str].load(data))),
    uuid.UUID: Plain(str, uuid.UUID),
}


def _of_pydantic(kind: type[Any], pydantic: Any) -> Plain | None:
    """Return what pydantic (2 or later) says of its models and dataclasses."""
    if not hasattr(kind, "__pydantic_validator__"):
        return None
    adapter = pydantic.TypeAdapter(kind)

    def dump(value: Any) -> Any:
        return adapter.dump_python(value, mode="json", by_alias=True, round_trip=True)

    return Plain(dump, lambda data: adapter.validate_python(data, strict=False))


def _of_msgspec(kind: type[Any], msgspec: Any) -> Plain | None:
    if not issubclass(kind, msgspec.Struct):
        return None
    return Plain(
        lambda value: msgspec.to_builtins(value, str_keys=True),
        lambda data: msgspec.convert(data, kind, str_keys=True),
    )


#: What containers become lists, and what they are made by.
_LISTS: dict[Any, Callable[[Any], Any]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: list,
    collections.abc.Set: frozenset,
}
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_CONTAINERS = (*_LISTS, *_DICTS, tuple)
#: What keys of dicts become text by.
_KEYS: dict[Any, Plain] = {
    **{kind: _SCALARS[kind] for kind in (Any, str, uuid.UUID, datetime.date)},
    int: Plain(str, int),
}
_UNIONS: tuple[Any, ...] = (Union, getattr(types, "UnionType", Union))


class _Types:
    """What is known of types so far: a dataclass may have fields of its own type."""

    def __init__(self) -> None:
        self._dataclasses: dict[type[Any], Plain] = {}

    def of(self, kind: Any, field: str) -> Plain:
        """Return how values of a type become plain data. ``field``: whose type it is."""
        is_class = isinstance(kind, type) and typing.get_origin(kind) is None and kind not in _CONTAINERS
        made = self._of_class(kind) if is_class else self._of_arguments(kind, field)
        if made is None and callable(getattr(kind, "dump", None)) and callable(getattr(kind, "load", None)):
            made = Plain(kind.dump, kind.load)
        if made is None:
            of_field = f" in the field {field}" if field else ""
            raise UsageError(
                "as_ takes a dataclass, a model of pydantic, a struct of msgspec, what has dump and load, or lists, "
                f"dicts and simple values of such, not {_name(kind)}{of_field}"
            )
        return made

    def _of_class(self, kind: type[Any]) -> Plain | None:
        if kind in _SCALARS:
            return _SCALARS[kind]
        if issubclass(kind, enum.Enum):
            return Plain(lambda value: value.value, kind)
        for library, of_library in (("pydantic", _of_pydantic), ("msgspec", _of_msgspec)):
            made = of_library(kind, sys.modules[library]) if library in sys.modules else None
            if made is not None:
                return made
        return self._of_dataclass(kind) if dataclasses.is_dataclass(kind) else None

    def _of_dataclass(self, kind: type[Any]) -> Plain:
        """Return how a dataclass becomes a dict of its fields, those without ``init`` left out."""
        if kind in self._dataclasses:
            return self._dataclasses[kind]
        plains: dict[str, Plain] = {}

        def fields() -> dict[str, Plain]:
            if not plains:
                hints = typing.get_type_hints(kind, include_extras=True)
                of_init = [field.name for field in dataclasses.fields(kind) if field.init]
                plains.update({name: self.of(hints[name], f"{kind.__qualname__}.{name}") for name in of_init})
            return plains

        def dump(value: Any) -> dict[str, Any]:
            if type(value) is not kind:
                raise UsageError(f"as_ says {_name(kind)}, and the value is a {_name(type(value))}")
            return {name: of_field.dump(getattr(value, name)) for name, of_field in fields().items()}

        def load(data: Any) -> Any:
            return kind(**{name: fields()[name].load(each) for name, each in data.items()})

        made = self._dataclasses[kind] = Plain(dump, load)
        with contextlib.suppress(NameError):  # a class that is defined later is looked up at the first call
            fields()
        return made

    def _of_arguments(self, kind: Any, field: str) -> Plain | None:
        """Return how values of a type with arguments, such as ``list[int]``, become plain data."""
        origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
        if origin in _UNIONS:
            return self._of_union(arguments, field)
        if origin is typing.Literal:
            return Plain(_same, lambda data: arguments[arguments.index(data)])
        if hasattr(kind, "__metadata__"):
            return self.of(arguments[0], field)
        if origin in _LISTS:
            return _of_list(_LISTS[origin], self.of(arguments[0] if arguments else Any, field))
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            return _of_tuple([self.of(argument, field) for argument in arguments])
        if origin is tuple:
            return _of_list(tuple, self.of(arguments[0] if arguments else Any, field))
        if origin in _DICTS:
            key, value = arguments or (str, Any)
            return _of_dict(key, self.of(value, field))
        return _SCALARS.get(kind)

    def _of_union(self, arguments: tuple[Any, ...], field: str) -> Plain | None:
        """Return how optional values become plain data. Of other unions, plain data does not say which type it is."""
        others = [argument for argument in arguments if argument is not type(None)]
        if len(others) > 1:
            return Plain(_same, _same) if all(each in (str, int, float, bool) for each in others) else None
        inner = self.of(others[0], field)
        return Plain(
            lambda value: None if value is None else inner.dump(value),
            lambda data: None if data is None else inner.load(data),
        )


def _of_list(make: Callable[[Any], Any], inner: Plain) -> Plain:
    def load(data: Any) -> Any:
        return make([inner.load(each) for each in _items(data)])

    return Plain(lambda value: [inner.dump(each) for each in value], load)


def _of_tuple(inner: list[Plain]) -> Plain:
    def load(data: Any) -> Any:
        if len(_items(data)) != len(inner):
            raise ValueError(f"expected {len(inner)} items, found {len(data)}")
        return tuple(of_item.load(each) for of_item, each in zip(inner, data))

    return Plain(lambda value: [of_item.dump(each) for of_item, each in zip(inner, value)], load)


def _of_dict(key: Any, inner: Plain) -> Plain | None:
    of_key = _KEYS.get(key)
    if of_key is None:
        return None
    dump_key, load_key = of_key

    def load(data: Any) -> Any:
        return {load_key(name): inner.load(each) for name, each in data.items()}

    return Plain(lambda value: {dump_key(name): inner.dump(each) for name, each in value.items()}, load)


def _items(data: Any) -> Any:
    if not isinstance(data, (list, tuple)):
        raise TypeError(f"expected a list, found {type(data).__name__}")
    return data


def _name(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or str(kind)
