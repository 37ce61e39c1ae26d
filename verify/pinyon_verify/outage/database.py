"""The database of the shop: it can be down, and keeps who asked it and when."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A query for a product. It was answered, or failed, not before this moment."""

    product: str
    at: float
    has_failed: bool


class Database(socketserver.ThreadingTCPServer):
    """Answers a line that names a product with its row. While it is down, it closes connections without an answer.

    Every row says after how many outages it was read.
    """

    daemon_threads = True
    request_queue_size = 100

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.queries: list[Query] = []
        self.is_down = False
        self.outages = 0

    @property
    def address(self) -> str:
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def go_down(self) -> None:
        self.outages += 1
        self.is_down = True

    def come_back(self) -> None:
        self.is_down = False


class _Connection(socketserver.StreamRequestHandler):
    server: Database

    def handle(self) -> None:
        product = self.rfile.readline().decode().strip()
        database = self.server
        has_failed = database.is_down
        # Before the answer, so that nothing that follows from a query is earlier than the query.
        database.queries.append(Query(product, time.monotonic(), has_failed))
        if not has_failed:
            self.wfile.write(json.dumps({"product": product, "outages": database.outages}).encode() + b"\n")
