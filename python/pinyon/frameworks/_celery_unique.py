"""Unique tasks of Celery, one of a kind at a time: ``@app.task(base=unique(locks, "report:{n}"))``."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Callable

from celery import Task, states
from celery.app.task import Context
from celery.exceptions import Ignore, Retry, TaskRevokedError
from celery.result import EagerResult
from celery.utils import uuid

from pinyon._decorated import Use, check_templates, filled
from pinyon.errors import OUTAGES, UsageError
from pinyon.frameworks._one_at_a_time import Conflict, Later, OneAtATime, Run, Terms, check_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Literal

    from pinyon.frameworks._untyped import Untyped as BaseTask
    from pinyon.locks import Held, Locks
else:
    BaseTask = Task

#: The header of a message that says whose lock its task has.
HEADER = "pinyon_claim"
#: Where a request keeps what its task holds.
RUN = "_pinyon_run"

#: What puts a task back into the queue: nothing of it has run.
TRIED_AGAIN: tuple[type[Exception], ...] = (Later, *OUTAGES)

UNIQUE = Use(
    function="could be a task",
    generator="make a task of a function that runs at once",
    owner="unique",
    template="lock",
    needs='unique needs the name of a lock, as in unique(locks, "report:{n}")',
)


def unique(
    locks: Locks,
    template: str,
    *,
    when: Literal["enqueued", "running"] = "enqueued",
    on_conflict: Literal["skip", "wait", "replace"] = "skip",
    ttl: float = 10.0,
    timeout: float | None = None,
    queue_ttl: float = 3600.0,
    retry_in: float = 10.0,
    base: type[Any] = Task,
) -> type[Any]:
    """Return a base class for tasks of Celery: one of a kind is enqueued, or runs, at a time.

    >>> @app.task(base=unique(locks, "report:{n}"))
    ... def report(n): ...

    A task that must not be enqueued returns a result whose state is ``REVOKED``, and one that a worker must not run
    ends in this state. A worker that dies keeps a task's lock for ``ttl`` seconds. Its message, delivered again, waits
    for it.

    Args:
        locks: where the tasks are locked. Make one at module level; worker processes connect by themselves.
        template: the lock's name, with the task's arguments in braces.
        when: ``"enqueued"`` locks a task from ``delay`` or ``apply_async`` until it has run, and ``"running"`` while it
            runs.
        on_conflict: what becomes of a second task. ``"skip"``: it is not enqueued, or does not run. ``"wait"``: the
            caller waits until it can be enqueued, or the worker until it can run. ``"replace"``: it takes the place of
            one that has not begun, which is revoked when a worker takes it; it waits for one that runs.
        ttl: seconds for which a lock outlives a worker that has died. While the task runs, the lock is renewed.
        timeout: seconds to wait. By default, as for the client. Then a caller gets ``LockTimeout``, and a worker
            puts the task back into the queue.
        queue_ttl: seconds for which an enqueued task is locked without a worker, counted from its ``eta``. Then another
            one may be enqueued, and the first takes the lock anew if it is free when a worker takes it.
        retry_in: seconds after which a task runs again that was put back into the queue.
        base: the class of tasks to build on.

    Raises:
        UsageError: an argument makes no sense, or the template has ``":job:"`` or ``":replaced:"`` in it, or
            ``":runs"`` at the end. The application raises it when it makes its tasks if the function does not have an
            argument of the template.
    """
    check_templates((template,), UNIQUE)
    check_name(template)
    rules = OneAtATime(locks, Terms(when, on_conflict, ttl, timeout, queue_ttl, retry_in))
    if not (isinstance(base, type) and issubclass(base, Task)):
        raise UsageError(f"base must be a class of Celery's tasks, not {base!r}")
    return type("UniqueTask", (UniqueTask, base), {"abstract": True, "unique_by": rules, "unique_name": template})


class UniqueTask(BaseTask):
    """A task of which one of a kind is enqueued or runs at a time. ``unique`` makes classes of it."""

    abstract = True
    unique_by: OneAtATime
    unique_name: str
    _name_of: Callable[[Any, Any], list[str]]

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        run = cls.__dict__.get("run")
        if run is None:
            return
        # Celery gives a bound task its own request as the first argument, which no caller passes.
        function = run.__func__ if isinstance(run, staticmethod) else run.__get__(object())
        cls._name_of = staticmethod(filled((cls.unique_name,), function))

    @property
    def held(self) -> Held | None:
        """What the task holds while a worker runs it, with its fencing token. None otherwise."""
        run: Run | None = self.request.get(RUN)
        return None if run is None else run.held

    def lock_name(self, *args: Any, **kwargs: Any) -> str:
        """Return the name of the lock that a task with these arguments has."""
        return self._name_of(args, kwargs)[0]

    def apply_async(
        self, args: Any = None, kwargs: Any = None, task_id: str | None = None, **options: Any
    ) -> EagerResult | Any:
        """Enqueue the task as any other one.

        Returns:
            Its result. If it is skipped, a result whose state is ``REVOKED``: ``get`` raises ``TaskRevokedError``.

        Raises:
            LockTimeout: with ``on_conflict="wait"`` or ``"replace"``, another one was in the way for too long.
        """
        task_id = task_id or uuid()
        if self.app.conf.task_always_eager:
            return super().apply_async(  # type: ignore[misc]
                args, kwargs, task_id=task_id, **options
            )
        try:
            claim = self._claim(args or (), kwargs or {}, task_id, options)
        except Conflict as conflict:
            return self._refused(task_id, options, conflict)
        headers = {**(options.pop("headers", None) or {}), HEADER: claim}
        if claim is None:
            del headers[HEADER]
        try:
            return super().apply_async(  # type: ignore[misc]
                args, kwargs, task_id=task_id, headers=headers, **options
            )
        except BaseException:
            if claim is not None:
                self.unique_by.give_up(claim)
            raise

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task. A worker locks it; who calls it as a function runs the function alone."""
        if self.request.called_directly:
            return super().__call__(*args, **kwargs)  # type: ignore[misc]
        with self._alone(self.lock_name(*args, **kwargs)):
            return self.run(*args, **kwargs)

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        request = self.request
        try:
            run = self.unique_by.begin(name, request.id, request.get(HEADER))
        except TRIED_AGAIN as error:
            raise self._put_back(error) from error
        except Conflict as conflict:
            self.backend.mark_as_revoked(request.id, str(conflict), request, store_result=not request.ignore_result)
            raise Ignore(str(conflict)) from conflict
        setattr(request, RUN, run)
        failed = True
        try:
            yield
            failed = False
        finally:
            setattr(request, RUN, None)
            run.end(failed=failed)

    def _put_back(self, error: Exception) -> Exception:
        """Send the message again, for later: nothing of the task has run, so it counts as no retry."""
        request, wait = self.request, self.unique_by.terms.retry_in
        if request.is_eager:
            return error
        again = self.signature_from_request(request, countdown=wait, retries=request.retries)
        again.apply_async()
        put_back: Exception = Retry(str(error), exc=error, when=wait, sig=again)
        return put_back

    def _claim(self, args: Any, kwargs: Any, task_id: str, options: dict[str, Any]) -> str | None:
        delay = _delay(options)
        request = self.request
        if request.called_directly or request.id != task_id:
            return self.unique_by.enqueue(self.lock_name(*args, **kwargs), delay)
        # This task sends itself again: as a retry, which keeps the lock, or before it has begun, with its own claim.
        run: Run | None = request.get(RUN)
        if run is None:
            claim: str | None = request.get(HEADER)
            return claim
        return run.hand_on(delay) if self.unique_by.terms.when == "enqueued" else None

    def _refused(self, task_id: str, options: dict[str, Any], conflict: Conflict) -> EagerResult:
        """Return a result for the caller, and store it for those who wait for the task as a part of a canvas."""
        if options.get("group_id") or options.get("chord"):
            request = Context(id=task_id, chord=options.get("chord"), group=options.get("group_id"))
            self.backend.mark_as_revoked(task_id, str(conflict), request, store_result=True)
        return EagerResult(task_id, TaskRevokedError(str(conflict)), states.REVOKED, name=self.name)


def _delay(options: dict[str, Any]) -> float:
    """Return the seconds before which no worker will run a message."""
    eta = options.get("eta")
    if not isinstance(eta, datetime):
        return max(0.0, float(options.get("countdown") or 0.0))
    return max(0.0, (eta - datetime.now(eta.tzinfo or timezone.utc).replace(tzinfo=eta.tzinfo)).total_seconds())
