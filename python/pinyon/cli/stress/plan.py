"""What a stress run is to do, and what its processes tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Union

if TYPE_CHECKING:
    from pinyon.tls import Tls


class Plan(NamedTuple):
    """What each process is to do.

    Attributes:
        url: of the server.
        namespace: of this run alone.
        driver: how a worker waits: ``blocking``, ``gevent`` or ``asyncio``.
        handler: how the server keeps the locks: ``auto``, ``script`` or ``pure``.
        forks: processes.
        concurrency: workers in each: threads, greenlets or tasks.
        keys: that each worker goes through.
        tries: failures after which a worker gives up a key.
        sleep: seconds in each section; also the timeout of its lock, and half its ttl.
        seconds: for which each process begins anew with the keys; None goes through them once.
        timeout: seconds that the server may take to answer. A connection attempt may take half of it.
        tls: how to speak TLS, where the URL does not say all of it.
    """

    url: str
    namespace: bytes
    driver: str
    handler: str
    forks: int
    concurrency: int
    keys: int
    tries: int
    sleep: float
    seconds: float | None
    timeout: float
    tls: Tls | None = None

    @property
    def workers(self) -> int:
        """How many fight for the keys."""
        return self.forks * self.concurrency

    @property
    def settings(self) -> dict[str, Any]:
        """What the locks of all processes are made with."""
        return {
            "url": self.url,
            "namespace": self.namespace,
            "handler": self.handler,
            "command_timeout": self.timeout,
            "connect_timeout": self.timeout / 2,
            "tls": self.tls,
        }


class Section(NamedTuple):
    """A critical section, held from its beginning to its end.

    Attributes:
        key: what was locked.
        start, end: when it was held for certain, on the clock of all processes.
        token: its fencing token.
        process: whose it was.
    """

    key: str
    start: float
    end: float
    token: int
    process: int


class Failure(NamedTuple):
    """A section that came to nothing: most often the lock was not to be had in time."""

    key: str
    error: str
    given_up: bool


class Mismatch(NamedTuple):
    """Somebody with a later token wrote while the lock was held: it does not keep others out."""

    key: str
    process: int
    written: bytes
    read: bytes | None


class Complete(NamedTuple):
    """A process is through."""

    process: int
    ok: int
    failures: int


class Broken(NamedTuple):
    """A process ended before it was through."""

    process: int
    why: str


Event = Union[Section, Failure, Mismatch, Complete, Broken]
