"""Compression: which values are stored smaller than they are, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pinyon._native import check_compression

__all__ = ["Compression"]

if TYPE_CHECKING:
    from pinyon._settings import Algorithm


class Compression:
    """How a client compresses: ``pinyon.Client(…, compression=pinyon.Compression("zstd", threshold=4096))``.

    Compressed values are read by every client, whatever it is told about compression. Integers are never compressed,
    so that ``incr`` works.

    Args:
        algorithm: ``"zstd"``, ``"zlib"`` or ``"gzip"``; without it, what the client's dialect does: zstd in Pinyon's
            own.
        threshold: bytes from which a value is compressed; None to compress none and only read.
        minimum_gain: what share of its size a value must lose, from 0 to below 1, or it is stored as it is.
        level: from 1, fast, to 9 (zlib, gzip) or 19 (zstd), small; without it, the algorithm's usual one.
        dictionaries: what ``zstd --train`` made, by the ids in it. Values are read with any of them, and written with
            the last one.

    Raises:
        UsageError: an argument makes no sense; what depends on the client's dialect is found when the client is made.
    """

    __slots__ = ("algorithm", "dictionaries", "level", "minimum_gain", "threshold")

    def __init__(
        self,
        algorithm: Algorithm | None = None,
        *,
        threshold: int | None = 1024,
        minimum_gain: float = 0.1,
        level: int | None = None,
        dictionaries: Mapping[int, bytes] | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.threshold: int | None = threshold
        self.minimum_gain: float = minimum_gain
        self.level: int | None = level
        self.dictionaries: list[tuple[int, bytes]] = list((dictionaries or {}).items())
        check_compression(self)

    def __repr__(self) -> str:
        ids = ", ".join(str(number) for number, _ in self.dictionaries)
        return (
            f"<pinyon.Compression {self.algorithm or 'as the dialect does'}, threshold={self.threshold}, "
            f"minimum_gain={self.minimum_gain}, level={self.level}, dictionaries={{{ids}}}>"
        )
