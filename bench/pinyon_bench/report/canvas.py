"""An empty figure in the report's manner, and its SVG: small, without scripts or dates, the same for the same data."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from contextlib import AbstractContextManager
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextToPath
from matplotlib.transforms import IdentityTransform

# One unit is a CSS pixel where the figure is shown at its own width; a phone shows it a little smaller.
WIDTH = 380.0
TEXT_SIZE = 12.0
TITLE_HEIGHT = 50.0
EDGE = 10.0
INK, FAINT_INK, GRID_INK = "#1f2937", "#4b5563", "#e2e5ea"

SVG = "http://www.w3.org/2000/svg"
METADATA, STYLE = f"{{{SVG}}}metadata", f"{{{SVG}}}style"
XLINK = "{http://www.w3.org/1999/xlink}href"
SETTINGS: dict[str, Any] = {
    # Text stays text: it is small, can be searched and read aloud, and is set in the reader's own font.
    "svg.fonttype": "none",
    "text.parse_math": False,
    "svg.hashsalt": "pinyon",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": TEXT_SIZE,
    "text.color": INK,
    "axes.edgecolor": FAINT_INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.labelcolor": FAINT_INK,
    "axes.axisbelow": True,
    "grid.color": GRID_INK,
    "grid.linewidth": 0.8,
    "xtick.color": FAINT_INK,
    "ytick.color": FAINT_INK,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}
OWN_FONT = re.compile(r"font-family: [^;]*; ")
NUMBERED = {"d", "x", "y", "width", "height", "transform"}
LONG_NUMBER = re.compile(r"(\d\.\d\d)\d+")
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"


def manner() -> AbstractContextManager[None]:
    """Returns a context in which everything is drawn and saved in the report's manner."""
    return style.context(["default", SETTINGS])


def text_width(texts: list[str], weight: str = "normal") -> float:
    """Returns the room that the longest text takes in a wide font; most readers' fonts are narrower."""
    font = FontProperties(family="DejaVu Sans", weight=weight, size=TEXT_SIZE)
    return max((TextToPath().get_text_width_height_descent(text, font, ismath=False)[0] for text in texts), default=0.0)


def new_axes(height: float, left: float, right: float, bottom: float, title: str, unit: str) -> Axes:
    """Returns axes with margins in units; above them the title, and what they show in which unit."""
    figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    axes = figure.add_axes(
        (left / WIDTH, bottom / height, (WIDTH - left - right) / WIDTH, (height - bottom - TITLE_HEIGHT) / height)
    )
    figure.text(EDGE / WIDTH, (height - 20) / height, title, fontsize=13.5, fontweight="bold")
    figure.text(EDGE / WIDTH, (height - 37) / height, unit, color=FAINT_INK)
    axes.tick_params(length=3, pad=4)
    return axes


def add_line(axes: Axes, start: tuple[float, float], end: tuple[float, float], **look: Any) -> None:
    """Draws a line between two points of the figure, in units."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.add_artist(Line2D([start[0], end[0]], [start[1], end[1]], transform=IdentityTransform(), **look))


def svg_of(axes: Axes, key: str, title: str) -> str:
    """Returns the figure as an SVG element that can stand in a page beside others: `key` sets its identifiers apart."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    written = io.StringIO()
    nothing = {name: None for name in ("Creator", "Date", "Format", "Type")}
    figure.savefig(written, format="svg", metadata=nothing)
    return _tidied(written.getvalue(), key, title)


def _tidied(text: str, key: str, title: str) -> str:
    root = ElementTree.fromstring(text)
    for child in list(root):
        if child.tag == METADATA or child.find(STYLE) is not None:
            root.remove(child)
    _name_apart(root, key)
    for words in root.iter(f"{{{SVG}}}text"):
        words.set("style", OWN_FONT.sub("", words.get("style", "")))
        if words.get("transform", "").startswith("rotate(-0 "):
            del words.attrib["transform"]
    root.attrib.pop("version")
    for name in ("width", "height"):
        root.set(name, root.attrib[name].rstrip("pt"))
    heading = ElementTree.Element(f"{{{SVG}}}title", {"id": f"{key}-title"})
    heading.text = title
    root.insert(0, heading)
    root.attrib.update(
        {
            "role": "img",
            "aria-labelledby": f"{key}-title",
            "font-family": FONTS,
            "stroke-linejoin": "round",
            "stroke-linecap": "butt",
        }
    )
    for element in root.iter():
        element.text, element.tail = (element.text or "").strip(), ""
        for name in NUMBERED & element.attrib.keys():
            element.set(name, LONG_NUMBER.sub(r"\1", element.attrib[name]))
    ElementTree.register_namespace("", SVG)
    # One element to a line, for short differences between one record and the next.
    return ElementTree.tostring(root, encoding="unicode").replace("><", ">\n<")


def _name_apart(root: ElementTree.Element, key: str) -> None:
    """Keeps the identifiers that are referred to, with the key before them, and drops the others."""
    for element in root.iter():
        if XLINK in element.attrib:
            element.set("href", f"#{key}-{element.attrib.pop(XLINK)[1:]}")
        if "clip-path" in element.attrib:
            element.set("clip-path", element.attrib["clip-path"].replace("#", f"#{key}-"))
    used = {element.attrib["href"][1:] for element in root.iter() if "href" in element.attrib}
    used |= {element.attrib["clip-path"][5:-1] for element in root.iter() if "clip-path" in element.attrib}
    for element in root.iter():
        name = element.attrib.pop("id", "")
        if f"{key}-{name}" in used:
            element.set("id", f"{key}-{name}")
