"""The comparison's results: the table in ``docs/rings.md``, and ``vectors/rings.json`` for other languages.

``make rings`` writes both.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from other_rings.comparing import RATIONAL, RINGS, Case, compare, places
from other_rings.fleets import FRACTIONS, IPV6, MANY, NAMESPACE, REFUSING, THREE, UNIX, WEIGHTS

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = REPOSITORY / "docs" / "rings.md"
VECTORS = REPOSITORY / "vectors" / "rings.json"

HEAD = "| `ring` | the ring of | weights | namespace | keys of a failed server go | keys compared | misplaced |"
KEYS = ["foo", "bar", "user:1", "user:2", "session:abc", "a", "longer:key:0123456789:0123456789", "größe", "ключ", "🌲"]


def rows() -> list[str]:
    """The present rows of the table."""
    lines = PAGE.read_text().splitlines()
    begin = lines.index(HEAD) + 2
    end = next(number for number, line in enumerate(lines[begin:], begin) if not line.startswith("|"))
    return lines[begin:end]


def write_page() -> None:
    text = PAGE.read_text()
    with tempfile.TemporaryDirectory() as directory:
        new = [compared(ring.name, Path(directory)) for ring in RINGS]
    PAGE.write_text(text.replace("\n".join(rows()), "\n".join(new)))


def compared(name: str, directory: Path) -> str:
    """The row of a ring according to a new comparison."""
    ring = next(ring for ring in RINGS if ring.name == name)
    cases = list(ring.cases(directory))
    wrong = [key for case in cases for key in compare(ring, case)]
    return ring.row(sum(len(case.keys) for case in cases), len(wrong))


def write_vectors() -> None:
    """Writes Pinyon's placements, which the comparison has confirmed."""
    vectors = json.loads(VECTORS.read_text())
    vectors.pop("by_name", None)
    others = json.dumps(vectors, indent=1).removesuffix("\n}")
    lines = ",\n".join(json.dumps(vector) for ring in RINGS for vector in _vectors(ring.name))
    VECTORS.write_text(f'{others},\n "by_name": {{"keys": {json.dumps(KEYS)}, "rings": [\n{lines}\n]}}\n}}\n')


def _vectors(name: str) -> Iterator[dict[str, Any]]:
    ring = next(ring for ring in RINGS if ring.name == name)
    fleets = [THREE, MANY, UNIX, IPV6, NAMESPACE, *([WEIGHTS] if ring.weights != "refused" else [])]
    fleets += [FRACTIONS] if ring.weights == RATIONAL else []
    cases = [Case(fleet, KEYS) for fleet in fleets] + [Case(REFUSING, KEYS, dead) for dead in ({1}, {0, 3})]
    for case in cases:
        yield {
            "ring": name,
            "servers": case.fleet.texts,
            "namespace": case.fleet.namespace,
            "down": sorted(case.dead),
            "places": places(name, case),
        }


if __name__ == "__main__":
    write_page()
    write_vectors()
