"""How plots look: colours for light and dark pages, and names that do not cover each other."""

from __future__ import annotations

import re

import pytest
from made_up import narrowed

from pinyon_bench.contestant import REPOSITORY
from pinyon_bench.report.canvas import FAINT_INK, INK
from pinyon_bench.report.clients import BOUND_COLOUR, OTHER_COLOURS, OUR_COLOUR, Clients
from pinyon_bench.report.drawing import NAME_HEIGHT, apart
from pinyon_bench.report.figures import sections
from pinyon_bench.results import Document

#: GitHub's pages, and the documentation's, which are less dark.
PAGES = ("#ffffff", "#0d1117", "#1e2129")
#: What the accessibility guidelines (WCAG 2) want of graphics and of large text.
LEAST_CONTRAST = 3.0
COLOUR = re.compile(r"(?:fill|stroke): (#[0-9a-f]{6})")


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("page", PAGES)
def test_colours_stand_out_from_light_and_dark_pages(page: str) -> None:
    for colour in (OUR_COLOUR, BOUND_COLOUR, INK, FAINT_INK, *OTHER_COLOURS):
        assert contrast(colour, page) >= LEAST_CONTRAST, colour


def test_plots_in_the_repository_have_no_other_colours() -> None:
    for path in sorted((REPOSITORY / "docs" / "plots").glob("*.svg")):
        used = set(COLOUR.findall(path.read_text(encoding="utf-8")))
        assert used <= {OUR_COLOUR, BOUND_COLOUR, INK, FAINT_INK, *OTHER_COLOURS}, path.name


def test_our_client_has_the_same_colour_in_every_plot(full: Document) -> None:
    clients = Clients(full)
    ours = {clients.style(name).colour for name in full.present() if clients.is_ours(name)}
    others = {clients.style(name).colour for name in full.present() if not clients.is_ours(name)}
    assert ours == {OUR_COLOUR} and OUR_COLOUR not in others


def test_every_line_of_latencies_names_its_client(full: Document) -> None:
    plot = next(
        plot for each in sections(narrowed(full, "gevent")) for plot in each.plots if plot.key == "latency-gevent-get"
    )
    texts = re.findall(r">([^<>]+)</text>", plot.svg)
    assert {f"{client}, {many}" for client in ("Pinyon", "pylibmc", "libmc", "floor") for many in (16, 64)} < set(texts)


@pytest.mark.parametrize("heights", [[0.5], [0.1, 0.1, 0.1], [0.9, 0.98, 1.0], [0.0, 0.01, 0.5, 0.52, 1.0], []])
def test_names_beside_a_plot_do_not_cover_each_other(heights: list[float]) -> None:
    places = apart(heights, NAME_HEIGHT)
    assert len(places) == len(heights) and all(place <= 1.0 for place in places)
    assert all(more - fewer >= NAME_HEIGHT - 1e-9 for fewer, more in zip(places, places[1:]))
    assert not places or places[0] == heights[0] or places[-1] == 1.0, "names move up, and down only at the top"
    if all(more - fewer >= NAME_HEIGHT for fewer, more in zip(heights, heights[1:])):
        assert places == heights
