"""What the pages of the documentation hold: code blocks, and links with the anchors they lead to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
#: What the benchmark printed.
TABLES = REPOSITORY / "docs" / "performance-tables.md"
#: Pages whose blocks a reader may paste.
GUIDES = [REPOSITORY / "README.md", REPOSITORY / "python" / "README.md"]
GUIDES += [page for page in sorted((REPOSITORY / "docs").glob("*.md")) if page != TABLES]
#: All pages that readers open.
PAGES = sorted(
    {
        *GUIDES,
        TABLES,
        *REPOSITORY.glob("*.md"),
        *(
            page
            for folder in ("bench", "verify", "scenarios", "vectors")
            for page in (REPOSITORY / folder).glob("*.md")
        ),
    }
)

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<source>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    source: str

    @property
    def name(self) -> str:
        inside = self.page.relative_to(REPOSITORY) if REPOSITORY in self.page.parents else self.page
        return f"{inside}:{self.line}"

    @property
    def module(self) -> str:
        """A name for a file of its own."""
        return re.sub(r"\W", "_", self.name) + ".py"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(page, text[: fence.start()].count("\n") + 1, fence["language"], fence["source"])
        for fence in _FENCE.finditer(text)
    ]


def without_code(text: str) -> str:
    """The text of a page without its blocks and its code spans."""
    return re.sub(r"(`+)(?!`).+?\1", "", _FENCE.sub("", text))


def links(page: Path) -> list[str]:
    """Where the links and images of a page lead to."""
    text = without_code(page.read_text())
    inline = re.findall(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)", text)
    return [
        *inline,
        *re.findall(r"^\[[^\]]+\]: (\S+)", text, re.MULTILINE),
        *re.findall(r"<(?:img|source)[^>]* src(?:set)?=\"([^\"]+)\"", text),
    ]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as repository browsers and the site make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).lower()
        anchor = base = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        repetition = 0
        while anchor in found:
            repetition += 1
            anchor = f"{base}-{repetition}"
        found.add(anchor)
    return found
