"""What happened in a run: scenes, their lines, and charts of who did what when. All times are in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Bar:
    """Something that lasted.

    Args:
        lane: who it was.
        begin: the time at which it began.
        end: the time at which it ended.
        kind: what it was; a picture has a colour for each kind.
        label: a few words to write on it.
    """

    lane: str
    begin: float
    end: float
    kind: str
    label: str = ""


@dataclass(frozen=True)
class Dot:
    """One call: when it began, how long it took, and what came of it."""

    at: float
    took: float
    kind: str


@dataclass(frozen=True)
class Mark:
    """A moment that explains what follows it."""

    at: float
    text: str


@dataclass(frozen=True)
class Line:
    """A line that was shown. A finding is one that sums up what was measured."""

    text: str
    is_finding: bool = False


@dataclass
class Chart:
    """A part of a scene: who did what along its own time, and what was shown of it."""

    title: str
    begin: float
    bars: list[Bar] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def lanes(self) -> list[str]:
        """Return who takes part, in the order of appearance."""
        return list(dict.fromkeys(bar.lane for bar in self.bars))

    def end(self) -> float:
        """Return the time at which the last thing ended."""
        times = [bar.end for bar in self.bars] + [dot.at + dot.took for dot in self.dots]
        return max(times + [mark.at for mark in self.marks], default=self.begin)


@dataclass
class Scene:
    """One of the three stories."""

    title: str
    story: str
    charts: list[Chart] = field(default_factory=list)

    def lines(self) -> list[Line]:
        """Return what was shown, in order."""
        return [line for chart in self.charts for line in chart.lines]


def shown(seconds: float) -> str:
    """Return a duration in suitable units."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s"
