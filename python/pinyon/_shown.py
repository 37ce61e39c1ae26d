"""What ``help`` and signatures show of a method that takes rare arguments together."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

_Method = TypeVar("_Method", bound=Callable[..., Any])


def showing(method: _Method, shown: Iterable[inspect.Parameter], instead_of: str) -> _Method:
    """Show these arguments in ``help`` and signatures, instead of the one that takes them."""
    signature = inspect.signature(method)
    others = [parameter for name, parameter in signature.parameters.items() if name != instead_of]
    method.__signature__ = signature.replace(parameters=[*others, *shown])  # type: ignore[attr-defined]
    return method
