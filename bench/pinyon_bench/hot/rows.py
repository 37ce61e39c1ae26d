"""The rows of hot keys: gets of keys that are drawn by Zipf's law, one at a time.

Key number k is drawn in proportion to 1 / k to the power of SKEW, so a few keys make up most of the reads, as in caches that
serve people. Each draw is one get on one client, in a thread or in a task.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

from ..coroutines.rows import PairsRow
from ..declaration import Group
from ..goals import times_without_memory
from ..names import ASYNCIO, BLOCKING
from ..protocol import PairsSpec

SKEW = 1.1
KEYS = 100_000
VALUE_BYTES = 100
DRAWS = 1_000_000
DRAWS_SEED = 11
RUN_ROUNDS, RECORD_ROUNDS = 2, 3
#: How many times its own rate Pinyon reaches at least with hot keys in memory.
WANTED = 5

HOT = Group(
    "hot",
    "Hot keys",
    ": gets per second, one at a time",
    prefix=1,
    labels="model",
    note=f"{KEYS:,} keys with values of {VALUE_BYTES} bytes, drawn by Zipf's law with a skew of {SKEW:g}. Pinyon near and the "
    "hot cache of meta-memcache keep what they read in the memory of their process for a second; the others ask the server each "
    "time.",
)


@dataclass(frozen=True)
class HotRow(PairsRow):
    """Gets of drawn keys, one after another."""

    def pairs(self, count: int) -> list[list[str]]:
        """Returns the first pairs of key and text, the most wanted first. Each key has a value of its own."""
        return hot_pairs()[:count]

    def drawn(self, server: str, count: int) -> PairsSpec:
        """Returns the row for the contestant, with so many draws among all keys, and the pairs that are drawn."""
        drawn = draws()[:count]
        places = {key: place for place, key in enumerate(dict.fromkeys(drawn))}
        pairs = [hot_pairs()[key] for key in places]
        return {**self.spec(server, 1), "pairs": pairs, "draws": [places[key] for key in drawn], "warmup": 1}


@lru_cache(maxsize=1)
def hot_pairs() -> list[list[str]]:
    """Returns the pairs of key and text, the most wanted first."""
    return [[f"hot:{number}", f"value {number} "] for number in range(1, KEYS + 1)]


@lru_cache(maxsize=1)
def draws() -> list[int]:
    """Returns the drawn keys as places among the pairs, the same every time."""
    weights = list(accumulate(number**-SKEW for number in range(1, KEYS + 1)))
    return random.Random(DRAWS_SEED).choices(range(KEYS), cum_weights=weights, k=DRAWS)


def hot_rows(short: bool) -> list[HotRow]:
    """Returns the row of a thread and that of a task; `short` with the rounds of `run`."""
    thread = HotRow(
        name=f"{HOT.name}:thread",
        group=HOT.name,
        about=f"gets of keys drawn by Zipf's law (skew {SKEW:g}, {KEYS:,} keys), one thread",
        models=(BLOCKING,),
        operation="get",
        size=VALUE_BYTES,
        most_rounds=RUN_ROUNDS if short else RECORD_ROUNDS,
        order="shared",
        count=KEYS,
        goals=(times_without_memory(WANTED),),
    )
    about = thread.about.replace("one thread", "one task of asyncio")
    task = replace(thread, name=f"{HOT.name}:asyncio", about=about, models=(ASYNCIO,), concurrency=1)
    return [thread, replace(task, goals=(times_without_memory(WANTED, ASYNCIO),))]
