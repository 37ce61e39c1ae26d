"""What a report consists of: plots, in sections."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plot:
    """One figure: its SVG, what it shows, what is seen in it; the `main` ones stand in PERFORMANCE.md too."""

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
        """Those that stand in PERFORMANCE.md too."""
        return [plot for plot in self.plots if plot.main]
