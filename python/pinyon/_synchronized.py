"""What a function that runs while names are locked must be, and the names that a call of it needs."""

from __future__ import annotations

import inspect
import string
from typing import Any, Callable

from pinyon.errors import UsageError


def check_runs_inside(function: Callable[..., Any], *, awaited: bool) -> None:
    """Refuse a function whose body would run after the lock has been given back."""
    name = getattr(function, "__qualname__", repr(function))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{name} is a generator, whose body runs later: lock inside of it")
    if inspect.iscoroutinefunction(function) is awaited:
        return
    kind, module = ("a coroutine function", "pinyon.aio") if not awaited else ("no coroutine function", "pinyon")
    raise UsageError(f"{name} is {kind}: decorate it with locks of {module}")


def filled(templates: tuple[str, ...], function: Callable[..., Any]) -> Callable[[Any, Any], list[str]]:
    """Return what makes names of a call's arguments."""
    if not templates or not all(isinstance(template, str) for template in templates):
        raise UsageError('synchronized needs names, as in @locks.synchronized("report:{user_id}")')
    for template in templates:
        try:
            list(string.Formatter().parse(template))
        except ValueError as error:
            raise UsageError(f"{template!r} names no lock: {error}; a brace itself is written twice") from None
    signature = inspect.signature(function)

    def names_of(arguments: Any, keywords: Any) -> list[str]:
        bound = signature.bind(*arguments, **keywords)
        bound.apply_defaults()
        by_name = {**bound.kwargs, **bound.arguments}
        try:
            return [template.format(*bound.args, **by_name) for template in templates]
        except (KeyError, IndexError) as error:
            names = ", ".join(templates)
            raise UsageError(f"no argument of {function.__qualname__} fills {error} in {names}") from error

    return names_of
