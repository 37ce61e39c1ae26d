"""Plots in sections: what a report consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

#: The keys of the plots that decide: PERFORMANCE.md shows these alone.
MAIN = (
    "concurrency-gevent-get",
    "concurrency-asyncio-get",
    "concurrency-threads-get",
    "concurrency-perl-get",
    "latency-asyncio-get",
    "size-get",
    "multiget-1",
    "locks-pair-blocking",
    "locks-mutex-gevent",
    "locks-handover",
)


@dataclass(frozen=True)
class Plot:
    """One figure: what it shows, how it is drawn, and its finding."""

    key: str
    title: str
    draw: Callable[[], str]
    finding: str

    @cached_property
    def svg(self) -> str:
        """The drawing; drawn on first use, because drawing is slow."""
        return self.draw()

    @property
    def is_main(self) -> bool:
        """Whether PERFORMANCE.md shows it too."""
        return self.key in MAIN


@dataclass(frozen=True)
class Section:
    """Plots of one kind, and how to read them."""

    key: str
    title: str
    lead: str
    plots: list[Plot]

    @property
    def main_plots(self) -> list[Plot]:
        """The plots that PERFORMANCE.md shows too."""
        return [plot for plot in self.plots if plot.is_main]
