"""Reads requests like a server, and renders the replies of scenarios, for memcached and for RESP."""

from __future__ import annotations

import re
from collections.abc import Callable

#: memcached's commands with a data block, and the position of its length.
STORES = {b"ms": 2, **dict.fromkeys((b"set", b"add", b"replace", b"append", b"prepend", b"cas"), 4)}

#: The placeholders in a reply.
PLACE = re.compile(r"\{(?:(opaque|key|\d+)|([^{}]*)\*(\d+))\}")

#: Reads so many bytes, or a line without its end.
Read = Callable[[int], bytes]
ReadLine = Callable[[], bytes]


def read_memcached(line: ReadLine, read: Read) -> bytes:
    """The next command line. Its data block is read and dropped."""
    request = line()
    words = request.split()
    if words and words[0] in STORES:
        read(int(words[STORES[words[0]]]) + 2)
    return request


def read_resp(line: ReadLine, read: Read) -> bytes:
    """The next command, with its parts joined by spaces."""
    parts = []
    for _ in range(int(line()[1:])):
        size = int(line()[1:])
        parts.append(read(size + 2)[:-2])
    return b" ".join(parts)


def render(template: str, request: bytes) -> bytes:
    """The bytes of a reply to this request.

    Each character is one byte. ``{key}`` stands for the request's second word, ``{opaque}`` for its opaque, ``{3}``
    for its fourth word, and ``{x*1000}`` for a thousand times ``x``.
    """
    words = request.decode("latin-1").split()

    def fill(place: re.Match[str]) -> str:
        name, text, times = place.groups()
        if times:
            return str(text) * int(times)
        if name == "opaque":
            return next((word[1:] for word in words[2:] if word.startswith("O")), "")
        index = 1 if name == "key" else int(name)
        return words[index] if index < len(words) else ""

    return PLACE.sub(fill, template).encode("latin-1")
