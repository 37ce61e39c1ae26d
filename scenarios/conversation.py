"""One connection of the scripted server, and the steps it plays there."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wire import read_memcached, read_resp, render

READERS = {"memcached": read_memcached, "redis": read_resp}


class GoneError(Exception):
    """The connection is over: the client or the step closed it, or the server ends."""


@dataclass(frozen=True)
class Step:
    """The server's next action. `README.md` describes the fields."""

    send: str = ""
    take: int = 1
    match: str = ""
    reversed: bool = False
    times: int = 1
    garble: int | None = None
    cut: int | None = None
    delay_ms: float = 0
    drip_ms: float = 0
    then: str = ""

    def __post_init__(self) -> None:
        if self.then not in ("", "stall", "close", "reset", "half-close"):
            raise ValueError(f"no such end of a step: {self.then!r}")

    def reply(self, requests: Sequence[bytes]) -> bytes:
        """The bytes to send after these requests."""
        ordered = list(requests)[::-1] if self.reversed else requests
        whole = b"".join(render(self.send, request) for request in ordered or [b""]) * self.times
        if self.garble is not None:
            whole = whole[: self.garble] + bytes([whole[self.garble] ^ 0xFF]) + whole[self.garble + 1 :]
        return whole if self.cut is None else whole[: self.cut]


#: Python's own tests may do more than steps can.
Play = Callable[["Conversation"], None]


class Conversation:
    """One connection: its requests and answers.

    Args:
        answers: the answers to requests that belong to no step, by regular expression.
        over: set when the server ends.
    """

    def __init__(
        self, connection: socket.socket, protocol: str, answers: Mapping[str, Step], over: threading.Event
    ) -> None:
        self.connection = connection
        self.answers = answers
        self.over = over
        self.requests: list[bytes] = []
        self.unexpected: list[bytes] = []
        self._read_request = READERS[protocol]
        self._unread = b""

    def play(self, step: Step | Play) -> None:
        """Does one step. Raises ``GoneError`` if it was the last."""
        if callable(step):
            return step(self)
        requests = [self.request() for _ in range(step.take)]
        for request in requests:
            if not re.search(step.match.encode("latin-1"), request):
                self.unexpected.append(request)
                raise GoneError
        return self._do(step, requests)

    def request(self) -> bytes:
        """The next request without a standing answer.

        The meta command after ``version`` belongs to the greeting.
        """
        while True:
            request = self._read_request(self._line, self._read)
            answer = next((step for words, step in self.answers.items() if re.search(words.encode(), request)), None)
            if answer is None and request == b"mn" and self.requests[-1:] == [b"version"]:
                self.send(b"MN\r\n")
                continue
            self.requests.append(request)
            if answer is None:
                return request
            self._do(answer, [request])

    def take_greeting(self) -> None:
        """Takes a first greeting and answers it, but for the last request: the step does that itself."""
        for expected, answer in ((b"version", b"VERSION 1.6.18\r\n"), (b"mn", b"")):
            request = self._read_request(self._line, self._read)
            if request != expected:
                self.unexpected.append(request)
                raise GoneError
            self.send(answer)
        self.requests.append(b"version")

    def send(self, reply: bytes) -> None:
        try:
            self.connection.sendall(reply)
        except OSError as error:
            raise GoneError from error

    def wait(self, seconds: float | None = None) -> None:
        """Does nothing for a while, or forever. Raises ``GoneError`` if the server ends meanwhile."""
        if self.over.wait(seconds):
            raise GoneError

    def _do(self, step: Step, requests: Sequence[bytes]) -> None:
        reply = step.reply(requests)
        if step.delay_ms:
            self.wait(step.delay_ms / 1000)
        if step.drip_ms:
            for byte in reply:
                self.send(bytes([byte]))
                self.wait(step.drip_ms / 1000)
        else:
            self.send(reply)
        self._end(step.then or ("" if step.cut is None else "close"))

    def _end(self, then: str) -> None:
        if then == "half-close":
            self.connection.shutdown(socket.SHUT_WR)
        if then == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if then in ("half-close", "stall"):
            self.wait()
        if then:
            raise GoneError

    def _line(self) -> bytes:
        while b"\r\n" not in self._unread:
            self._receive()
        line, _, self._unread = self._unread.partition(b"\r\n")
        return line

    def _read(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._receive()
        data, self._unread = self._unread[:size], self._unread[size:]
        return data

    def _receive(self) -> None:
        try:
            received = self.connection.recv(65536)
        except OSError as error:
            raise GoneError from error
        if not received:
            raise GoneError
        self._unread += received
