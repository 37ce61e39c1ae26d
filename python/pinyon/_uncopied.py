"""Objects that belong to one process, because their connections do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pinyon.errors import Unpicklable

if TYPE_CHECKING:
    from typing import NoReturn

    from typing_extensions import SupportsIndex


class Uncopied:
    """The base of classes whose objects cannot be copied or pickled: both call ``__reduce_ex__``."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise Unpicklable(
            f"a {public_name(type(self))} cannot be copied or pickled: share it within its process, and make another "
            "one in each other process"
        )


def public_name(kind: type[object]) -> str:
    """Return the name of a class as its users write it."""
    module = kind.__module__
    if module.startswith("pinyon.") and module not in ("pinyon.aio", "pinyon.gevent"):
        module = "pinyon"
    return f"{module}.{kind.__qualname__}"
