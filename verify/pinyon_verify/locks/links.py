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
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from ..ports import free_port

#: Connections stay open but carry nothing, in either direction, as if packets were lost. What was sent arrives later.
SILENT = "silent"
#: Requests arrive, and the answers do not, until later.
DEAF = "deaf"
#: Connections are closed, and new ones too.
CLOSED = "closed"
#: The address from which processes connect that have none of their own.
OF_ALL = "127.0.0.1"
#: Of Linux: linux/netlink.h, linux/sock_diag.h.
_SOCKET_DIAGNOSIS, _BY_FAMILY, _REQUEST = 4, 20, 1


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
        """Let all links carry everything again, unchanged."""
        self._do("heal")

    def lead(self, sources: Iterable[str], ports: Iterable[int], to: int) -> None:
        """Close these links, and let new ones lead to another server."""
        ports = list(ports)
        self._do("lead", [[source, port, to] for source in sources for port in ports])

    def say(self, sources: Iterable[str], port: int, old: str, new: str) -> None:
        """Close these links, and change words in what new ones carry, in both directions. `old` is a regular expression."""
        self._do("say", [[source, port, old, new] for source in sources])

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
        #: Whether it carries requests, and answers.
        self.carries, self.answers = asyncio.Event(), asyncio.Event()
        #: What to change in what it carries.
        self.changes: list[tuple[re.Pattern[bytes], bytes]] = []
        self.heal()

    def changed(self, data: bytes) -> bytes:
        for old, new in self.changes:
            data = old.sub(new, data)
        return data

    def heal(self) -> None:
        self.carries.set()
        self.answers.set()
        self.changes = []

    def cut(self, how: str) -> None:
        self.answers.clear()
        if how != DEAF:
            self.carries.clear()
        if how == CLOSED:
            for end in self.ends:
                end.transport.abort()


class _Proxies:
    def __init__(self) -> None:
        self._links: set[_Link] = set()
        self._cuts: dict[tuple[str, int], str] = {}
        self._leads: dict[tuple[str, int], int] = {}
        self._changes: dict[tuple[str, int], list[tuple[re.Pattern[bytes], bytes]]] = {}

    async def run(self, listening: dict[int, int]) -> None:
        for descriptor, port in listening.items():
            await asyncio.start_server(self._accepting(port), sock=socket.socket(fileno=descriptor))
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while line := await reader.readline():
            self._carry_out(*json.loads(line))
            print("done", flush=True)

    def _carry_out(self, what: str, rules: list[list[str]]) -> None:
        if what == "heal":
            for kept in (self._cuts, self._leads, self._changes):
                kept.clear()
            for link in self._links:
                link.heal()
        for source, port, *facts in rules:
            key = (source, int(port))
            if what == "cut":
                self._cuts[key] = facts[0]
            elif what == "lead":
                self._leads[key] = int(facts[0])
            else:
                change = (re.compile(facts[0].encode("latin-1")), facts[1].encode("latin-1"))
                self._changes.setdefault(key, []).append(change)
            for link in [link for link in self._links if (link.source, link.port) == key]:
                link.cut(facts[0] if what == "cut" else CLOSED)

    def _accepting(self, port: int):  # type: ignore[no-untyped-def]
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer, own = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
            source = peer[0] if peer[0] != OF_ALL else str(_process_at(peer[1], own[1]))
            link = _Link(source, port, writer)
            self._links.add(link)
            try:
                link.changes = self._changes.get((source, port), [])
                if how := self._cuts.get((source, port)):
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
        port = self._leads.get((link.source, link.port), link.port)
        try:
            server_reader, server = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return
        link.ends.append(server)
        requests = _pass_on(link, link.carries, reader, server)
        await asyncio.gather(requests, _pass_on(link, link.answers, server_reader, writer))


async def _pass_on(link: _Link, carries: asyncio.Event, reader: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    """Forward one direction until its end, and tell the other side."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            await carries.wait()
            to.write(link.changed(data))
            await to.drain()
    await carries.wait()
    to.close()


def _process_at(port: int, other: int) -> int:
    """Return the process with the connection from one port of this machine to another; 0 if it has gone."""
    inode = _inode(port, other)
    return _process_with(f"socket:[{inode}]") if inode else 0


def _inode(port: int, other: int) -> int:
    """Ask the kernel for one socket. In /proc/net/tcp it lists all, which takes milliseconds."""
    address = socket.inet_aton(OF_ALL) + bytes(12)
    wanted = struct.pack("!HH", port, other) + address + address + struct.pack("=IQ", 0, 0xFFFF_FFFF_FFFF_FFFF)
    request = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFF_FFFF) + wanted
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCKET_DIAGNOSIS) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(request), _BY_FAMILY, _REQUEST, 1, 0) + request)
        answer = kernel.recv(4096)
    # A header, and what is known of the socket, which ends with its inode.
    return struct.unpack_from("=I", answer, 84)[0] if struct.unpack_from("=H", answer, 4)[0] == _BY_FAMILY else 0


#: Processes that connected before, which will again.
_known: list[int] = []


def _process_with(file: str) -> int:
    """Return the process with this open file, of those that the parent of this process has started, and that one."""
    for process in _known:
        if _has(process, file):
            return process
    for process in _siblings():
        if process not in _known and _has(process, file):
            _known.append(process)
            return process
    return 0


def _has(process: int, file: str) -> bool:
    folder = f"/proc/{process}/fd"
    try:
        return any(_target(f"{folder}/{descriptor}") == file for descriptor in os.listdir(folder))
    except OSError:
        return False


def _siblings() -> list[int]:
    found = [os.getppid()]
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
