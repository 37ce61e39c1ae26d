"""A real server behind a gate that stops an exchange at any point the test chooses."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time

from faulty import Listener
from servers import Memcached

EVERYTHING = sys.maxsize
#: Small, so that a client cannot send off a large request while the gate holds it.
RECEIVE_BUFFER = 64 * 1024


class Allowance:
    """How many bytes may pass, and the bytes that have passed."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.count = 0
        self.last = b""
        self.held = threading.Event()


class Flow:
    """The traffic in one direction."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.allowance = Allowance(EVERYTHING)

    def hold(self, after: int) -> threading.Event:
        """Lets so many bytes through from now on. The returned event is set when the next byte is held."""
        with self.changed:
            self.allowance = Allowance(after)
            self.changed.notify_all()
            return self.allowance.held

    def pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while waiting := source.recv(65536):
                while waiting:
                    allowance, size = self._take(len(waiting))
                    target.sendall(waiting[:size])
                    allowance.count += size
                    allowance.last = (allowance.last + waiting[:size])[-64:]
                    waiting = waiting[size:]
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _take(self, wanted: int) -> tuple[Allowance, int]:
        """Waits until some of these bytes may pass. Returns how many, and the allowance that permits it."""
        with self.changed:
            while self.allowance.left == 0:
                self.allowance.held.set()
                self.changed.wait()
            size = min(wanted, self.allowance.left)
            self.allowance.left -= size
            return self.allowance, size


class Gate(Listener):
    """Passes everything on between its clients and the target, unless it must hold it."""

    def __init__(self, target: Memcached) -> None:
        self.target = target
        self.requests = Flow()
        self.replies = Flow()
        self.ended = threading.Event()
        self.ended_at = 0.0
        super().__init__()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)

    def hold(self, *, requests: int = EVERYTHING, replies: int = EVERYTHING) -> threading.Event:
        """Lets so many bytes through from now on. The returned event is set when the next byte is held."""
        held = [flow.hold(after) for flow, after in ((self.requests, requests), (self.replies, replies))]
        return held[0] if requests != EVERYTHING else held[1]

    def release(self) -> None:
        self.hold()

    def serve(self, connection: socket.socket, number: int) -> None:
        with socket.create_connection((self.target.host, self.target.port)) as onward:
            self.open.append(onward)
            back = threading.Thread(target=self.replies.pass_on, args=(onward, connection), daemon=True)
            back.start()
            self.requests.pass_on(connection, onward)
            self.ended_at = self.ended_at or time.monotonic()
            self.ended.set()
            with contextlib.suppress(OSError):
                onward.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        super().close()
        self.release()
