"""A proxy that is nearly Redis: ``python -m pinyon_verify.locks.relay DESCRIPTOR TARGET MANNER``.

The descriptor is that of a listening socket. What the manner refuses is answered by the server itself, with the
manner's words, so that replies stay in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable

from .resp import encoded

Command = list[bytes]


def _hello(words: str) -> Callable[[Command], str | None]:
    return lambda command: words if command[0].upper() == b"HELLO" else None


def _undeclared(words: str) -> Callable[[Command], str | None]:
    def refuse(command: Command) -> str | None:
        if command[0].upper() != b"FCALL":
            return None
        keys = command[3 : 3 + int(command[2])]
        # Calls about more than the locks' own keys declare the queue's.
        is_complete = len(keys) == 1 or any(key.endswith((b":#q", b":#p")) for key in keys)
        needs_none = command[1].startswith((b"pinyon_extend", b"pinyon_raise"))
        return None if is_complete or needs_none else words

    return refuse


#: What a relay refuses, and in which words.
MANNERS: dict[str, Callable[[Command], str | None]] = {
    "hello-envoy": _hello("unsupported command 'HELLO'"),
    "hello-cluster-proxy": _hello("ERR unsupported command `hello`"),
    "hello-acl": _hello("NOPERM this user has no permissions to run the 'hello' command"),
    "hello-miniredis": _hello("NOPROTO unsupported protocol version"),
    "undeclared-dragonfly": _undeclared(
        "ERR Error running script (call to f): @user_script:2: script tried accessing undeclared key, key: k"
    ),
    "undeclared-serverless": _undeclared("ERR Script attempted to access a key that was not declared in KEYS"),
}


async def _requests(
    reader: asyncio.StreamReader, server: asyncio.StreamWriter, refuse: Callable[[Command], str | None]
) -> None:
    while line := await reader.readline():
        command = []
        for _ in range(int(line[1:])):
            size = int((await reader.readline())[1:])
            command.append((await reader.readexactly(size + 2))[:-2])
        words = refuse(command)
        said = command if words is None else [b"EVAL", b"return redis.error_reply(ARGV[1])", b"0", words.encode()]
        server.write(encoded(*said))


async def _replies(reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        client.write(data)


async def _serve(listening: socket.socket, target: int, refuse: Callable[[Command], str | None]) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server = await asyncio.open_connection("127.0.0.1", target)

        async def there() -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await _requests(reader, server, refuse)
            server.close()

        async def back() -> None:
            with contextlib.suppress(OSError):
                await _replies(server_reader, writer)
            writer.close()

        await asyncio.gather(there(), back())

    async with await asyncio.start_server(accept, sock=listening) as listener:
        await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), MANNERS[sys.argv[3]]))
