"""The server's own history: the output of ``MONITOR``, including the commands inside scripts, in order of execution."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .resp import encoded
from .server import Server
from .settings import NAMESPACE

#: What a tracer echoes to know that it has seen everything.
END = "pinyon-verify-end"
#: Seconds that a server may need for that, on any machine.
ENDING = 20.0

_RESET = b"-- a server begins anew --\n"
_LINE = re.compile(rb"^\+?(\d+)\.(\d+) \[\d+ ([^\]]+)\] (.*)$")
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)")
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}

_LOCK = f"{{{NAMESPACE}}}:l:".encode()
_POOL = f"{{{NAMESPACE}}}:p:".encode()
_QUEUE = f"{{{NAMESPACE}}}:#q".encode()
_RECORDS = f"{{{NAMESPACE}}}:#w".encode()
_INTERESTING = re.compile(rb'"(FCALL|EVALSHA|PSETEX|ZADD|ZREM|HSET|HDEL|FLUSHALL|DEL)"', re.IGNORECASE)


class Tracer:
    """A thread that records what a server executes, until it is stopped."""

    def __init__(self, server: Server, path: Path) -> None:
        self._server, self._path = server, path
        self._stopped = threading.Event()
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._began.wait(5)

    def stop(self) -> None:
        """Stop once everything executed so far is recorded."""
        deadline = time.monotonic() + ENDING
        while time.monotonic() < deadline and not self._stopped.is_set():
            with contextlib.suppress(OSError):
                self._server.ask("ECHO", END)
            self._stopped.wait(1.0)
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with self._path.open("wb") as file:
            while not self._stopped.is_set():
                try:
                    with socket.create_connection(("127.0.0.1", self._server.port), 1) as monitor:
                        monitor.sendall(encoded("MONITOR"))
                        monitor.settimeout(0.05)
                        file.write(_RESET)
                        self._copy(monitor, file)
                except OSError:
                    time.sleep(0.005)

    def _copy(self, monitor: socket.socket, file: object) -> None:
        tail = b""
        while True:
            try:
                data = monitor.recv(1 << 18)
            except TimeoutError:
                if self._stopped.is_set():
                    return
                continue
            if not data:
                return
            self._began.set()
            file.write(data)  # type: ignore[attr-defined]
            tail = (tail + data)[-len(data) - len(END) :]
            if END.encode() in tail:
                self._stopped.set()
                return


@dataclass(frozen=True)
class Step:
    """One action of the server.

    ``granted`` (attempt, token, name), ``queued`` (attempt, ticket, name), ``dequeued`` (attempt, ticket, name),
    ``known`` (attempt until a millisecond of the server's clock), ``reads`` (attempt that is known, name), ``unlocked``
    (attempt), ``adopts`` (attempt), ``joined`` (attempt until a millisecond, name of which it has a part now), ``left`` (attempt,
    name, of which it has this part no more; nobody has one if no attempt is named), ``reset``: all data is gone. The name of a pool begins with NUL.
    """

    #: Microseconds of the server's clock.
    at: int
    kind: str
    attempt: str = ""
    number: int = 0
    name: str = ""
    #: Which of its permits, from 1 on; 0 for a reader.
    part: int = 0


def steps(path: Path) -> Iterator[Step]:
    """Return what a trace says about locks; it says nothing about those of the pure handler."""
    asked: Step | None = None
    with path.open("rb") as file:
        for text in file:
            if text == _RESET:
                asked = None
                yield Step(0, "reset")
                continue
            if asked is not None:
                if b" lua] " in text[:40]:
                    # The requested script was found and runs.
                    yield asked
                asked = None
            if not _INTERESTING.search(text):
                continue
            line = _LINE.match(text.rstrip(b"\r\n"))
            if line is None:
                continue
            at = int(line[1]) * 1_000_000 + int(line[2])
            words = [_ESCAPE.sub(_unescaped, word) for word in _WORD.findall(line[4])]
            if line[3] == b"lua":
                yield from _inner(at, words)
            else:
                asked = _asked(at, words)
                # Clients of the pure handler do it themselves.
                yield from _parts(at, words)
                if words[0].upper() == b"FLUSHALL" or (words[0] == b"DEL" and {_QUEUE, _RECORDS} & set(words)):
                    yield Step(at, "reset")


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code[:1] == b"x" and len(code) == 3:
        return bytes([int(code[1:], 16)])
    return _ESCAPED.get(code, code)


def _asked(at: int, words: list[bytes]) -> Step | None:
    """What a call of a script asks for, if it is the end of an attempt, or an adoption.

    The arguments of an unlock are an attempt, and perhaps flags and more; a number would be a ttl, or how many to notify. Those of
    an adoption are an attempt, a ttl, and another attempt.
    """
    if words[0].upper() not in (b"FCALL", b"EVALSHA") or len(words) < 3 or not words[2].isdigit():
        return None
    arguments = words[3 + int(words[2]) :]
    if not arguments or b":" not in arguments[0]:
        return None
    if len(arguments) == 1 or not arguments[1].isdigit():
        return Step(at, "unlocked", arguments[0].decode())
    if len(arguments) == 3 and b":" in arguments[2]:
        return Step(at, "adopts", arguments[0].decode())
    return None


def _inner(at: int, words: list[bytes]) -> Iterator[Step]:
    command, key = words[0].upper(), words[1]
    if command == b"PSETEX" and key.startswith(_LOCK):
        attempt, *rest = words[3].split(b" ")
        # The first renewal of a lock records when it was granted.
        if len(rest) == 2 and not rest[1].startswith(b"@"):
            yield Step(at, "granted", attempt.decode(), int(rest[0]), key[len(_LOCK) :].decode())
    elif command in (b"ZADD", b"ZREM") and key == _QUEUE:
        for member in words[3::2] if command == b"ZADD" else words[2:]:
            name, ticket, attempt = member.rsplit(b"\0", 2)
            kind = "queued" if command == b"ZADD" else "dequeued"
            yield Step(at, kind, attempt.decode(), int(ticket[1:]), name.decode())
    elif command == b"HSET" and key == _RECORDS:
        yield Step(at, "known", words[2].decode(), int(words[3][:16]))
        if words[3][33:34] == b"m":
            # Of names in several modes, each comes after its mode.
            for word in words[3].split(b"\0")[1:]:
                if word.startswith(b"r "):
                    yield Step(at, "reads", words[2].decode(), 0, word[2:].decode())
    else:
        yield from _parts(at, words)


def _parts(at: int, words: list[bytes]) -> Iterator[Step]:
    """What happens to names of which several attempts have parts."""
    command, key = words[0].upper(), words[1] if len(words) > 1 else b""
    if command not in (b"ZADD", b"ZREM", b"DEL"):
        return
    if command == b"DEL":
        for each in words[1:]:
            if each.startswith(_POOL):
                yield Step(at, "left", "", 0, _thing(each))
        return
    if not key.startswith((_LOCK, _POOL)):
        return
    members = zip(words[2::2], words[3::2]) if command == b"ZADD" else ((b"0", member) for member in words[2:])
    for score, member in members:
        attempt, _, part = member.partition(b" ")
        # The other member of a pool is its limit.
        if b":" in attempt:
            kind = "joined" if command == b"ZADD" else "left"
            yield Step(at, kind, attempt.decode(), int(score), _thing(key), int(part or 0))


def _thing(key: bytes) -> str:
    return (key[len(_LOCK) :] if key.startswith(_LOCK) else b"\0" + key[len(_POOL) :]).decode()
