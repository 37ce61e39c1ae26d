"""A shop in FastAPI with two workers, its visitors, and its database, which is down for a while."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..ports import free_port
from ..soak.servers import Memcached
from .database import Database, Query

WORKERS, VISITORS = 2, 8
PRODUCTS = [f"product{number}" for number in range(5)]
#: Seconds that a value is fresh.
TTL = 1
#: Seconds within which the site begins, and has new values after the outage, on a busy machine.
PATIENCE = 60.0
#: Seconds by which an attempt may be late: memcached counts whole seconds, and a busy machine keeps processes waiting.
LATE = 3.0


@dataclass(frozen=True)
class Plan:
    """An outage.

    Attributes:
        seconds: how long the database is down.
        retry_after: seconds between two attempts to make a value.
        terms: what the shop does instead of what it claims.
    """

    seconds: float
    retry_after: int
    terms: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Visit:
    """A response. Without a status, there was none."""

    product: str
    at: float
    status: int | None
    body: dict[str, Any]


@dataclass
class Result:
    """What visitors and the database saw, the outage's beginning and end, and what is wrong about it."""

    visits: list[Visit]
    queries: list[Query]
    began: float
    ended: float
    findings: list[str] = field(default_factory=list)

    @property
    def failed(self) -> dict[str, list[float]]:
        """When queries for each product failed."""
        return {
            product: sorted(query.at for query in self.queries if query.product == product and query.has_failed)
            for product in PRODUCTS
        }

    @property
    def between(self) -> list[float]:
        """Seconds between an attempt that failed and the next one for the same product."""
        return [later - earlier for failed in self.failed.values() for earlier, later in zip(failed, failed[1:])]

    @property
    def back(self) -> list[float]:
        """Seconds from the end of the outage to the first query for each product."""
        return [
            min(
                (query.at for query in self.queries if query.product == product and query.at >= self.ended),
                default=math.inf,
            )
            - self.ended
            for product in PRODUCTS
        ]


def run(plan: Plan) -> Result:
    """Let the database be down while visitors ask for products."""
    with _shop(plan) as (address, database), _Visitors(address) as visitors:
        visitors.until(lambda: len({visit.body.get("worker") for visit in visitors.seen}) >= WORKERS)
        visitors.until(lambda: all(_queries(database, product) >= 2 for product in PRODUCTS))
        database.go_down()
        began = time.monotonic()
        time.sleep(plan.seconds)
        # A busy machine may keep the site from asking in time.
        visitors.until(lambda: {query.product for query in database.queries if query.has_failed} >= set(PRODUCTS))
        database.come_back()
        ended = time.monotonic()
        with contextlib.suppress(TimeoutError):
            visitors.until(
                lambda: {visit.product for visit in visitors.seen if visit.body.get("outages")} == {*PRODUCTS}
            )
    result = Result(visitors.seen, database.queries, began, ended)
    result.findings = [*_judged(result, plan.retry_after)]
    return result


def _queries(database: Database, product: str) -> int:
    return sum(query.product == product for query in database.queries)


def _judged(result: Result, retry_after: int) -> Iterator[str]:
    wrong = [visit for visit in result.visits if visit.status != 200]
    if wrong:
        yield f"served: {len(wrong)} of {len(result.visits)} responses are not 200; the first is {wrong[0]}"
    if not any(result.failed.values()):
        yield "attempts: nothing asked the database while it was down"
    early = [seconds for seconds in result.between if seconds < retry_after]
    if early:
        yield f"attempts: {len(early)} were less than {retry_after} s after a failure; the first {early[0]:.2f} s"
    late = max(result.back)
    if late > retry_after + LATE:
        yield f"back: the first attempt after the outage came after {late:.2f} s"
    missing = {*PRODUCTS} - {visit.product for visit in result.visits if visit.body.get("outages")}
    if missing:
        yield f"back: still old after {PATIENCE:g} seconds: {', '.join(sorted(missing))}"


@contextlib.contextmanager
def _shop(plan: Plan) -> Iterator[tuple[str, Database]]:
    """The site's address, and its database."""
    with tempfile.TemporaryDirectory(prefix="po-") as folder, Database() as database:
        memcached, address = Memcached(Path(folder) / "m"), f"127.0.0.1:{free_port()}"
        terms = {"ttl": TTL, "stale": 3600, "on_error": "stale", "retry_after": plan.retry_after, **plan.terms}
        settings = {
            "SHOP_CACHE": memcached.address,
            "SHOP_DATABASE": database.address,
            "SHOP_TERMS": json.dumps(terms),
        }
        command = [sys.executable, "-m", "uvicorn", "--workers", str(WORKERS), "--port", address.rpartition(":")[2]]
        command += ["--log-level", "critical", "pinyon_verify.outage.shop:app"]
        memcached.start()
        database.start()
        site = subprocess.Popen(command, env={**os.environ, **settings})
        try:
            yield address, database
        finally:
            site.terminate()
            site.wait()
            memcached.kill()
            database.shutdown()


class _Visitors:
    """Threads that ask for products until the block ends, and what they saw once the site had begun."""

    def __init__(self, address: str) -> None:
        self.seen: list[Visit] = []
        self._address = address
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(VISITORS)]

    def __enter__(self) -> _Visitors:
        give_up = time.monotonic() + PATIENCE
        while self._visit(PRODUCTS[0]).status != 200:
            if time.monotonic() > give_up:
                raise TimeoutError("the site does not begin")
            time.sleep(0.05)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds. Raises ``TimeoutError``."""
        give_up = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > give_up:
                raise TimeoutError
            time.sleep(0.02)

    def _work(self, number: int) -> None:
        turn = number
        while not self._is_over.wait(0.005):
            self.seen.append(self._visit(PRODUCTS[turn % len(PRODUCTS)]))
            turn += 1

    def _visit(self, product: str) -> Visit:
        connection = http.client.HTTPConnection(self._address, timeout=PATIENCE)
        try:
            connection.request("GET", f"/products/{product}")
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            return Visit(product, time.monotonic(), None, {})
        finally:
            connection.close()
        body = json.loads(text) if response.status == 200 else {}
        return Visit(product, time.monotonic(), response.status, body)
