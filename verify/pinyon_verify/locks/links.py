"""Links between processes that can be cut one by one: a proxy in front of each server, which knows who connects.

Servers, Sentinels and clients know each other by the proxies' addresses. Servers and Sentinels connect from addresses of
their own; of the others, the proxy asks the system which process it is. So it can cut a server off from some processes
and leave it to others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from ..ports import free_port

#: Connections stay open but carry nothing, in either direction, as if packets were lost. What was sent arrives later.
SILENT = "silent"
#: Connections are closed, and new ones too.
CLOSED = "closed"
#: The address from which processes connect that have none of their own.
OF_ALL = "127.0.0.1"


class Links:
    """A process with a proxy for each of these ports."""

    def __init__(self, ports: Iterable[int]) -> None:
        #: The proxy's port in front of each port.
        self.public = {port: free_port() for port in ports}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        listeners = [socket.create_server(("127.0.0.1", public), backlog=128) for public in self.public.values()]
        descriptors = [listener.fileno() for listener in listeners]
        words = [f"{descriptor}:{port}" for descriptor, port in zip(descriptors, self.public)]
        command = [sys.executable, "-m", __name__, *words]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, pass_fds=descriptors, **pipes)  # type: ignore[call-overload]
        for listener in listeners:
            listener.close()
        self._do("ready")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()

    def cut(self, sources: Iterable[str], ports: Iterable[int], how: str = SILENT) -> None:
        """Cut the links from these addresses or processes to the servers on these ports (their own, not the proxies')."""
        ports = list(ports)
        self._do("cut", [[source, port, how] for source in sources for port in ports])

    def heal(self) -> None:
        """Let all links carry everything again."""
        self._do("heal")

    def _do(self, what: str, rules: list[list[int | str]] | None = None) -> None:
        assert self._process is not None and self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([what, rules or []]).encode() + b"\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise RuntimeError("the proxies have ended")


class _Link:
    """One connection."""

    def __init__(self, source: str, port: int, client: asyncio.StreamWriter) -> None:
        self.source, self.port = source, port
        self.ends = [client]
        self.carries = asyncio.Event()
        self.carries.set()

    def cut(self, how: str) -> None:
        self.carries.clear()
        if how == CLOSED:
            for end in self.ends:
                end.transport.abort()


class _Proxies:
    def __init__(self) -> None:
        self._links: set[_Link] = set()
        self._rules: dict[tuple[str, int], str] = {}

    async def run(self, listening: dict[int, int]) -> None:
        for descriptor, port in listening.items():
            await asyncio.start_server(self._accepting(port), sock=socket.socket(fileno=descriptor))
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while line := await reader.readline():
            self._carry_out(*json.loads(line))
            print("done", flush=True)

    def _carry_out(self, what: str, rules: list[tuple[str, int, str]]) -> None:
        if what == "heal":
            self._rules.clear()
            for link in self._links:
                link.carries.set()
        self._rules.update({(source, port): how for source, port, how in rules})
        for link in list(self._links):
            how = self._rules.get((link.source, link.port))
            if how:
                link.cut(how)

    def _accepting(self, port: int):  # type: ignore[no-untyped-def]
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer, own = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
            source = peer[0] if peer[0] != OF_ALL else str(_process_at(peer[1], own[1]))
            link = _Link(source, port, writer)
            self._links.add(link)
            try:
                if how := self._rules.get((link.source, port)):
                    link.cut(how)
                await self._connect(link, reader, writer)
            finally:
                self._links.discard(link)
                writer.close()

        return accept

    async def _connect(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await link.carries.wait()
        if writer.transport.is_closing():
            return
        try:
            server_reader, server = await asyncio.open_connection("127.0.0.1", link.port)
        except OSError:
            return
        link.ends.append(server)
        await asyncio.gather(_pass_on(link, reader, server), _pass_on(link, server_reader, writer))


async def _pass_on(link: _Link, reader: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    """Forward one direction until its end, and tell the other side."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            await link.carries.wait()
            to.write(data)
            await to.drain()
    await link.carries.wait()
    to.close()


def _process_at(port: int, other: int) -> int:
    """Return the process with the connection from one port of this machine to another; 0 if it has gone."""
    wanted = (f"0100007F:{port:04X}", f"0100007F:{other:04X}")
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if (words[1], words[2]) == wanted:
            return _process_with(f"socket:[{words[9]}]")
    return 0


def _process_with(file: str) -> int:
    """Return the process with this open file, of those that the parent of this process has started."""
    for process in _siblings():
        with contextlib.suppress(OSError):
            folder = f"/proc/{process}/fd"
            if any(_target(f"{folder}/{descriptor}") == file for descriptor in os.listdir(folder)):
                return process
    return 0


def _siblings() -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{os.getppid()}/task").iterdir():
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return sorted(found, reverse=True)


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


if __name__ == "__main__":
    asyncio.run(_Proxies().run({int(a): int(b) for a, b in (word.split(":") for word in sys.argv[1:])}))
