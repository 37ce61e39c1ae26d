"""The kinds of plots: curves along an axis, bars, bars of processor time, and the span from median to p99.

Each returns an SVG element. Names stand beside what they name, so that no legend is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from .canvas import EDGE, FAINT_INK, GRID_INK, INK, TITLE_HEIGHT, WIDTH, add_line, manner, new_axes, svg_of, text_width
from .clients import VARIANT_DASHES, Clients, Dashes, Style, client_of
from .measures import Curve, Percentiles, ProcessorTime, Value

CURVES_HEIGHT = 290.0
RATES_WIDTH = 44.0
BOTTOM = 46.0
BAR_PITCH = 23.0
LABEL_PITCH = 14.0
LABEL_GAP = 20.0
ROUND_STEPS = (1, 2, 5, 10)
AXIS_TITLE_HEIGHT = 13.0
NAME_GAP = 5.0
#: Bars that differ by more than this many times stand on a logarithmic axis.
MUCH = 20.0
WEIGHTS = {False: "normal", True: "bold"}


Looks = dict[str, tuple[Style, Dashes]]


@dataclass(frozen=True)
class Words:
    """What is written at a plot: the key of its identifiers, its title, its unit and the title of its horizontal axis."""

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
    with manner():
        right = LABEL_GAP + _names_width(labels, clients) + EDGE
        axes = new_axes(CURVES_HEIGHT, RATES_WIDTH, right, BOTTOM, words.title, words.unit)
        places = sorted({place for curve in curves for place in curve.points})
        blocking_place = places[0] / 2.5 if any(curve.blocking for curve in curves) else None
        _set_places(axes, places, blocking_place, name_place, words.axis)
        _set_rates(axes, curves, logarithmic)
        if level is not None:
            axes.axhline(level, color=FAINT_INK, linewidth=1)
        looks = _looks(curves, clients)
        for curve in sorted(curves, key=lambda curve: clients.is_ours(curve.contestant)):
            _draw_curve(axes, curve, *looks[curve.contestant], blocking_place)
        _write_names(axes, curves, labels, looks, blocking_place)
        return svg_of(axes, words.key, f"{words.title}: {words.unit}")


def _names_width(labels: dict[str, str], clients: Clients) -> float:
    return max(text_width([label], WEIGHTS[clients.is_ours(name)]) for name, label in labels.items())


def _set_places(
    axes: Axes, places: list[float], blocking: float | None, name: Callable[[float], str], title: str
) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xlim((blocking or places[0]) / 1.25, max(places[-1] * 1.04, places[0] * 2))
    axes.xaxis.set_major_locator(FixedLocator([*([blocking] if blocking else []), *places]))
    shown = _with_room(axes, {place: name(place) for place in places})
    axes.xaxis.set_major_formatter(FuncFormatter(lambda place, _: shown.get(place, "")))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(title)
    if blocking:
        axes.annotate("blocking", (EDGE, AXIS_TITLE_HEIGHT), xycoords="figure pixels", annotation_clip=False)


def _with_room(axes: Axes, names: dict[float, str]) -> dict[float, str]:
    """Returns the names of places that stand clear of each other: the first, the last, and of the rest those that fit."""
    across = {place: float(axes.transData.transform((place, 1))[0]) for place in names}
    half = {place: text_width([name]) / 2 for place, name in names.items()}
    kept: list[float] = []
    ends = [min(names), max(names)]
    for place in [*ends, *names]:
        if all(abs(across[place] - across[other]) > half[place] + half[other] + NAME_GAP for other in kept):
            kept.append(place)
    return {place: names[place] for place in kept}


def _set_rates(axes: Axes, curves: list[Curve], logarithmic: bool) -> None:
    values = [value for curve in curves for value in [*curve.points.values(), curve.blocking] if value]
    lowest, highest = min(value.low for value in values), max(value.high for value in values)
    if logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(lowest / 1.3, highest * 1.3)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if highest / lowest < 300 else (1.0,)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, highest * 1.06)
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=ROUND_STEPS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    axes.grid(axis="y")


def short_number(value: float) -> str:
    """Returns a round number as an axis has it: 0.5, 20, 20k, 1.5M."""
    for unit, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{suffix}"
    return f"{value:g}"


def _looks(curves: list[Curve], clients: Clients) -> Looks:
    """Gives each curve its client's style; where a client has several, the later ones are dashed."""
    seen: dict[str, int] = {}
    looks: Looks = {}
    for curve in curves:
        style, number = clients.style(curve.contestant), seen.get(client_of(curve.contestant), 0)
        seen[client_of(curve.contestant)] = number + 1
        looks[curve.contestant] = style, VARIANT_DASHES[number % len(VARIANT_DASHES)] if number else style.dashes
    return looks


def _draw_curve(axes: Axes, curve: Curve, style: Style, dashes: Dashes, blocking_place: float | None) -> None:
    places = list(curve.points)
    values = list(curve.points.values())
    if places:
        low, high = [value.low for value in values], [value.high for value in values]
        axes.fill_between(places, low, high, color=style.colour, alpha=0.16, linewidth=0)
        axes.plot(
            places,
            [value.middle for value in values],
            color=style.colour,
            linestyle=dashes,
            linewidth=style.width,
            marker=style.marker,
            markersize=6 if style.strong else 4.5,
            markeredgewidth=0,
            clip_on=False,
        )
    if curve.blocking and blocking_place:
        _draw_blocking(axes, curve.blocking, style, blocking_place)


def _draw_blocking(axes: Axes, value: Value, style: Style, place: float) -> None:
    axes.plot([place, place], [value.low, value.high], color=style.colour, linewidth=style.width)
    axes.plot(
        [place],
        [value.middle],
        marker=style.marker or "_",
        markersize=7 if style.strong else 5.5,
        markerfacecolor="white",
        markeredgecolor=style.colour,
        markeredgewidth=style.width * 0.7,
        linestyle="none",
    )


def _write_names(axes: Axes, curves: list[Curve], labels: dict[str, str], looks: Looks, blocking: float | None) -> None:
    """Writes each name right of the axes as high as its curve ends, or as near as the other names allow."""
    ends: list[tuple[float, float, str]] = []
    for curve in curves:
        place, value = (max(curve.points), curve.last) if curve.points else (blocking, curve.blocking)
        if place is not None and value is not None:
            across, up = axes.transData.transform((place, value.middle))
            ends.append((float(up), float(across), curve.contestant))
    ends.sort(key=lambda end: end[0])
    edge = float(axes.bbox.x1)
    heights = _spread_out([up for up, _, _ in ends], float(axes.bbox.y0) - 4, float(axes.bbox.y1))
    for (up, across, name), height in zip(ends, heights):
        style, dashes = looks[name]
        # A client's second curve differs by its dashes alone, so its name is led to by the same dashes.
        second = dashes != style.dashes
        look = {"color": style.colour, "linewidth": 1.6 if second else 0.7, "alpha": 1.0 if second else 0.6}
        bend = max(edge, across + 5)
        if bend > across + 5:
            add_line(axes, (across + 5, up), (bend, up), **look)
        add_line(axes, (bend, up), (edge + LABEL_GAP - 3, height), linestyle=dashes if second else "-", **look)
        axes.annotate(
            labels[name],
            (edge + LABEL_GAP, height),
            xycoords="figure pixels",
            verticalalignment="center",
            color=style.ink,
            fontweight=WEIGHTS[style.strong],
        )


def _spread_out(wanted: list[float], lowest: float, highest: float) -> list[float]:
    """Returns ascending heights at least a line apart, near the wanted ones, and within the bounds where they fit."""
    heights: list[float] = []
    for height in wanted:
        heights.append(max(height, lowest, heights[-1] + LABEL_PITCH if heights else lowest))
    above = highest
    for number in range(len(heights) - 1, -1, -1):
        heights[number] = max(min(heights[number], above), lowest + number * LABEL_PITCH)
        above = heights[number] - LABEL_PITCH
    return heights


def draw_processor(words: Words, times: dict[str, ProcessorTime], clients: Clients) -> str:
    """Draws bars of microseconds per operation, the least on top: strong the user's part, light the kernel's."""
    names = sorted(times, key=lambda name: times[name].total.middle, reverse=True)
    labels = clients.labels(names)
    with manner():
        axes = _bar_axes(words, len(names), [labels[name] for name in names], right=48)
        for number, name in enumerate(names):
            total, user, style = times[name].total, times[name].user, clients.style(name)
            axes.barh(number, user, 0.68, color=style.colour)
            axes.barh(number, total.middle - user, 0.68, left=user, color=style.colour, alpha=0.45, linewidth=0)
            axes.plot([total.low, total.high], [number, number], color=INK, linewidth=1.2)
            axes.annotate(
                f"{total.middle:.1f}",
                (max(total.middle, total.high), number),
                xytext=(5, 0),
                textcoords="offset points",
                verticalalignment="center",
                fontweight=WEIGHTS[style.strong],
                annotation_clip=False,
            )
        axes.set_xlim(0)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND_STEPS))
        _embolden(axes, [clients.style(name) for name in names])
        return svg_of(axes, words.key, f"{words.title}: {words.unit}")


def draw_bars(words: Words, values: dict[str, Value], clients: Clients, level: float | None = None) -> str:
    """Draws a bar for each value, the least on top, on a logarithmic axis where they differ much; `level` gets a line."""
    names = sorted(values, key=lambda name: values[name].middle, reverse=True)
    labels = clients.labels(names)
    with manner():
        axes = _bar_axes(words, len(names), [labels[name] for name in names], right=48)
        middles = [value.middle for value in values.values()]
        if max(middles) > MUCH * min(middles) > 0:
            axes.set_xscale("log")
            axes.set_xlim(min(middles) / 2, max(middles) * 1.3)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
        else:
            axes.set_xlim(0, max(middles) * 1.05)
            axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND_STEPS))
        if level is not None:
            axes.axvline(level, color=FAINT_INK, linewidth=1)
        for number, name in enumerate(names):
            value, style = values[name], clients.style(name)
            axes.barh(number, value.middle, 0.68, color=style.colour)
            axes.plot([value.low, value.high], [number, number], color=INK, linewidth=1.2)
            axes.annotate(
                f"{value.middle:.3g}" if value.middle < 1000 else f"{value.middle:,.0f}",
                (max(value.middle, value.high), number),
                xytext=(5, 0),
                textcoords="offset points",
                verticalalignment="center",
                fontweight=WEIGHTS[style.strong],
                annotation_clip=False,
            )
        _embolden(axes, [clients.style(name) for name in names])
        return svg_of(axes, words.key, f"{words.title}: {words.unit}")


def draw_latencies(words: Words, spans: dict[tuple[str, int], Percentiles], clients: Clients) -> str:
    """Draws for each contestant and number of coroutines a line from the median (full) to p99 (hollow)."""
    contestants = list(dict.fromkeys(name for name, _ in spans))
    best = {name: min(span.p99.middle for (each, _), span in spans.items() if each == name) for name in contestants}
    order = sorted(spans, key=lambda key: (-best[key[0]], key[0], -key[1]))
    labels = clients.labels(contestants)
    fewest = min(concurrency for _, concurrency in spans)
    texts = [
        f"{labels[name]}  {concurrency}" if concurrency == fewest else f"{concurrency}" for name, concurrency in order
    ]
    with manner():
        axes = _bar_axes(words, len(order), texts, right=22)
        for number, key in enumerate(order):
            _draw_span(axes, number, spans[key], clients.style(key[0]))
        _set_times(axes, list(spans.values()))
        _embolden(axes, [clients.style(name) for name, _ in order])
        return svg_of(axes, words.key, f"{words.title}: {words.unit}")


def _draw_span(axes: Axes, number: int, span: Percentiles, style: Style) -> None:
    middle, p99 = span.median.middle, span.p99.middle
    axes.plot([span.p99.low, span.p99.high], [number, number], color=style.colour, linewidth=7, alpha=0.2)
    axes.plot([middle, p99], [number, number], color=style.colour, linewidth=style.width)
    size = 8 if style.strong else 6.5
    axes.plot([middle], [number], marker="o", markersize=size, color=style.colour, markeredgewidth=0)
    axes.plot(
        [p99],
        [number],
        marker="o",
        markersize=size,
        markerfacecolor="white",
        markeredgecolor=style.colour,
        markeredgewidth=1.5,
    )


def _set_times(axes: Axes, spans: list[Percentiles]) -> None:
    """Sets a logarithmic axis of microseconds, which are written as milliseconds when there are many."""
    lowest, highest = min(span.median.middle for span in spans), max(span.p99.high for span in spans)
    unit, name = (1000.0, "milliseconds") if highest >= 1000 else (1.0, "microseconds")
    axes.set_xscale("log")
    axes.set_xlim(lowest / 1.25, highest * 1.25)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if highest / lowest < 300 else (1.0,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:g}"))
    axes.set_xlabel(name)


def _bar_axes(words: Words, count: int, labels: list[str], right: float) -> Axes:
    """Returns axes with one line for each label, from the bottom up."""
    height = TITLE_HEIGHT + count * BAR_PITCH + BOTTOM
    left = min(text_width(labels, "bold") + EDGE + 6, WIDTH * 0.45)
    axes = new_axes(height, left, right, BOTTOM, words.title, words.unit)
    axes.set_ylim(-0.6, count - 0.4)
    axes.set_yticks(range(count), labels)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GRID_INK)
    axes.set_xlabel(words.axis)
    return axes


def _embolden(axes: Axes, styles: list[Style]) -> None:
    for label, style in zip(axes.get_yticklabels(), styles):
        label.set_color(style.ink)
        label.set_fontweight(WEIGHTS[style.strong])
