#!/usr/bin/env python3
"""Checks that what the pages of the built site refer to is in the site: `tools/site_files.py FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class References(HTMLParser):
    """What a page refers to, and the anchors that it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.anchors = {""}
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Called by the parser for each tag."""
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.addresses.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def missing(folder: Path) -> Iterator[str]:
    """Yields each page with an address that leads nowhere."""
    pages = {page.resolve(): References(page) for page in sorted(folder.rglob("*.html"))}
    for page, references in pages.items():
        for address in references.addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else None
            if not target.exists() or (anchors is not None and unquote(parts.fragment) not in anchors):
                yield f"{page.relative_to(folder.resolve())}: {address}"


if __name__ == "__main__":
    found = list(missing(Path(sys.argv[1])))
    sys.exit("\n".join(["the site lacks what these refer to:", *found]) if found else None)
