"""Decorators: which functions they accept, and the texts that the arguments of a call fill."""

from __future__ import annotations

import inspect
import re
import string
from typing import Any, Callable, NamedTuple

from pinyon.errors import UsageError


class Use(NamedTuple):
    """What a decorator does, in the words of its errors.

    Attributes:
        function: what a function does that the decorator accepts, and how to use the decorator.
        generator: what to do instead of decorating a generator.
        owner: whose method the decorator is.
        template: what a template becomes.
        needs: what the decorator needs, if it was given no templates.
    """

    function: str
    generator: str
    owner: str
    template: str
    needs: str


LOCKED = Use(
    function="could run while names are locked: name them, as in @locks.lock(…)",
    generator="lock inside of it",
    owner="locks",
    template="lock",
    needs='synchronized needs names, as in @locks.synchronized("report:{user_id}")',
)
CACHED = Use(
    function="could make a value",
    generator="cache a function that returns all of it, such as a list",
    owner="a client",
    template="key",
    needs='cached needs a key, as in @cache.cached("product:{id}", ttl=60)',
)


def check_runs_inside(function: Callable[..., Any], use: Use, *, awaited: bool) -> None:
    """Refuse what is not a function, or a function whose body would run after the call."""
    name = getattr(function, "__qualname__", repr(function))
    if not callable(function):
        raise UsageError(f"{name} is no function that {use.function}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{name} is a generator, whose body runs later: {use.generator}")
    if inspect.iscoroutinefunction(function) is awaited:
        return
    kind, module = ("a coroutine function", "pinyon.aio") if not awaited else ("no coroutine function", "pinyon")
    raise UsageError(f"{name} is {kind}: decorate it with {use.owner} of {module}")


def check_templates(templates: tuple[str, ...], use: Use) -> None:
    """Refuse templates that are not well formed."""
    if not templates or not all(isinstance(template, str) for template in templates):
        raise UsageError(use.needs)
    for template in templates:
        try:
            list(string.Formatter().parse(template))
        except ValueError as error:
            raise UsageError(
                f"{template!r} names no {use.template}: {error}; a brace itself is written twice"
            ) from None


def filled(templates: tuple[str, ...], function: Callable[..., Any]) -> Callable[[Any, Any], list[str]]:
    """Return a function that makes texts from a call's arguments. Raises ``UsageError`` if an argument is missing."""
    signature = inspect.signature(function)
    for wanted in _arguments_of(templates):
        if not _has(signature, wanted):
            raise _unfilled(templates, function, repr(wanted))

    def texts_of(arguments: Any, keywords: Any) -> list[str]:
        bound = signature.bind(*arguments, **keywords)
        bound.apply_defaults()
        by_name = {**bound.kwargs, **bound.arguments}
        try:
            return [template.format(*bound.args, **by_name) for template in templates]
        except (KeyError, IndexError) as error:
            raise _unfilled(templates, function, str(error)) from error

    return texts_of


def _has(signature: inspect.Signature, wanted: str) -> bool:
    """Return whether a call may have this argument: a name, or the position of one."""
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if not wanted.isdecimal():
        return wanted in signature.parameters or inspect.Parameter.VAR_KEYWORD in kinds
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return int(wanted) < sum(map(kinds.count, by_position)) or inspect.Parameter.VAR_POSITIONAL in kinds


def _arguments_of(templates: tuple[str, ...]) -> set[str]:
    """Return the arguments that the templates use, such as ``self`` in ``{self.id}``."""
    fields = [field or "" for template in templates for _, field, _, _ in string.Formatter().parse(template)]
    return {re.split(r"[.\[]", field)[0] for field in fields} - {""}


def _unfilled(templates: tuple[str, ...], function: Callable[..., Any], wanted: str) -> UsageError:
    return UsageError(f"no argument of {function.__qualname__} fills {wanted} in {', '.join(templates)}")
