"""What a lock wants: names to write and to read, and permits."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Callable, TypedDict, TypeVar, Union

from pinyon._redis_py import unknown_argument
from pinyon._shown import showing
from pinyon.errors import UsageError

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Literal

_Method = TypeVar("_Method", bound=Callable[..., Any])

#: One name, or several.
Names = Union[str, bytes, Iterable[Union[str, bytes]]]
#: For each pool how many permits, or also the pool's limit.
PermitsOf = Mapping[Union[str, bytes], Union[int, "tuple[int, int]"]]


class RareTerms(TypedDict, total=False):
    """Arguments of ``Locks.read`` and ``permits`` that few calls have; ``lock`` says what they mean.

    Python looks for each of the others at every call.
    """

    renew: bool
    max_hold: float | timedelta | None
    reentrant: bool | None
    on_lost: Callable[[Any], object] | None
    on_failure: Literal["raise", "proceed"]
    note: str | None


class RareLockTerms(RareTerms, total=False):
    """Those of ``Locks.lock``."""

    write: Names
    read: Names
    permits: PermitsOf | None
    at_least: float | timedelta | None


class WriteTerms(RareTerms, total=False):
    """The arguments of ``Locks.write`` beside its names."""

    ttl: float | timedelta | None
    timeout: float | timedelta | None


_USUAL: dict[str, Any] = {
    "renew": True,
    "max_hold": None,
    "reentrant": None,
    "on_lost": None,
    "on_failure": "raise",
    "note": None,
}
_USUAL_LOCK: dict[str, Any] = {"write": (), "read": (), "permits": None, "at_least": None, **_USUAL}


def shows(terms: type[RareTerms]) -> Callable[[_Method], _Method]:
    """Show these rare arguments in ``help`` and signatures, in place of ``rare``."""
    shown = []
    for name, kind in terms.__annotations__.items():
        text = getattr(kind, "__forward_arg__", kind)
        shown.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_USUAL_LOCK[name], annotation=text)
        )
    return lambda method: showing(method, shown, "rare")


def usual(method: str, rare: RareTerms) -> tuple[Any, ...]:
    """Return the arguments of a native lock that few calls have. Those that were not given have their defaults."""
    unknown = rare.keys() - _USUAL.keys()
    if unknown:
        raise unknown_argument(method, unknown)
    return tuple({**_USUAL, **rare}.values())


def wanted(
    method: str,
    names: tuple[str | bytes, ...],
    ttl: float | timedelta | None,
    timeout: float | timedelta | None,
    rare: RareLockTerms,
) -> tuple[Any, ...]:
    """Return the arguments of a native lock after the client."""
    unknown = rare.keys() - _USUAL_LOCK.keys()
    if unknown:
        raise unknown_argument(method, unknown)
    write, read, permits, at_least, *others = {**_USUAL_LOCK, **rare}.values()
    if not (write or read or permits):
        return (names, ttl, timeout, None, None, *others, at_least)
    pools = tuple(part for name, wanted in _items(permits) for part in _pool(name, wanted))
    return (names + _each(write), ttl, timeout, _each(read), pools, *others, at_least)


def _each(names: Names) -> tuple[str | bytes, ...]:
    return (names,) if isinstance(names, (str, bytes)) else tuple(names)


def _items(permits: PermitsOf | None) -> Iterable[tuple[str | bytes, int | tuple[int, int]]]:
    if permits is None:
        return ()
    if not isinstance(permits, Mapping):
        raise UsageError(f'permits must say how many of which pool, as in permits={{"stripe": 2}}, not {permits!r}')
    return permits.items()


def _pool(name: str | bytes, wanted: int | tuple[int, int]) -> tuple[str | bytes, int, Any]:
    """Return a pool as a native lock takes it. In place of a limit that is not given there is an ellipsis."""
    if isinstance(wanted, (tuple, list)):
        if len(wanted) != 2:
            raise UsageError(f"permits[{name!r}] must be how many, or (how many, limit), not {wanted!r}")
        return name, _whole(f"permits[{name!r}]", wanted[0]), _whole(f"the limit of permits[{name!r}]", wanted[1])
    return name, _whole(f"permits[{name!r}]", wanted), ...


def _whole(what: str, number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**32:
        raise UsageError(f"{what} must be a whole number of at least 1, not {number!r}")
    return number
