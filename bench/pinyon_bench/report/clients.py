"""The clients of a result document, and how each looks: the same in every plot.

A contestant is a client, perhaps driven by a coroutine library: `Pinyon gevent` and `Pinyon` are the same client, and so
is `Pinyon pure`, whose locks use one of two handlers. The first contestant with figures is ours; two names are bounds, not
clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from ..locks.workloads import HANDLERS
from ..names import ASYNCIO, BARE, FLOOR, GEVENT, PERL_MODELS, RUBY_MODELS, UVLOOP, C
from ..results import Document

COROUTINE_GROUPS = (GEVENT, ASYNCIO, UVLOOP)
#: The pools of other clients, which threads need.
POOLS = ("ClientPool", "ThreadMappedPool", "PooledClient")
#: Words in the name of a contestant that do not make it another client.
VARIANTS = (*COROUTINE_GROUPS, *RUBY_MODELS, *PERL_MODELS, C, "shim", *HANDLERS, *POOLS)
BOUNDS = (FLOOR, BARE)

Dashes = Union[str, tuple[float, tuple[float, ...]]]

#: Each stands out from white and from black; a test computes it.
OUR_COLOUR = "#d9480f"
BOUND_COLOUR = "#7b8390"
OTHER_COLOURS = ("#2b7fd0", "#10906a", "#c0509f", "#a07020", "#8a63d2", "#0c8599", "#5f8a2a", "#96708a", "#6b74e8")
OTHER_MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "p")
BOUND_MARKERS = ("", "|")
BOUND_DASHES: tuple[Dashes, ...] = ((0, (4, 2)), (0, (1, 1.5)))
VARIANT_DASHES: tuple[Dashes, ...] = ("-", (0, (7, 1.5)), (0, (5, 1, 1, 1)), (0, (2, 1)))


@dataclass(frozen=True)
class Style:
    """How a client is drawn; ours is `strong`."""

    colour: str
    marker: str
    dashes: Dashes = "-"
    strong: bool = False

    @property
    def width(self) -> float:
        """The thickness of its lines."""
        return 2.8 if self.strong else 1.4


def client_of(contestant: str) -> str:
    """Returns the client's name: the contestant's without the coroutine library that drives it, or its handler of locks."""
    return without(VARIANTS, contestant)


def without(words: tuple[str, ...], contestant: str) -> str:
    """Returns the contestant's name without these words, unless it consists of them."""
    return " ".join(word for word in contestant.split() if word not in words) or contestant


class Clients:
    """The clients of one document, in its order."""

    def __init__(self, document: Document) -> None:
        measured = {sample.contestant for sample in document.samples}
        order = [info.name for info in document.contestants if info.name in measured]
        self.names = list(dict.fromkeys(client_of(name) for name in order))
        self.ours = next((name for name in self.names if name not in BOUNDS), "")
        self._others = [name for name in self.names if name != self.ours and name not in BOUNDS]

    def is_ours(self, contestant: str) -> bool:
        """Whether it is our client, blocking or in coroutines."""
        return client_of(contestant) == self.ours

    def is_bound(self, contestant: str) -> bool:
        """Whether it is a bound, the least that a client can do."""
        return client_of(contestant) in BOUNDS

    def is_other(self, contestant: str) -> bool:
        """Whether it is a client to compare ours with."""
        return not self.is_ours(contestant) and not self.is_bound(contestant)

    def style(self, contestant: str) -> Style:
        """Returns how a client is drawn."""
        client = client_of(contestant)
        if client == self.ours:
            return Style(OUR_COLOUR, "o", strong=True)
        if client in BOUNDS:
            number = BOUNDS.index(client)
            return Style(BOUND_COLOUR, BOUND_MARKERS[number], BOUND_DASHES[number])
        number = self._others.index(client)
        return Style(OTHER_COLOURS[number % len(OTHER_COLOURS)], OTHER_MARKERS[number % len(OTHER_MARKERS)])

    def labels(self, contestants: list[str]) -> dict[str, str]:
        """Returns each contestant's label in one plot: the client's name where that is unambiguous."""
        for words in (VARIANTS, COROUTINE_GROUPS):
            shorter = {name: without(words, name) for name in contestants}
            if len(set(shorter.values())) == len(shorter):
                return shorter
        return {name: name for name in contestants}
