"""What was written, and therefore what may be read. Every value identifies its key and its generation.

A miss proves nothing, as servers lose their data. There are three claims about a value that is read:

- *identity*: it is, byte for byte, a value made for this key;
- *future*: its write began before the read ended;
- *revival*: if keys stay on their servers (no failover), it had not been replaced. It is replaced if its write was
  acknowledged before another write or deletion began, and that one was acknowledged before the read began. A write
  without an acknowledgement may take effect later, when a paused server continues. A refused one never does.
"""

from __future__ import annotations

from collections import defaultdict

#: The sizes of values, chosen by generation.
SIZES = (20, 20, 300, 20, 3000, 20, 300, 20_000, 20, 300, 20, 70_000)
#: How many acknowledged generations of a key are kept: more than are written during any read.
REMEMBERED = 400
#: For how many refused generations the reasons are kept.
REASONS = 50


class Ledger:
    """The writes of one process.

    Args:
        keys_stay: whether each key stays on its server, so that a replaced value cannot come back.
    """

    def __init__(self, keys_stay: bool) -> None:
        self.keys_stay = keys_stay
        self._clock = 0
        self._last: dict[str, int] = defaultdict(int)
        #: Generations under way, or with an unknown outcome.
        self._open: dict[str, dict[int, int]] = defaultdict(dict)
        #: When each of the last generations was acknowledged.
        self._acknowledged: dict[str, dict[int, int]] = defaultdict(dict)
        #: Why each of the last refused generations was refused.
        self._refused: dict[str, dict[int, str]] = defaultdict(dict)
        #: When the latest acknowledged write or deletion began.
        self._floor: dict[str, int] = defaultdict(int)

    def begin(self, key: str) -> int:
        """Note the start of a write or deletion; returns its generation."""
        self._clock += 1
        self._last[key] += 1
        self._open[key][self._last[key]] = self._clock
        return self._last[key]

    def acknowledge(self, key: str, generation: int) -> None:
        """Note that the server has done it."""
        self._clock += 1
        begun = self._open[key].pop(generation)
        self._floor[key] = max(self._floor[key], begun)
        remembered = self._acknowledged[key]
        remembered[generation] = self._clock
        if len(remembered) > REMEMBERED:
            del remembered[next(iter(remembered))]

    def refuse(self, key: str, generation: int, why: str) -> None:
        """Note that it was not done and never will be."""
        del self._open[key][generation]
        remembered = self._refused[key]
        remembered[generation] = why
        if len(remembered) > REASONS:
            del remembered[next(iter(remembered))]

    def mark(self, key: str) -> int:
        """Note the start of a read: it must not return what has ended by now."""
        return self._floor[key]

    def judge(self, key: str, value: object, mark: int) -> str | None:
        """Returns what is wrong with a value read under this key, if anything."""
        generation = generation_of(key, value)
        if generation is None:
            return f"identity: under {key!r} was read {str(value)[:60]!r}"
        if generation > self._last[key]:
            return f"future: under {key!r} was read generation {generation}; the last is {self._last[key]}"
        if self.keys_stay and generation not in self._open[key]:
            acknowledged = self._acknowledged[key].get(generation)
            if acknowledged is None or acknowledged < mark:
                refused = self._refused[key].get(generation)
                why = f"was refused: {refused}" if refused else "had ended before"
                return f"revival: under {key!r} was read generation {generation}, which {why}"
        return None


def value_of(key: str, generation: int) -> str:
    """The value of one generation of a key."""
    head = f"{key} {generation} "
    return head + chr(97 + generation % 26) * SIZES[generation % len(SIZES)]


def generation_of(key: str, value: object) -> int | None:
    """Returns the generation of this key that the value belongs to; None if none does."""
    words = value.split(" ") if isinstance(value, str) else []
    if len(words) != 3 or words[0] != key or not words[1].isdecimal():
        return None
    generation = int(words[1])
    return generation if value == value_of(key, generation) else None
