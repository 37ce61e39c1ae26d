"""The cost of TLS: a client's processor time per operation with it and without."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pinyon
import trustme
from pinyon.aio import Client as AsyncioClient
from rich import box
from rich.console import Console
from rich.table import Table

from .clock import Stopwatch, no_garbage_collection
from .placement import Placement, pinned
from .servers import LOCAL_HOST, Server, start_server

CELL_SECONDS = 0.1
#: The number of simultaneous coroutines.
TASKS = 50


@dataclass(frozen=True)
class Row:
    """An operation on values of a size, by one blocking caller or by several tasks."""

    operation: str
    size: int
    tasks: int = 0

    @property
    def name(self) -> str:
        """The row's name in the table."""
        length = f"{self.size} B" if self.size < 1024 else f"{self.size // 1024} KB"
        return f"{self.operation} {length}{f', {self.tasks} tasks' if self.tasks else ''}"

    def run(self, server: Server, tls: pinyon.Tls | None, count: int) -> float:
        """Returns the processor seconds of an operation, user and system, of a warm client."""
        if self.tasks:
            return asyncio.run(self._run_tasks(server, tls, count))
        with pinyon.Client(server.name, tls=tls, timeout=10) as client:
            value = "v" * self.size
            client.set("key", value)
            call = client.get if self.operation == "get" else lambda key: client.set(key, value)
            for _ in range(count // 10):
                call("key")
            watch = Stopwatch()
            for _ in range(count):
                call("key")
            return _processor_seconds(watch) / count

    async def _run_tasks(self, server: Server, tls: pinyon.Tls | None, count: int) -> float:
        async with AsyncioClient(server.name, tls=tls, timeout=10) as client:
            value = "v" * self.size
            await client.set("key", value)

            async def work() -> None:
                for _ in range(max(1, count // self.tasks)):
                    await (client.get("key") if self.operation == "get" else client.set("key", value))

            await work()
            watch = Stopwatch()
            await asyncio.gather(*(work() for _ in range(self.tasks)))
            return _processor_seconds(watch) / (max(1, count // self.tasks) * self.tasks)


ROWS = [
    *(Row(operation, size) for operation in ("get", "set") for size in (36, 1024, 100 * 1024)),
    Row("get", 36, TASKS),
    Row("set", 36, TASKS),
]


def measure(rounds: int, placement: Placement, console: Console) -> None:
    """Measures all rows, alternately plain and with TLS in each round, and prints the medians."""
    table = Table("row", box=box.SIMPLE, title="processor microseconds of an operation, client side")
    for title in ("plain", "TLS", "TLS / plain"):
        table.add_column(title, justify="right")
    with _servers(placement) as (plain, secure, tls), pinned(placement.client), no_garbage_collection():
        for row in ROWS:
            count = max(TASKS, round(CELL_SECONDS / row.run(plain, None, 200)))
            pairs = [(row.run(plain, None, count), row.run(secure, tls, count)) for _ in range(rounds)]
            medians = [statistics.median(pair[which] for pair in pairs) * 1e6 for which in (0, 1)]
            ratio = statistics.median(with_tls / without for without, with_tls in pairs)
            table.add_row(row.name, *(f"{median:.1f}" for median in medians), f"{ratio:.2f}")
    console.print(table)


@contextmanager
def _servers(placement: Placement) -> Iterator[tuple[Server, Server, pinyon.Tls]]:
    """A server with TLS, one without, and the certificate to trust the first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        shown = folder / "server.pem"
        authority.issue_cert(LOCAL_HOST).private_key_and_cert_chain_pem.write_to_path(str(shown))
        shown.chmod(0o644)
        options = ("-Z", "-o", f"ssl_chain_cert={shown},ssl_key={shown}")
        with start_server(placement.server) as plain, start_server(placement.server, options=options) as secure:
            yield plain, secure, pinyon.Tls(ca=folder / "ca.pem")


def _processor_seconds(watch: Stopwatch) -> float:
    elapsed = watch.elapsed()
    return elapsed["user"] + elapsed["system"]
