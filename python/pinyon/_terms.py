"""The settings of one call of ``get_or_set``. ``make signatures`` writes them: they are the core's."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta
    from typing import Literal

__all__ = ["Terms"]


class Terms(TypedDict, total=False):
    """How ``get_or_set`` makes and keeps a value.

    Attributes:
        stale: The time after `ttl` in which callers still get the old value while one of them makes a new one, in
            seconds. Default: 0.
        early: How long before the end of `ttl` one caller makes a new value, in seconds. All others still get the old
            one. Default: 0.
        lease: How long one caller may take to make a missing value, in seconds, rounded up to whole ones. Then another
            caller tries. A value that is made later is returned, but not stored. Default: 10.
        wait: How long to wait for a value that another caller makes, in seconds. By default, twice `lease` and 2
            seconds more, which is enough for the next caller if the first one dies.
        jitter: The share of `ttl` that may be taken off at random, less than 1. With `0.1`, values that were stored
            together do not expire together. Default: 0.
        on_error: What a caller gets if the value cannot be made while an old one exists: the error (`"raise"`), or the
            old value (`"stale"`). Default: "raise".
        retry_after: How long the old value is then used before the next caller tries again, in seconds. Default: 5.
        tags: The tags of the value, such as `"user:7"`, by which `invalidate_tags` finds it: a list, or one alone.
        soft_timeout: How long a caller waits for the value that it makes while an old one exists, in seconds. Then it
            gets the old value, and the value is made behind it. By default, it waits until the value is made.
        refresh: Whether the caller that makes a new value while an old one exists waits for it (`"wait"`), or gets the
            old one at once (`"behind"`), like a `soft_timeout` of 0. Default: "wait".
    """

    stale: float | timedelta
    early: float | timedelta
    lease: float | timedelta
    wait: float | timedelta | None
    jitter: float
    on_error: Literal["raise", "stale"]
    retry_after: float | timedelta
    tags: str | bytes | Iterable[str | bytes]
    soft_timeout: float | timedelta | None
    refresh: Literal["wait", "behind"]
