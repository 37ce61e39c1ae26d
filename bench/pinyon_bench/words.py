"""The benchmark's own words, explained once for every page, table and help text that uses them."""

from __future__ import annotations

import re

FLOOR_SAYS = (
    "The **floor** is a minimal Rust program that sends and receives Pinyon's bytes on a blocking socket. It checks no "
    "reply and makes no Python object. Its rate is about the highest that any client could reach on this machine."
)
BARE_SAYS = "The **bare socket** is the same in Python: one request, one reply, one preallocated buffer."
SEED_SAYS = (
    "A **seed** is a published benchmark whose workload is repeated here: Dalli and memcache-client (seeds 000 and 001), "
    "memcached with gevent (002), Mcc (003), and Redis::EM::Mutex for locks (004)."
)
NOISE_SAYS = (
    "**The same within noise** (~): over the rounds, the ratio of two rates was sometimes above and sometimes below 1."
)
ROUNDS_SAYS = (
    "In each **round** all clients take turns, row by row. Rates are medians over the rounds; ratios are medians of the "
    "ratios within each round. Slow and steady rows have fewer rounds than the others; each table says how many."
)
TARGETS_SAY = (
    "A **target** is what another processor hardly changes: a share of the floor's rate at the same concurrency, processor "
    "time per operation, system calls, or instructions. Factors over other clients are shown, not promised."
)
#: A link in Markdown.
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
#: In the order in which a reader needs them.
EXPLANATIONS = (FLOOR_SAYS, BARE_SAYS, TARGETS_SAY, SEED_SAYS, ROUNDS_SAYS, NOISE_SAYS)


def rounds_text(rounds: int) -> str:
    """Returns how many rounds there were, in words: 1 round, 5 rounds."""
    return f"{rounds} round{'s' * (rounds != 1)}"


def linkless(text: str) -> str:
    """Returns a text without Markdown's links, for places that the linked files do not come with."""
    return LINK.sub(r"\1", text)


def plain(text: str) -> str:
    """Returns a text without the marks of Markdown's bold face."""
    return text.replace("**", "")
