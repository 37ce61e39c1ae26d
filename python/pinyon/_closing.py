"""Clients as context managers that close them at the end of the block, and what is said to the wrong kind of block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pinyon._uncopied import public_name
from pinyon.errors import UnsupportedType

if TYPE_CHECKING:
    from types import TracebackType
    from typing import NoReturn

    from typing_extensions import Self


class WrongBlock(UnsupportedType, AttributeError):
    """``with`` for an object of ``async with``, or the reverse. For ``hasattr`` there is no such method."""


class NoMethod:
    """A method of context managers that a class does not have, and why. ``with`` looks methods up in the class.

    Args:
        why: follows the name of the class.
    """

    def __init__(self, why: str) -> None:
        self._why = why

    def __get__(self, instance: object, kind: type[object]) -> NoReturn:
        raise WrongBlock(f"{public_name(kind)} {self._why}")


#: The methods of the other kind of block. Which of the two Python looks up first depends on its version.
FOR_THREADS = NoMethod(
    "blocks its thread: use it by `with`, not `async with`; coroutines use the classes of pinyon.aio"
)
FOR_COROUTINES = NoMethod("is for coroutines: use it by `async with`, not `with`; threads use the classes of pinyon")


def not_yet(method: str) -> NoReturn:
    """Refuse a block of what a method returns, which is to be awaited first."""
    raise WrongBlock(f"{method}() must be awaited before its block: write `async with await client.{method}(…)`")


class Closing:
    """The base of classes that a ``with`` block closes."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = FOR_THREADS

    if TYPE_CHECKING:

        def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class ClosingAwaited:
    """The base of classes that an ``async with`` block closes."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __enter__ = __exit__ = FOR_COROUTINES

    if TYPE_CHECKING:

        def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
