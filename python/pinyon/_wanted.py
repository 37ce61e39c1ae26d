"""What a lock wants: names to write and to read, and permits."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Callable, TypedDict, TypeVar, Union

from pinyon._redis_py import unknown_argument
from pinyon.errors import UsageError

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Literal

_Method = TypeVar("_Method", bound=Callable[..., Any])

#: One name, or several.
Names = Union[str, bytes, Iterable[Union[str, bytes]]]
#: For each pool how many permits, or also the pool's limit.
PermitsOf = Mapping[Union[str, bytes], Union[int, "tuple[int, int]"]]


class LockTerms(TypedDict, total=False):
    """The arguments of ``Locks.write`` beside its names, which ``Locks.lock`` says the meaning of."""

    ttl: float | timedelta | None
    timeout: float | timedelta | None
    renew: bool
    max_hold: float | timedelta | None
    reentrant: bool | None
    on_lost: Callable[[Any], object] | None
    on_failure: Literal["raise", "proceed"]
    note: str | None


class RareTerms(TypedDict, total=False):
    """Arguments of ``Locks.lock`` that few calls have: Python looks for each of the others at every call."""

    write: Names
    read: Names
    permits: PermitsOf | None
    at_least: float | timedelta | None
    on_failure: Literal["raise", "proceed"]
    note: str | None


_RARE: dict[str, Any] = {
    "write": (),
    "read": (),
    "permits": None,
    "at_least": None,
    "on_failure": "raise",
    "note": None,
}


def shows_rare(method: _Method) -> _Method:
    """Show the arguments of ``RareTerms`` in ``help`` and signatures, in place of ``rare``."""
    signature = inspect.signature(method)
    shown = [parameter for name, parameter in signature.parameters.items() if name != "rare"]
    for name, default in _RARE.items():
        kind = RareTerms.__annotations__[name]
        shown.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    method.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return method


def wanted(method: str, names: tuple[str | bytes, ...], rare: RareTerms, *terms: Any) -> tuple[Any, ...]:
    """Return the arguments of a native lock after the client: the names, the terms, and what is shared, if anything."""
    unknown = rare.keys() - _RARE.keys()
    if unknown:
        raise unknown_argument(method, unknown)
    write, read, permits, at_least, *others = {**_RARE, **rare}.values()
    if not (write or read or permits):
        return (names, *terms, None, None, *others, at_least)
    pools = tuple(_pool(name, wanted) for name, wanted in _items(permits))
    return (names + _each(write), *terms, _each(read), pools, *others, at_least)


def check_permits(count: int, limit: int) -> None:
    """Check the types of a number of permits and of their limit. The core checks how many they are."""
    _whole("n", count)
    _whole("limit", limit)


def _each(names: Names) -> tuple[str | bytes, ...]:
    return (names,) if isinstance(names, (str, bytes)) else tuple(names)


def _items(permits: PermitsOf | None) -> Iterable[tuple[str | bytes, int | tuple[int, int]]]:
    if permits is None:
        return ()
    if not isinstance(permits, Mapping):
        raise UsageError(f'permits must say how many of which pool, as in permits={{"stripe": 2}}, not {permits!r}')
    return permits.items()


def _pool(name: str | bytes, wanted: int | tuple[int, int]) -> tuple[str | bytes, int, int | None]:
    if isinstance(wanted, (tuple, list)):
        if len(wanted) != 2:
            raise UsageError(f"permits[{name!r}] must be how many, or (how many, limit), not {wanted!r}")
        return name, _whole(f"permits[{name!r}]", wanted[0]), _whole(f"the limit of permits[{name!r}]", wanted[1])
    return name, _whole(f"permits[{name!r}]", wanted), None


def _whole(what: str, number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**32:
        raise UsageError(f"{what} must be a whole number of at least 1, not {number!r}")
    return number
