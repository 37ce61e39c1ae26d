"""What a report consists of: plots, in sections."""

from __future__ import annotations

from dataclasses import dataclass

#: The keys of the plots that decide: PERFORMANCE.md shows these alone.
MAIN = (
    "concurrency-gevent-get",
    "concurrency-asyncio-get",
    "latency-asyncio-get",
    "size-get",
    "multiget-1",
    "locks-pair-blocking",
    "locks-mutex-gevent",
    "locks-handover",
)


@dataclass(frozen=True)
class Plot:
    """One figure: its SVG, what it shows, and its finding; PERFORMANCE.md shows the `main` ones too."""

    key: str
    title: str
    svg: str
    finding: str
    main: bool


@dataclass(frozen=True)
class Section:
    """Plots of one kind, and how to read them."""

    key: str
    title: str
    lead: str
    plots: list[Plot]

    @property
    def main_plots(self) -> list[Plot]:
        """Those that PERFORMANCE.md shows too."""
        return [plot for plot in self.plots if plot.main]
