"""The kinds of plots: curves along an axis, bars, bars of processor time, and the span from median to p99."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from .canvas import FAINT_INK, INK, new_axes, svg_of
from .clients import VARIANT_DASHES, Clients, Style, client_of
from .measures import Curve, Percentiles, ProcessorTime, Value

CURVES_HEIGHT = 290.0
#: What a plot of bars is high without bars, and what each bar adds.
BARS_HEIGHT, BAR_HEIGHT = 110.0, 23.0
BAR_WIDTH = 0.68
#: How far left of the axis's first place that of blocking calls is, as a factor.
BLOCKING = 6.0
#: The part of an axis that a name takes.
LEAST_ROOM = 0.1
#: Values that differ by more than this many times stand on a logarithmic axis.
MUCH = 20.0
#: An axis with less than this many times between its ends has ticks at 1, 2 and 5, another at 1.
FEW_TICKS = 300.0
#: The height that a name takes beside a plot of curves, as a part of that of its axes.
NAME_HEIGHT = 0.075
WEIGHTS = {False: "normal", True: "bold"}


@dataclass(frozen=True)
class Words:
    """The words of a plot: the key of its identifiers, its title, its unit and the title of its horizontal axis."""

    key: str
    title: str
    unit: str
    axis: str


def draw_curves(
    words: Words,
    curves: list[Curve],
    clients: Clients,
    name_place: Callable[[float], str],
    logarithmic: bool = False,
    level: float | None = None,
) -> str:
    """Draws rates along a logarithmic axis, from 0 up unless `logarithmic`; `level` gets a line of its own."""
    labels = clients.labels([curve.contestant for curve in curves])
    places = sorted({place for curve in curves for place in curve.points})
    blocking = places[0] / BLOCKING
    names = {place: name_place(place) for place in _with_room(places)}
    if any(curve.blocking for curve in curves):
        names = {blocking: "blocking", **names}
    with new_axes(CURVES_HEIGHT, words.title, words.unit) as axes:
        seen: dict[str, int] = {}
        for curve in curves:
            client = client_of(curve.contestant)
            _draw_curve(axes, curve, clients.style(curve.contestant), seen.get(client, 0), blocking)
            seen[client] = seen.get(client, 0) + 1
        if level is not None:
            axes.axhline(level, color=FAINT_INK, linewidth=1)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(list(names)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda place, _: names.get(place, "")))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(axis="x", visible=False)
        axes.set_xlabel(words.axis)
        _set_values(axes.set_yscale, axes.yaxis, axes.get_ylim(), logarithmic)
        if not logarithmic:
            axes.set_ylim(0)
        _write_names(axes, curves, labels, clients)
        return svg_of(axes, words.key, f"{words.title}: {words.unit}")


def _with_room(places: list[float]) -> list[float]:
    """Returns the ascending places whose names do not touch on a logarithmic axis."""
    kept = places[:1]
    for place in places[1:]:
        if math.log(place / kept[-1]) > LEAST_ROOM * math.log(places[-1] / places[0]):
            kept.append(place)
    return kept


def _draw_curve(axes: Axes, curve: Curve, style: Style, number: int, blocking: float) -> None:
    """Draws a client's curve with its spread; where it has several, the later ones are dashed."""
    look: dict[str, Any] = {"color": style.colour, "linewidth": style.width, "marker": style.marker, "clip_on": False}
    look |= {"markersize": 6 if style.strong else 4.5, "zorder": 3 if style.strong else 2}
    look |= {"linestyle": VARIANT_DASHES[number % len(VARIANT_DASHES)] if number else style.dashes}
    places, values = list(curve.points), list(curve.points.values())
    low, high = [value.low for value in values], [value.high for value in values]
    if low != high:
        axes.fill_between(places, low, high, color=style.colour, alpha=0.16, linewidth=0)
    axes.plot(places, [value.middle for value in values], label=curve.contestant, **look)
    if curve.blocking:
        spread = [[curve.blocking.middle - curve.blocking.low], [curve.blocking.high - curve.blocking.middle]]
        look |= {"marker": style.marker or "_", "linestyle": "none", "markerfacecolor": "none"}
        look |= {"markersize": look["markersize"] + 1, "markeredgewidth": style.width * 0.7}
        axes.errorbar([blocking], [curve.blocking.middle], spread, elinewidth=style.width, **look)


def _write_names(axes: Axes, curves: list[Curve], labels: dict[str, str], clients: Clients) -> None:
    """Writes each name and last value where its curve ends, moved up or down so that none covers another."""
    ends = {curve.contestant: end.middle for curve in curves if (end := curve.last or curve.blocking)}
    names = sorted(ends, key=ends.__getitem__)
    to_fraction = axes.transData + axes.transAxes.inverted()
    heights = [float(to_fraction.transform((axes.get_xlim()[1], ends[name]))[1]) for name in names]
    for name, height, place in zip(names, heights, apart(heights, NAME_HEIGHT)):
        style = clients.style(name)
        look: dict[str, Any] = {"color": style.colour, "transform": axes.transAxes, "clip_on": False}
        axes.plot([1.02, 1.06], [height, place], linewidth=0.8, **look)
        text = f"{labels[name]} {rounded_number(ends[name])}"
        axes.text(1.075, place, text, verticalalignment="center", fontweight=WEIGHTS[style.strong], **look)


def apart(heights: list[float], least: float) -> list[float]:
    """Returns ascending heights moved so that neighbours are at least so far apart, each near where it was."""
    places = list(heights)
    for number in range(1, len(places)):
        places[number] = max(places[number], places[number - 1] + least)
    over = max(0.0, places[-1] - 1.0) if places else 0.0
    places[-1:] = [places[-1] - over] if places else []
    for number in range(len(places) - 2, -1, -1):
        places[number] = min(places[number], places[number + 1] - least)
    return places


def _set_values(set_scale: Callable[[str], None], axis: Any, ends: tuple[float, float], logarithmic: bool) -> None:
    """Sets an axis of values, linear or logarithmic."""
    if logarithmic:
        set_scale("log")
        low, high = sorted(axis.get_data_interval())
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < FEW_TICKS * low else (1.0,)))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(6, steps=(1, 2, 5, 10)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def short_number(value: float) -> str:
    """Returns a round number as an axis has it: 0.5, 20, 20k, 1.5M."""
    for unit, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{suffix}"
    return f"{value:g}"


def rounded_number(value: float) -> str:
    """Returns a number with three digits at most: 430k, 1.61M, 49.8k."""
    return short_number(float(f"{value:.3g}"))


def draw_processor(words: Words, times: dict[str, ProcessorTime], clients: Clients) -> str:
    """Draws bars of microseconds per operation, the least on top: strong the user's part, light the kernel's."""
    totals = {name: each.total for name, each in times.items()}
    return _draw_bars(words, totals, clients, {name: each.user for name, each in times.items()}, "{:.1f}".format)


def draw_bars(words: Words, values: dict[str, Value], clients: Clients) -> str:
    """Draws a bar for each value, the least on top, on a logarithmic axis where they differ much."""
    strong = {name: value.middle for name, value in values.items()}
    return _draw_bars(words, values, clients, strong, lambda value: f"{value:.3g}" if value < 1000 else f"{value:,.0f}")


def _draw_bars(
    words: Words, values: dict[str, Value], clients: Clients, strong: dict[str, float], shown: Callable[[float], str]
) -> str:
    """Draws bars, of which the part up to `strong` is full and the rest light."""
    names = sorted(values, key=lambda name: values[name].middle, reverse=True)
    labels = clients.labels(names)
    middles = [values[name].middle for name in names]
    logarithmic = middles[0] > MUCH * middles[-1] > 0
    with new_axes(BARS_HEIGHT + len(names) * BAR_HEIGHT, words.title, words.unit) as axes:
        lines, colours = range(len(names)), [clients.style(name).colour for name in names]
        spread = [[each.middle - each.low for each in map(values.__getitem__, names)]]
        spread += [[each.high - each.middle for each in map(values.__getitem__, names)]]
        axes.barh(lines, [strong[name] for name in names], BAR_WIDTH, color=colours)
        bars = axes.barh(lines, middles, BAR_WIDTH, color=colours, alpha=0.45, xerr=spread, ecolor=INK)
        axes.bar_label(bars, [shown(middle) for middle in middles], padding=5)
        _set_values(axes.set_xscale, axes.xaxis, axes.get_xlim(), logarithmic)
        axes.set_xlim(middles[-1] / 2 if logarithmic else 0, middles[0] * (3 if logarithmic else 1.18))
        _name_lines(axes, [labels[name] for name in names], [clients.style(name) for name in names])
        axes.set_xlabel(words.axis)
        return svg_of(axes, words.key, f"{words.title}: {words.unit}")


def draw_latencies(words: Words, spans: dict[tuple[str, int], Percentiles], clients: Clients) -> str:
    """Draws for each contestant and number of coroutines a line from the median (dot) to p99 (bar)."""
    contestants = list(dict.fromkeys(name for name, _ in spans))
    best = {name: min(span.p99.middle for (each, _), span in spans.items() if each == name) for name in contestants}
    order = sorted(spans, key=lambda key: (-best[key[0]], key[0], -key[1]))
    labels = clients.labels(contestants)
    alike = len({many for _, many in spans}) == 1
    texts = [labels[name] if alike else f"{labels[name]}, {many}" for name, many in order]
    with new_axes(BARS_HEIGHT + len(order) * BAR_HEIGHT, words.title, words.unit) as axes:
        for number, key in enumerate(order):
            _draw_span(axes, number, spans[key], clients.style(key[0]))
        _set_values(axes.set_xscale, axes.xaxis, axes.get_xlim(), True)
        unit, name = (1000.0, "milliseconds") if axes.get_xlim()[1] >= 1000 else (1.0, "microseconds")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:g}"))
        axes.set_xlabel(name)
        _name_lines(axes, texts, [clients.style(name) for name, _ in order])
        return svg_of(axes, words.key, f"{words.title}: {words.unit}")


def _draw_span(axes: Axes, number: int, span: Percentiles, style: Style) -> None:
    look: dict[str, Any] = {"color": style.colour, "markersize": 8 if style.strong else 6.5}
    axes.plot([span.p99.low, span.p99.high], [number] * 2, color=style.colour, linewidth=7, alpha=0.2)
    axes.plot([span.median.middle, span.p99.middle], [number] * 2, color=style.colour, linewidth=style.width)
    axes.plot([span.median.middle], [number], "o", markeredgewidth=0, **look)
    axes.plot([span.p99.middle], [number], "|", markeredgewidth=2, **{**look, "markersize": 11})


def _name_lines(axes: Axes, texts: list[str], styles: list[Style]) -> None:
    """Writes the names of horizontal lines, from the bottom up."""
    axes.set_yticks(range(len(texts)), texts)
    axes.set_ylim(-0.6, len(texts) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", visible=False)
    for label, style in zip(axes.get_yticklabels(), styles):
        label.set(color=style.colour, fontweight=WEIGHTS[style.strong])
