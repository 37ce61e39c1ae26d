"""Leaders: candidates that run in the background, in a thread, a greenlet or a task. The core decides what they do."""

from __future__ import annotations

import atexit
import inspect
import math
import time
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar

from pinyon import _native
from pinyon._alive import Alive
from pinyon._closing import FOR_THREADS
from pinyon._held import BaseHeld
from pinyon._logging import LOCKS, log_raised
from pinyon._uncopied import Uncopied
from pinyon._waits import waits_of
from pinyon.errors import Error, UnsupportedType, UsageError

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from typing_extensions import Self

    from pinyon._lock_status import LockStatus

HeldT = TypeVar("HeldT", bound=BaseHeld)

#: A report for the machine: what became of a step, and its argument.
Report = tuple[str, Any]

#: What became of most steps.
DONE: Report = ("done", None)
#: How long the end of the program waits for each leader's ``on_lost``, in seconds.
_LAST = 5.0


class BaseLeader(Uncopied, Generic[HeldT]):
    """The base of leaders of all concurrency models."""

    __slots__ = ("__weakref__", "_candidate", "_held", "_lock", "_locks", "_on_elected", "_on_lost", "name")

    def __init__(
        self,
        locks: Any,
        name: str | bytes,
        on_elected: Callable[[int], object] | None,
        on_lost: Callable[[int], object] | None,
        ttl: float | timedelta | None,
    ) -> None:
        self._locks = locks
        self.name: str | bytes = name
        self._on_elected = _checked("on_elected", on_elected)
        self._on_lost = _checked("on_lost", on_lost)
        self._lock = locks._lock(locks._held, locks, (name,), ttl, math.inf, None, None, True, None, False)
        self._candidate = _native.Candidate(name)
        self._candidate._next("closed")  # until it is started
        self._held: HeldT | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads now, as far as this process can know. No server is asked."""
        return self.token is not None

    @property
    def token(self) -> int | None:
        """The fencing token with which it leads, or None. No server is asked."""
        held, token = self._held, self._candidate._token
        return None if token is None or held is None or held.is_lost else token

    @property
    def state(self) -> str:
        """What the candidate does: ``"candidate"``, ``"leader"``, ``"resigning"``, ``"paused"`` or ``"stopped"``."""
        return self._candidate._state

    def resign(self) -> bool:
        """Give the leadership up, and become a candidate again, behind all others that wait.

        ``is_leader`` is false at once. The lock is released after ``on_lost`` has returned.

        Returns:
            Whether it led.
        """
        led = self._candidate._resign()
        if led:
            self._wake()
        return led

    def _wake(self, *_: object) -> None:
        raise NotImplementedError

    def _begin(self) -> None:
        if self._candidate._state != "stopped":
            raise UsageError(f"the candidate for {self.name!r} has been started before: stop it first")
        self._candidate = _native.Candidate(self.name)

    def _granted(self, held: HeldT) -> Report:
        """Keep what was granted, and learn at once if it is lost."""
        self._held = held
        held._tell(self._wake)
        return ("granted", held.token)

    def _refused(self, error: Exception) -> Report:
        if self._locks.is_closed:
            return ("closed", None)
        return ("failed", str(error) if isinstance(error, Error) else said(error))

    def _still_leads(self) -> Report:
        return ("lock_lost", None) if self._held is None or self._held.is_lost else DONE

    def _raised(self, error: BaseException) -> Report:
        log_raised(error, f"a callback of the leader {self.name!r} failed", LOCKS)
        return ("failed", said(error))

    def _warn(self, line: str) -> Report:
        try:
            self._locks._warn(line)
        except Exception as error:
            log_raised(error, "on_event failed", LOCKS)
        return DONE

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} {self.name!r}, {self.state}>"


class Leader(BaseLeader[HeldT]):
    """A candidate for the leadership of a name: ``with locks.leader("scheduler", on_elected=…) as leader: …``.

    At most one candidate of all processes leads. The candidate runs in a thread of its own, or a greenlet, from the
    beginning of the block, or ``start``, to its end, or ``stop``. ``Locks.leader`` makes it.

    Attributes:
        name: the name, as it was given.
    """

    __module__ = "pinyon.locks"
    __slots__ = ("_elected", "_running", "_signal")

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = FOR_THREADS

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        for what, callback in (("on_elected", self._on_elected), ("on_lost", self._on_lost)):
            if inspect.iscoroutinefunction(callback):
                raise UsageError(f"{what} is called and not awaited: make it an ordinary function, or use pinyon.aio")
        self._running: Any = None

    def start(self) -> Self:
        """Become a candidate. Return this object.

        Raises:
            UsageError: it is a candidate already.
        """
        self._begin()
        waits = waits_of(self._locks)
        self._signal, self._elected = waits.signal(), waits.signal()
        # It is known before it begins: a callback that runs at once may stop it.
        self._running = waits.beginning(self._campaign, f"pinyon-leader-{self.name!r}")
        _RUNNING.add(self)
        self._running.start()
        return self

    def stop(self, timeout: float | None = None) -> bool:
        """End the candidate. One that leads gives the leadership up first, as ``resign`` does.

        Called from a callback, it does not wait.

        Args:
            timeout: seconds to wait for its end. None waits until the callbacks have returned.

        Returns:
            Whether it has ended.
        """
        if self._running is None:
            return True
        self._candidate._stop()
        self._wake()
        return bool(waits_of(self._locks).join(self._running, timeout))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until this candidate leads, or is stopped.

        Args:
            timeout: seconds to wait. None waits without a limit.

        Returns:
            Whether it leads.
        """
        if self._running is not None:
            self._elected.wait(timeout)
        return self.is_leader

    def current(self) -> LockStatus | None:
        """Ask the server who leads. It need not be a candidate itself.

        Returns:
            The leader's ``holder`` and ``token``, as ``Locks.status`` shows them. None if there is no leader.
        """
        (status,) = self._locks.status(self.name)
        return None if status.holder is None else status

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _wake(self, *_: object) -> None:
        if self._running is not None:
            self._signal.set()

    def _campaign(self) -> None:
        ended: BaseException | None = None
        step, about = self._candidate._next(*DONE)
        while step != "over":
            self._signal.clear()
            try:
                report = self._take(step, about)
            except BaseException as raised:  # a greenlet was killed, or a callback has raised SystemExit
                if ended is not None:
                    raise
                ended = raised
                report = ("interrupted", said(raised))
            step, about = self._candidate._next(*report)
        _RUNNING.discard(self)
        self._elected.set()
        if ended is not None:
            raise ended

    def _take(self, step: str, about: Any) -> Report:
        if step == "ask":
            return self._ask()
        if step == "elected":
            self._elected.set()
            return self._call(self._on_elected, about)
        if step == "lead":
            if self.is_leader:
                self._signal.wait(about)
            return self._still_leads()
        if step == "lost":
            self._elected.clear()
            return self._call(self._on_lost, about)
        if step == "release":
            return self._release()
        return self._warn(about) if step == "warn" else self._pause(about)

    def _ask(self) -> Report:
        try:
            held = self._locks._held(self._lock, False, None, self._candidate)
        except Exception as error:
            return self._refused(error)
        return DONE if held._answer() is None else self._granted(held)

    def _release(self) -> Report:
        held, self._held = self._held, None
        try:
            if held is not None:
                held._release()
        except Error as error:
            return ("failed", str(error))
        return DONE

    def _pause(self, seconds: float) -> Report:
        until = time.monotonic() + seconds
        while not self._candidate._is_stopping and (left := until - time.monotonic()) > 0:
            self._signal.wait(left)
            self._signal.clear()
        return DONE

    def _call(self, callback: Callable[[int], object] | None, token: int) -> Report:
        try:
            if callback is not None:
                callback(token)
        except Exception as error:
            return self._raised(error)
        return DONE


def _checked(name: str, callback: Callable[[int], object] | None) -> Callable[[int], object] | None:
    if callback is not None and not callable(callback):
        raise UnsupportedType(f"{name} is called with the token; {type(callback).__qualname__} is not callable")
    return callback


def said(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


#: The leaders of this process that have been started and have not ended.
_RUNNING: Alive[Leader[Any]] = Alive()


@atexit.register
def _at_exit() -> None:
    """End the candidates before what threads hold is released, or they would be elected again."""
    running = [leader for leader in _RUNNING.all() if leader.state != "stopped"]
    for leader in running:
        leader._candidate._stop()
        leader._wake()
    until = time.monotonic() + _LAST
    for leader in running:
        leader.stop(max(0.0, until - time.monotonic()))
