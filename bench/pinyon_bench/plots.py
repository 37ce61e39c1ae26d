"""Plots as SVG: rates along an axis, and bars of latency and of processor time.

They are transparent, and every colour stands out from a white page as well as from a dark one. The same data make the same
file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator
from functools import partial
from statistics import median
from typing import Any, Optional

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from .catalogue import GROUPS
from .compare import participants, rate, samples_of
from .declaration import Group
from .locks.workloads import HANDOVER, group_of
from .names import ASYNCIO, BARE, FLOOR, GEVENT, OURS, UVLOOP, model_of
from .results import Document, RowInfo

INK = "#747b87"
OUR_COLOUR, BOUND_COLOUR = "#d9480f", "#7b8390"
OTHER_COLOURS = ("#2b7fd0", "#10906a", "#c0509f", "#a07020", "#8a63d2", "#0c8599", "#5f8a2a", "#96708a", "#6b74e8")
MARKERS = "so^DvPX<>p"
#: Text stays text: it is small, can be searched, and is set in the reader's own font.
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.labelcolor": "linecolor",
    "legend.fontsize": 10,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "grid.color", "xtick.color", "ytick.color"), INK
    ),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "savefig.facecolor"), "none"),
}
AXES = {"concurrency": "coroutines, threads or workers at once", "size": "bytes of the value", "keys": "keys or names"}
#: The row whose bars are shown of each group of coroutines.
COROUTINES_AT_ONCE = 16
Draw = Callable[[Axes], None]
#: Computes two values of a contestant in a row.
Ends = Callable[[Document, str, str], Optional[tuple[float, float]]]
#: The first words of contestants that are no clients.
BOUNDS = (FLOOR, BARE.split()[0])


def drawn(document: Document, keys: Collection[str] = ()) -> dict[str, str]:
    """Returns the plots by key, all or these."""
    return {key: _svg(key, title, draw) for key, title, draw in _plots(document) if not keys or key in keys}


def _svg(key: str, title: str, draw: Draw) -> str:
    with style.context(["default", SETTINGS, {"svg.hashsalt": key}]):
        figure = Figure(figsize=(5.6, 3.6))
        axes = figure.add_subplot()
        axes.set_title(title)
        draw(axes)
        written = io.StringIO()
        figure.savefig(
            written, format="svg", bbox_inches="tight", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
        )
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def _plots(document: Document) -> Iterator[tuple[str, str, Draw]]:
    for group in GROUPS.values():
        if group.axis:
            yield from _curves_of(document, group)
    blocking = [row for row in document.rows if row.name == "get:36B"]
    at_once = [row for row in document.rows if row.group in (GEVENT, ASYNCIO, UVLOOP) and row.operation == "get"]
    at_once = [row for row in at_once if row.concurrency == COROUTINES_AT_ONCE]
    bars: tuple[tuple[str, list[RowInfo], Ends, str, bool], ...] = (
        ("Latency", [*at_once, *document.rows_of(group_of(HANDOVER))], _latency, "µs: median, light: to p99", True),
        ("Processor time", [*blocking, *at_once], _processor, "µs per operation: user, light: kernel", False),
    )
    for what, rows, ends, unit, logarithmic in bars:
        for row in rows:
            found = {name: pair for name in document.present() if (pair := ends(document, row.name, name))}
            if found:
                key = f"{what.partition(' ')[0].lower()}-{_key(row.name)}"
                yield key, f"{what}: {row.name}", partial(_draw_bars, found, unit, logarithmic)


def _key(name: str) -> str:
    return name.replace(":", "-").replace("/", "-")


def _curves_of(document: Document, group: Group) -> Iterator[tuple[str, str, Draw]]:
    """Gives a plot of rates for each concurrency model of a group: of gets, as sets look alike, and of the smallest values."""
    panels: dict[tuple[str, int], list[RowInfo]] = {}
    rows = [row for row in group.rows(document) if row.operation != "set" and _place(group, row)]
    rows = [row for row in rows if participants(document, [row.name])]
    for row in rows:
        if group.axis == "size" or row.size == min(each.size for each in rows):
            panels.setdefault((row.operation, row.servers), []).append(row)
    for (operation, servers), found in panels.items():
        names = participants(document, [row.name for row in found])
        models = list(dict.fromkeys(model_of(name) for name in names if name.split()[0] == OURS))
        for model in models if len(found) > 1 else ():
            shown = [name for name in names if name.split()[0] in BOUNDS or model_of(name) == model]
            several = f", {model}" * (len(models) > 1)
            parts = [group.name, operation * (operation not in group.name), str(servers) * (not operation)]
            key = _key("-".join(part for part in (*parts, several.strip(", ")) if part))
            title = group.title.partition(" (")[0] + f", {operation}" * (parts[1] != "") + several
            title += f", {servers} servers" * (servers > 1)
            yield key, title, partial(_draw_curves, document, group, found, shown)


def _place(group: Group, row: RowInfo) -> int:
    return {"concurrency": row.concurrency, "size": row.size, "keys": row.keys, "": 0}[group.axis]


def _colour(names: list[str], name: str) -> str:
    if name.split()[0] in BOUNDS:
        return BOUND_COLOUR
    if name == next((each for each in names if each.split()[0] == OURS), None):
        return OUR_COLOUR
    return OTHER_COLOURS[names.index(name) % len(OTHER_COLOURS)]


def _draw_curves(document: Document, group: Group, rows: list[RowInfo], names: list[str], axes: Axes) -> None:
    places = sorted({_place(group, row) for row in rows})
    for number, name in enumerate(names):
        known = {_place(group, row): found for row in rows if (found := rate(document, row.name, name))}
        strong, bound = name.split()[0] == OURS, name.split()[0] in BOUNDS
        look: dict[str, Any] = {"linewidth": 2.6 if strong else 1.3, "linestyle": "--" if bound else "-"}
        look |= {"marker": MARKERS[number % len(MARKERS)], "markersize": 5, "color": _colour(names, name)}
        axes.plot(list(known), list(known.values()), label=name.removesuffix(f" {model_of(name)}"), **look)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda place, _: f"{place:g}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(AXES[group.axis])
    axes.set_ylabel(group.counted.strip(",: ").partition(",")[0])
    axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.45, -0.16))


def _latency(document: Document, row: str, name: str) -> tuple[float, float] | None:
    found = [each.latency for each in samples_of(document, row, name) if each.latency]
    return (median(each.median for each in found), median(each.p99 for each in found)) if found else None


def _processor(document: Document, row: str, name: str) -> tuple[float, float] | None:
    found = samples_of(document, row, name)
    if not found:
        return None
    user, both = ([part(each) / each.operations for each in found] for part in (_user, _busy))
    return median(user), median(both)


def _user(sample: Any) -> float:
    return float(sample.user)


def _busy(sample: Any) -> float:
    return float(sample.user + sample.system)


def _draw_bars(found: dict[str, tuple[float, float]], unit: str, logarithmic: bool, axes: Axes) -> None:
    """Draws for each contestant a strong bar to the first of two values, and a light one from there to the second."""
    names = list(found)
    for name, (low, high) in reversed(found.items()):
        colour = _colour(names, name)
        axes.barh(name, low * 1e6, color=colour)
        axes.barh(name, (high - low) * 1e6, left=low * 1e6, color=colour, alpha=0.4)
        shown = " / ".join(f"{each * 1e6:,.0f}" if each > 1e-5 else f"{each * 1e6:.2f}" for each in (low, high))
        axes.annotate(shown, (high * 1e6, name), (4, -4), textcoords="offset points")
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xlim(left=min(low for low, _ in found.values()) * 5e5)
    axes.margins(x=0.25)
    axes.set_xlabel(unit)
