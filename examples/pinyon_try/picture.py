"""Draws a run as one page of HTML that needs no network, for light and dark screens."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from html import escape

import pinyon

from .record import Chart, Dot, Scene, shown

#: The kinds of bars and dots, with the words of the legend.
KINDS = {
    "made": "asked the database",
    "waited": "waited for another caller's value",
    "late": "began when the value was there",
    "old": "got the old value",
    "hit": "hit",
    "miss": "miss: asked the database",
    "up": "runs",
    "killed": "dead",
    "hung": "hangs",
    "waits": "waits for the lock",
    "holds": "holds the lock",
    "locked": "dead, and the lock lasts",
    "lost": "lost the lock",
}
WIDTH = 960
LEFT = 110
RIGHT = 20
#: The heights of a lane with words on its bars, and of one among many.
TALL = 30
FLAT = 5
DOTS = 170
MARKS = 34
AXIS = 30

STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2128; --soft: #59636e; --line: #d5dae0; --card: #f6f8fa;
  --orange: #d9730d; --blue: #2f74d0; --green: #2b8a4b; --red: #cf2d3a; --violet: #8250df; --grey: #8c959f; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --ink: #e6edf3; --soft: #9aa4af; --line: #333b45;
  --card: #161b22; --orange: #f0883e; --blue: #58a6ff; --green: #3fb950; --red: #f85149; --violet: #bc8cff;
  --grey: #6e7681; } }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 62rem; background: var(--page); color: var(--ink);
  font: 1rem/1.55 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { margin: 0; font-size: 1.8rem; } h2 { margin: 3rem 0 .25rem; font-size: 1.35rem; }
h3 { margin: 0 0 .25rem; font-size: 1rem; } p { margin: .25rem 0 1rem; color: var(--soft); max-width: 48rem; }
figure { margin: 1rem 0; padding: 1rem 1.25rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; } svg { display: block; width: 100%; height: auto; }
svg text { font-size: 13px; fill: var(--soft); } svg .on { fill: var(--page); font-weight: 600; }
svg .mark { stroke: var(--ink); stroke-dasharray: 3 3; } svg .marked { fill: var(--ink); font-weight: 600; }
svg .grid { stroke: var(--line); } figcaption { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; color: var(--soft);
  font-size: .85rem; margin-bottom: .5rem; } i { display: inline-block; width: .8em; height: .8em; border-radius: 3px;
  margin-right: .4em; } ul { margin: .5rem 0 0; padding-left: 1.2rem; font-size: .9rem;
  overflow-wrap: anywhere; } li { color: var(--soft); }
li.finding { color: var(--ink); font-weight: 600; }
.made, .miss { fill: var(--orange); background: var(--orange); } .waited, .hit { fill: var(--blue);
  background: var(--blue); } .old, .up, .holds { fill: var(--green); background: var(--green); }
.killed, .lost { fill: var(--red); background: var(--red); } .hung, .locked { fill: var(--violet);
  background: var(--violet); } .waits, .late { fill: var(--grey); background: var(--grey); }
"""


def page(scenes: Sequence[Scene]) -> str:
    """Return the page."""
    body = "".join(_scene(scene) for scene in scenes)
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Pinyon: what happened in this run</title><style>{STYLE}</style>"
        f"<h1>What happened in this run</h1><p>Pinyon {escape(pinyon.__version__)} on Python "
        f"{platform.python_version()}, {escape(platform.system())} {platform.machine()}. Every line and every bar was "
        f"measured; <code>make try HTML=file</code> repeats it.</p>{body}</html>\n"
    )


def _scene(scene: Scene) -> str:
    figures = "".join(_figure(chart) for chart in scene.charts)
    return f"<h2>{escape(scene.title)}</h2><p>{escape(scene.story)}</p>{figures}"


def _figure(chart: Chart) -> str:
    present = {bar.kind for bar in chart.bars} | {dot.kind for dot in chart.dots}
    legend = "".join(f'<span><i class="{kind}"></i>{text}</span>' for kind, text in KINDS.items() if kind in present)
    lines = "".join(
        f"<li{' class=finding' if line.is_finding else ''}>{escape(line.text)}</li>" for line in chart.lines
    )
    return (
        f"<figure><h3>{escape(chart.title)}</h3><figcaption>{legend}</figcaption>{_Drawing(chart).svg()}"
        f"<ul>{lines}</ul></figure>"
    )


class _Drawing:
    """One chart: marks above, then a lane for each who took part, then the calls' latencies, then the time."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        self._lanes = chart.lanes()
        self._lane = FLAT if len(self._lanes) > 10 else TALL
        self._span = max(chart.end() - chart.begin, 0.001)
        self._top = MARKS if chart.marks else 4
        self._below = self._top + self._lane * len(self._lanes)
        self._floor = self._below + (DOTS if chart.dots else 0)

    def svg(self) -> str:
        """Return the drawing."""
        parts = [*self._axis(), *self._bars(), *self._dots(), *self._marks()]
        height = self._floor + AXIS
        title = f"<title>{escape(self._chart.title)}</title>"
        return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{title}{"".join(parts)}</svg>'

    def _x(self, time: float) -> float:
        share = min(max((time - self._chart.begin) / self._span, 0), 1)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def _axis(self) -> Iterator[str]:
        step = _step(self._span)
        for number in range(int(self._span / step) + 1):
            x = self._x(self._chart.begin + number * step)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{self._top}" y2="{self._floor}"/>'
            yield f'<text x="{x:.1f}" y="{self._floor + 20}" text-anchor="middle">{number * step:g} s</text>'

    def _bars(self) -> Iterator[str]:
        if self._lane == TALL:
            for number, lane in enumerate(self._lanes):
                y = self._top + number * TALL + TALL / 2 + 5
                yield f'<text x="{LEFT - 10}" y="{y}" text-anchor="end">{escape(lane)}</text>'
        else:
            y = self._top + self._lane * len(self._lanes) / 2 + 5
            yield f'<text x="{LEFT - 10}" y="{y}" text-anchor="end">{len(self._lanes)} callers</text>'
        for bar in self._chart.bars:
            x, y = self._x(bar.begin), self._top + self._lanes.index(bar.lane) * self._lane
            width = max(self._x(bar.end) - x, 2)
            gap = 4 if self._lane == TALL else 0.5
            yield (
                f'<rect class="{bar.kind}" x="{x:.1f}" y="{y + gap}" width="{width:.1f}" '
                f'height="{self._lane - 2 * gap}" rx="{min(gap, 3)}"><title>{escape(bar.lane)}: {KINDS[bar.kind]}, '
                f"{shown(bar.end - bar.begin)}</title></rect>"
            )
            if bar.label and width > 8 * len(bar.label):
                yield f'<text class="on" x="{x + 8:.1f}" y="{y + TALL / 2 + 5}">{escape(bar.label)}</text>'

    def _dots(self) -> Iterator[str]:
        """The time that each call took, on a logarithmic axis."""
        if not self._chart.dots:
            return
        took = [dot.took for dot in self._chart.dots]
        low, high = math.floor(math.log10(max(min(took), 1e-6))), math.ceil(math.log10(max(took)))
        inner = DOTS - 30

        def height(seconds: float) -> float:
            return self._floor - 10 - inner * (math.log10(max(seconds, 1e-6)) - low) / max(high - low, 1)

        for power in range(low, high + 1):
            y = height(10**power)
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{_power(power)}</text>'
        for dot in sorted(self._chart.dots, key=_misses_last):
            yield f'<circle class="{dot.kind}" cx="{self._x(dot.at):.1f}" cy="{height(dot.took):.1f}" r="2.5"/>'

    def _marks(self) -> Iterator[str]:
        for mark in self._chart.marks:
            x = self._x(mark.at)
            anchor = "end" if x > WIDTH * 0.8 else "start"
            yield f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{self._top - 10}" y2="{self._floor}"/>'
            place = f'x="{x:.1f}" y="{self._top - 16}" text-anchor="{anchor}"'
            yield f'<text class="marked" {place}>{escape(mark.text)}</text>'


def _misses_last(dot: Dot) -> bool:
    return dot.kind == "miss"


def _step(span: float) -> float:
    """Return a round number of seconds, so that an axis has at most ten of them."""
    return next(step for step in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, math.inf) if span / step <= 10)


def _power(power: int) -> str:
    return {-6: "1 µs", -5: "10 µs", -4: "100 µs", -3: "1 ms", -2: "10 ms", -1: "100 ms"}.get(power, f"{10**power:g} s")
