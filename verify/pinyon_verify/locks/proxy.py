"""A TCP proxy that cuts connections at bad moments: ``python -m pinyon_verify.locks.proxy DESCRIPTOR TARGET SEED
HOW…``.

The descriptor is that of a listening socket.

``before-send``: the client's message is not passed on. ``before-reply``: it is, but the reply is not.
``mid-reply``: half of a reply is. ``half-open``: from some moment on nothing is passed on, and for a while neither
side is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import sys
from collections.abc import Coroutine

KINDS = ("before-send", "before-reply", "mid-reply", "half-open")

#: The most messages before a connection is cut.
LONGEST = 60
#: The most seconds for which a connection stays half-open.
SILENCE = 2.0


class Link:
    """One connection through the proxy, with when and how to cut it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter, seeded: random.Random) -> None:
        self.client, self.server = client, server
        self.how = seeded.choice(sys.argv[4:] or list(KINDS))
        # Not always in the greeting: some cuts come early, most in the middle of work.
        self.messages = int(seeded.triangular(1, LONGEST, LONGEST / 3))
        self.part = seeded.random()
        self.silence = seeded.uniform(0.2, SILENCE)
        self.abrupt = seeded.random() < 0.5
        self.armed = False

    def is_due(self) -> bool:
        self.messages -= 1
        return self.messages <= 0

    async def cut(self) -> None:
        print(self.how, flush=True)
        if self.how == "half-open":
            await asyncio.sleep(self.silence)
        for end in (self.client, self.server):
            if self.abrupt:
                end.transport.abort()
            else:
                end.close()


async def _requests(reader: asyncio.StreamReader, link: Link) -> None:
    while data := await reader.read(1 << 16):
        if link.is_due():
            if link.how in ("before-send", "half-open"):
                return await link.cut()
            link.armed = True
        link.server.write(data)


async def _replies(reader: asyncio.StreamReader, link: Link) -> None:
    while data := await reader.read(1 << 16):
        if link.how == "half-open" and link.messages <= 0:
            continue
        if link.armed and link.how in ("before-reply", "mid-reply"):
            if link.how == "mid-reply":
                link.client.write(data[: int(len(data) * link.part)])
            return await link.cut()
        link.client.write(data)


async def _pass_on(work: Coroutine[None, None, None], to: asyncio.StreamWriter) -> None:
    """Forward one direction until its end, and tell the other side."""
    with contextlib.suppress(OSError):
        await work
    to.close()


async def _serve(listening: socket.socket, target: int, seeded: random.Random) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        link = Link(writer, server, seeded)
        await asyncio.gather(
            _pass_on(_requests(reader, link), server),
            _pass_on(_replies(server_reader, link), writer),
        )

    async with await asyncio.start_server(accept, sock=listening) as listener:
        await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), random.Random(sys.argv[3])))
