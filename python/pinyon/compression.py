"""Compression: which values are compressed, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pinyon._native import check_compression

__all__ = ["Compression"]

if TYPE_CHECKING:
    from pinyon._settings import Algorithm


class Compression:
    """How a client compresses: ``pinyon.Client(…, compression=pinyon.Compression("zstd", threshold=4096))``.

    Every client reads compressed values, with this setting or without it. Integers are never compressed, so ``incr``
    works.

    Args:
        algorithm: ``"zstd"``, ``"zlib"`` or ``"gzip"``. By default, the algorithm of the client's dialect, which is
            zstd for Pinyon's own.
        threshold: the size from which values are compressed, in bytes. None compresses nothing.
        minimum_gain: the share of its size that a value must lose, from 0 to below 1. Otherwise it is stored
            uncompressed.
        level: from 1 (fast) to 9 (zlib, gzip) or 19 (zstd). By default, the algorithm's own default.
        dictionaries: dictionaries that ``zstd --train`` made, by the ids in them. Any of them can read values; the last
            one writes them.

    Raises:
        UsageError: an argument cannot be used. A conflict with the client's dialect is reported when the client is
            made.
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
