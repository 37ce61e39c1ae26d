"""Figures in the report's style, and their SVG: without scripts or dates, and the same for the same data.

Figures are transparent, and every colour stands out from a white page as well as from a dark one.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# One unit is a CSS pixel where the figure is shown at its own width; a phone shows it a little smaller.
WIDTH = 400.0
#: Of text, and of axes. They are grey because they must be read on white and on black.
INK, FAINT_INK = "#747b87", "#7b8390"
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
SETTINGS: dict[str, Any] = {
    # Text stays text: it is small, can be searched and read aloud, and is set in the reader's own font.
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 12,
    "figure.dpi": 72,
    "figure.titlesize": 13.5,
    "figure.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.1,
    "figure.constrained_layout.w_pad": 0.11,
    "text.color": INK,
    "axes.edgecolor": FAINT_INK,
    "axes.titlesize": 12,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.grid": True,
    "grid.color": FAINT_INK,
    "grid.alpha": 0.25,
    "xtick.color": FAINT_INK,
    "ytick.color": FAINT_INK,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}
#: What goes before an SVG stands in a page: its header, its own style, its choice of fonts, and what nothing refers to.
NEEDLESS = re.compile(
    r"""^.*?<svg(?= )|<defs>\s*<style.*?</style>\s*</defs>| xmlns:xlink="[^"]*"| version="1.1"|xlink:|(?<=\d)pt(?=")"""
    r"""| id="(?![mph][0-9a-f]{10}")[^"]*"|font-family: [^;"]*; |^ +""",
    re.DOTALL | re.MULTILINE,
)
PLACES = re.compile(r'(?<= )(?:d|x|y|width|height|transform)="[^"]*"')
LONG_NUMBER = re.compile(r"(\d\.\d\d)\d+")


@contextmanager
def new_axes(height: float, title: str, unit: str) -> Iterator[Axes]:
    """Gives axes in the report's style; above them the title, and what they show in which unit."""
    with style.context(["default", SETTINGS]):
        figure = Figure(figsize=(WIDTH / 72, height / 72))
        axes = figure.add_subplot()
        figure.suptitle(title, x=0.02, horizontalalignment="left")
        # Its line is kept by an empty title of the axes; it begins where the title does.
        axes.set_title(" ")
        place, coordinates = (0.02, 1.0), ("figure fraction", "axes fraction")
        below = axes.annotate(unit, place, (0, 7), coordinates, "offset points", color=INK)
        below.set_in_layout(False)
        yield axes


def svg_of(axes: Axes, key: str, title: str) -> str:
    """Returns the figure as an SVG element that can stand in a page beside others: `key` sets its identifiers apart."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    written = io.StringIO()
    with style.context({"svg.hashsalt": key}):
        figure.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    drawn = PLACES.sub(lambda places: LONG_NUMBER.sub(r"\1", places[0]), NEEDLESS.sub("", written.getvalue()))
    return f'<svg role="img" aria-label="{escape(title)}" font-family="{FONTS}" stroke-linejoin="round"{drawn.rstrip()}'
