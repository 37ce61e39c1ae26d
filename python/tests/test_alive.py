"""What is known as long as it exists, while threads add to it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from pinyon._alive import Alive


class Thing:
    """Anything that can be referred to weakly."""


def test_what_is_gone_or_forgotten_is_not_listed() -> None:
    alive, kept, forgotten, gone = Alive[Thing](), Thing(), Thing(), Thing()
    for one in (kept, kept, forgotten, gone):
        alive.add(one)
    alive.discard(forgotten)
    alive.discard(forgotten)
    del gone, one
    assert alive.all() == [kept]


def test_objects_are_added_at_every_moment_of_a_list() -> None:
    alive = Alive[Thing]()
    things = [Thing() for _ in range(5)]
    for thing in things:
        alive.add(thing)
    added: list[Thing] = []

    def add(frame: FrameType, event: str, _: Any) -> Any:
        # What another thread may do wherever the interpreter switches to it.
        if frame.f_code.co_name != "add":
            added.append(Thing())
            sys.settrace(None)
            alive.add(added[-1])
            sys.settrace(add)
        return add

    earlier = sys.gettrace()
    sys.settrace(add)
    try:
        listed = alive.all()
    finally:
        sys.settrace(earlier)
    assert len(added) > len(things)
    assert set(things) <= set(listed)
