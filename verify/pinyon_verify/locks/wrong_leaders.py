"""Leaders that are broken on purpose, in a client process of Python's with threads or greenlets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pinyon._leader import DONE, BaseLeader, Leader


def _believe_on() -> None:
    """A leader that does not notice that its lock was lost."""
    _replace(BaseLeader, "token", property(lambda self: self._candidate._token))
    _replace(BaseLeader, "_still_leads", lambda self: DONE)


def _release_first() -> None:
    """A leader that releases its lock before it is told that it leads no more."""
    _at_loss(lambda self, token: self._release() and None)


def _lose_untold() -> None:
    """A leader that is not always told that it leads no more."""
    _at_loss(lambda self, token: DONE if token % 2 else None)


def _at_loss(instead: Callable[[Any, int], Any]) -> None:
    take = Leader._take

    def wrong(self: Any, step: str, about: Any) -> Any:
        return (instead(self, about) if step == "lost" else None) or take(self, step, about)

    _replace(Leader, "_take", wrong)


def _replace(kind: type, name: str, wrong: object) -> None:
    setattr(kind, name, wrong)


#: What `Settings.wrong` names.
WRONG: dict[str, Callable[[], None]] = {
    "believes-on": _believe_on,
    "releases-first": _release_first,
    "loses-untold": _lose_untold,
}
