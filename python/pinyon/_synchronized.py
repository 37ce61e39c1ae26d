"""Decorators that lock: which functions they accept, and the names that a call locks."""

from __future__ import annotations

import inspect
import re
import string
from typing import Any, Callable

from pinyon.errors import UsageError


def check_runs_inside(function: Callable[..., Any], *, awaited: bool) -> None:
    """Refuse what is not a function, or a function whose body would run after the lock was released."""
    name = getattr(function, "__qualname__", repr(function))
    if not callable(function):
        raise UsageError(
            f"{name} is no function that could run while names are locked: name them, as in @locks.lock(…)"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{name} is a generator, whose body runs later: lock inside of it")
    if inspect.iscoroutinefunction(function) is awaited:
        return
    kind, module = ("a coroutine function", "pinyon.aio") if not awaited else ("no coroutine function", "pinyon")
    raise UsageError(f"{name} is {kind}: decorate it with locks of {module}")


def check_templates(templates: tuple[str, ...]) -> None:
    """Refuse templates that cannot become names."""
    if not templates or not all(isinstance(template, str) for template in templates):
        raise UsageError('synchronized needs names, as in @locks.synchronized("report:{user_id}")')
    for template in templates:
        try:
            list(string.Formatter().parse(template))
        except ValueError as error:
            raise UsageError(f"{template!r} names no lock: {error}; a brace itself is written twice") from None


def filled(templates: tuple[str, ...], function: Callable[..., Any]) -> Callable[[Any, Any], list[str]]:
    """Return a function that makes names from a call's arguments. Raises ``UsageError`` if an argument is missing."""
    signature = inspect.signature(function)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for wanted in _arguments_of(templates):
            if not wanted.isdecimal() and wanted not in signature.parameters:
                raise _unfilled(templates, function, repr(wanted))

    def names_of(arguments: Any, keywords: Any) -> list[str]:
        bound = signature.bind(*arguments, **keywords)
        bound.apply_defaults()
        by_name = {**bound.kwargs, **bound.arguments}
        try:
            return [template.format(*bound.args, **by_name) for template in templates]
        except (KeyError, IndexError) as error:
            raise _unfilled(templates, function, str(error)) from error

    return names_of


def _arguments_of(templates: tuple[str, ...]) -> set[str]:
    """Return the arguments that the templates use, such as ``self`` in ``{self.id}``."""
    fields = [field or "" for template in templates for _, field, _, _ in string.Formatter().parse(template)]
    return {re.split(r"[.\[]", field)[0] for field in fields} - {""}


def _unfilled(templates: tuple[str, ...], function: Callable[..., Any], wanted: str) -> UsageError:
    return UsageError(f"no argument of {function.__qualname__} fills {wanted} in {', '.join(templates)}")
