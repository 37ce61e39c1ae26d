"""The targets of instructions: what an operation may take at most. A count hardly depends on the processor."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from ..results import Document, Target

ROW = "instructions"
#: By a pattern of operations of `instructions.json`.
AT_MOST = {
    "blocking:[gs]et": 4_000,
    "blocking:get_many:100": 220_000,
    "blocking:near:get": 1_000,
    "gevent:[gs]et:64": 8_000,
    "asyncio:[gs]et:64": 10_000,
    "uvloop:[gs]et:64": 9_000,
    "locks:pair": 25_500,
    "locks:read": 26_500,
    "locks:permits": 26_500,
    "ruby:get": 4_500,
    "ruby:set": 5_500,
    "ruby:near:get": 1_500,
    "ruby:async:[gs]et:64": 13_000,
    "ruby:eventmachine:[gs]et:64": 12_000,
    "perl:[gs]et": 4_700,
    "perl:coro:[gs]et:100": 9_000,
    "c:[gs]et": 3_000,
}


def instructions_at_most(document: Document, _: str) -> Iterator[Target]:
    """An operation takes at most as many instructions as AT_MOST says."""
    if document.instructions is None:
        return
    for operation, count in document.instructions.counts.items():
        most = at_most(operation)
        if most is not None:
            yield Target(f"{ROW}: {operation}: at most {most:,}", f"{count:,}", count <= most)


def at_most(operation: str) -> int | None:
    """Returns how many instructions an operation may take; None without a target."""
    return next((most for pattern, most in AT_MOST.items() if fnmatchcase(operation, pattern)), None)
