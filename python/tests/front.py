"""A TLS server in front of a real server. It records which sessions are resumed, and misbehaves on request."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from certificates import Shown
from servers import Server

if TYPE_CHECKING:
    from typing_extensions import Self

#: How to cut the bytes from the server to a client: into pieces, each sent separately.
Cut = Callable[[bytes], "Iterable[bytes]"]


def whole(data: bytes) -> list[bytes]:
    return [data]


def byte_by_byte(data: bytes) -> list[bytes]:
    """Cuts into bytes. Of long data, only the beginning is cut."""
    return [*(data[at : at + 1] for at in range(min(len(data), 300))), *([data[300:]] if len(data) > 300 else [])]


@contextlib.contextmanager
def _ending(connection: socket.socket) -> Iterator[None]:
    """Ends the other side's wait."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class Front:
    """Listens with TLS and passes on what it decrypts.

    Attributes:
        resumed: for each connection whose handshake is over, whether it resumed a session.
    """

    def __init__(
        self,
        server: Server,
        shown: Shown,
        cut: Cut = whole,
        *,
        version: ssl.TLSVersion | None = None,
        path: str | None = None,
    ) -> None:
        self.server = server
        self.cut = cut
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(shown.certificate, shown.key)
        if version is not None:
            self.context.maximum_version = version
        self.resumed: list[bool] = []
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        if path:
            self._listener, self.address = socket.socket(socket.AF_UNIX), path
            self._listener.bind(path)
            self._listener.listen()
        else:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(10)

    def hang_up(self) -> None:
        """Closes all connections without TLS's closing message."""
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if client.family != socket.AF_UNIX:
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.append(client)
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context.wrap_bio(incoming, outgoing, server_side=True)
        lock = threading.Lock()

        def send() -> None:
            for piece in self.cut(outgoing.read()):
                client.sendall(piece)

        with contextlib.suppress(OSError, ssl.SSLError), client, self.server.connect() as behind, _ending(behind):
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    send()
                    if not (received := client.recv(65536)):
                        return
                    incoming.write(received)
            with lock:
                self.resumed.append(bool(tls.session_reused))
                send()
            self._start(self._pass_back, behind, client, tls, lock, send)
            while True:
                with lock:
                    requests = b""
                    with contextlib.suppress(ssl.SSLWantReadError):
                        while read := tls.read(65536):
                            requests += read
                behind.sendall(requests)
                if not (received := client.recv(65536)):
                    return
                with lock:
                    incoming.write(received)

    def _pass_back(
        self,
        behind: socket.socket,
        client: socket.socket,
        tls: ssl.SSLObject,
        lock: threading.Lock,
        send: Callable[[], None],
    ) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):
            while reply := behind.recv(65536):
                with lock:
                    tls.write(reply)
                    send()
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
