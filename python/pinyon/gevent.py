"""The client for gevent: the methods of ``pinyon.Client``, which let other greenlets run while they wait.

All greenlets of a hub share one connection to each server. What they submit in one turn of the hub leaves in one
send, and what has arrived is taken in one receive.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, TypeVar

try:
    import gevent
    from gevent import get_hub, getcurrent, socket
except ImportError as error:
    raise ImportError("pinyon.gevent needs gevent; install it with: pip install gevent") from error

from pinyon import client
from pinyon._batch import COMMANDS, Ledger
from pinyon._native import Waiter
from pinyon.client import BaseClient
from pinyon.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from typing_extensions import ParamSpec, Self

    from pinyon import _native


def _wait(waiter: Waiter) -> Any:
    """Let other greenlets run until it is done. Whatever ends the wait otherwise abandons the request."""
    if not waiter.arm(getcurrent()):
        return waiter.result()
    try:
        return get_hub().switch()
    except BaseException:
        waiter.abandon()
        raise


def _wait_for(waiter: Waiter) -> None:
    """Wait until it is done, its outcome being kept for whoever asks."""
    with contextlib.suppress(Error):
        _wait(waiter)


class _Driver:
    """Tells one hub what its connections wait for."""

    def __init__(self, hub: Any) -> None:
        self._loop = hub.loop
        self._watchers: dict[int, Any] = {}

    waiter = Waiter

    @staticmethod
    def is_over(hub: Any) -> bool:
        return bool(hub.dead)

    def attach(self, driver: _native.Driver) -> None:
        self._driver = driver

    def end_turn(self) -> None:
        self._loop.run_callback(self._turn)

    def _turn(self) -> None:
        self.resume(self._driver.turn())

    def watch(self, lane: int, fd: int, write: bool) -> None:
        self.forget(lane, fd)
        watcher = self._watchers[lane] = self._loop.io(fd, 3 if write else 1)
        watcher.start(self._ready, lane)

    def _ready(self, lane: int) -> None:
        self.resume(self._driver.ready(lane))

    def forget(self, lane: int, fd: int) -> None:
        watcher = self._watchers.pop(lane, None)
        if watcher is not None:
            watcher.stop()
            watcher.close()

    forget_inherited = forget

    def resolve(self, lane: int, name: str, port: int) -> None:
        gevent.spawn(self._resolve, lane, name, port)

    def _resolve(self, lane: int, name: str, port: int) -> None:
        addresses, why = [], "it has no address"
        try:
            found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
            addresses = [str(address[0]) for *_, address in found]
        except OSError as error:
            why = str(error)
        self._loop.run_callback(self._resolved, lane, port, addresses, why)

    def _resolved(self, lane: int, port: int, addresses: list[str], why: str) -> None:
        self.resume(self._driver.resolved(lane, port, addresses, why))

    def wake_in(self, seconds: float) -> None:
        timer = self._loop.timer(seconds)
        timer.start(self._wake, timer)

    def _wake(self, timer: Any) -> None:
        timer.stop()
        timer.close()
        self.resume(self._driver.woken())

    def resume_soon(self, finished: list[tuple[Waiter, Any, BaseException | None]]) -> None:
        self._loop.run_callback_threadsafe(self.resume, finished)

    def resume(self, finished: list[tuple[Waiter, Any, BaseException | None]] | None) -> None:
        for waiter, value, error in finished or ():
            greenlet = waiter.finish(value, error)
            if greenlet is None:
                continue
            if error is None:
                greenlet.switch(value)
            else:
                greenlet.throw(error)


if TYPE_CHECKING:
    Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _waiting(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The method of the client whose greenlet waits for what the native one begins."""

    @functools.wraps(method)
    def call(*arguments: Parameters.args, **settings: Parameters.kwargs) -> Result:
        return _wait(method(*arguments, **settings))  # type: ignore[arg-type, no-any-return]

    return call


#: How the native client finds the running hub, and makes a driver for one.
LOOPS = (get_hub, _Driver)


class Batch:
    """Commands whose replies are not awaited one by one: ``with client.quiet() as batch: batch.set(…)``.

    Leaving the block waits until every command's outcome is known, and raises ``BatchError`` if any failed.
    """

    def __init__(self, client: Client) -> None:
        self._ledger = Ledger(client)

    def __enter__(self) -> Self:
        self._ledger.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for waiter in self._ledger.finish(exception):
            _wait_for(waiter)

    @staticmethod
    def _command(name: str) -> Any:
        def submit(self: Batch, key: str | bytes, *arguments: Any, **settings: Any) -> None:
            for waiter in self._ledger.submit(name, key, *arguments, **settings):
                _wait_for(waiter)

        submit.__name__ = name
        submit.__doc__ = f"Like ``Client.{name}``, its outcome known at the end of the block."
        return submit


for _name in COMMANDS:
    setattr(Batch, _name, Batch._command(_name))


class Client(client.Client):
    """A client for one or several memcached servers, to be shared by all greenlets of all hubs of a process.

    Its methods are those of ``pinyon.Client``. Each hub has its own connections, made when they are first needed. A
    ``gevent.Timeout``, a kill or any other exception that ends a greenlet's wait abandons its request and nothing
    else: the reply is dropped when it comes.

    Args:
        servers: as for ``pinyon.Client``, and so are the other settings.
        connections: how many connections each hub makes to each server.
    """

    __slots__ = ()

    def __new__(cls, servers: str | Iterable[str] | None = None, *, connections: int = 1, **settings: Any) -> Self:
        return BaseClient.__new__(cls, servers, loops=LOOPS, connections=connections, **settings)

    get = _waiting(BaseClient.get)  # type: ignore[assignment]
    get_many = _waiting(BaseClient.get_many)
    gets = _waiting(BaseClient.gets)
    gat = _waiting(BaseClient.gat)
    touch = _waiting(BaseClient.touch)
    set = _waiting(BaseClient.set)
    add = _waiting(BaseClient.add)
    replace = _waiting(BaseClient.replace)
    append = _waiting(BaseClient.append)
    prepend = _waiting(BaseClient.prepend)
    cas = _waiting(BaseClient.cas)
    set_many = _waiting(BaseClient.set_many)
    delete = _waiting(BaseClient.delete)
    delete_many = _waiting(BaseClient.delete_many)
    incr = _waiting(BaseClient.incr)
    decr = _waiting(BaseClient.decr)
    meta = _waiting(BaseClient.meta)
    flush_all = _waiting(BaseClient.flush_all)
    stats = _waiting(BaseClient.stats)
    version = _waiting(BaseClient.version)

    def quiet(self) -> Batch:  # type: ignore[override]
        """Return a batch of commands whose replies are not awaited one by one."""
        return Batch(self)
