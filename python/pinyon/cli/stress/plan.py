"""The plan of a stress run, and the events that its processes report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Union

from pinyon.cli.timeouts import connect_timeout_of

if TYPE_CHECKING:
    from pinyon.tls import Tls


class Plan(NamedTuple):
    """What each process does.

    Attributes:
        url: the server's URL.
        namespace: the namespace of this run.
        driver: the concurrency model: ``blocking``, ``gevent`` or ``asyncio``.
        handler: how the server keeps the locks: ``auto``, ``script`` or ``pure``.
        forks: the number of processes.
        concurrency: the number of workers in each: threads, greenlets or tasks.
        keys: the number of keys for each worker.
        tries: the number of failures after which a worker gives up a key.
        sleep: seconds in each section; also the timeout of its lock, and half its ttl.
        seconds: how long each process starts again with the keys; None works through them once.
        timeout: seconds that the server may take to answer. A connection attempt may take half of it.
        tls: TLS settings beyond those of the URL.
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
        """The number of workers in all processes."""
        return self.forks * self.concurrency

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the ``Locks`` of all processes."""
        return {
            "url": self.url,
            "namespace": self.namespace,
            "handler": self.handler,
            "command_timeout": self.timeout,
            "connect_timeout": connect_timeout_of(self.timeout),
            "tls": self.tls,
        }


class Section(NamedTuple):
    """A critical section whose lock was held from beginning to end.

    Attributes:
        key: the locked key.
        start, end: times between which the lock was held, on the clock that all processes share.
        token: the fencing token.
        process: the process id.
    """

    key: str
    start: float
    end: float
    token: int
    process: int


class Failure(NamedTuple):
    """A failed section. Usually the lock could not be acquired in time."""

    key: str
    error: str
    given_up: bool


class Mismatch(NamedTuple):
    """A holder with a later token wrote while the lock was held: the lock does not exclude others."""

    key: str
    process: int
    written: bytes
    read: bytes | None


class Complete(NamedTuple):
    """A process has completed."""

    process: int
    ok: int
    failures: int


class Broken(NamedTuple):
    """A process ended before it had completed."""

    process: int
    why: str


Event = Union[Section, Failure, Mismatch, Complete, Broken]
