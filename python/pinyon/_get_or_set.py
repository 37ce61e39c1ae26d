"""``get_or_set``: carries out the steps that the native half decides on, in every concurrency model."""

from __future__ import annotations

from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from pinyon import _native
from pinyon._behind import Behind
from pinyon._made import Made
from pinyon._waits import waits_of
from pinyon.errors import UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeAlias

    from pinyon._steps import Steps
    from pinyon._terms import Terms

    #: For each step, the function that carries it out and the method that receives its result.
    StepTable: TypeAlias = dict[str, tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]]]]


def check_terms(client: _native.Client, ttl: Any, executor: Any = None, **terms: Any) -> None:
    """Refuse settings that no call of ``get_or_set`` takes."""
    _native.GetOrSet(client, "", None, None, ttl, _can_go_behind(client, executor), terms)  # type: ignore[arg-type]


def _can_go_behind(client: _native.Client, executor: Any) -> bool:
    """Whether a maker can go on when its caller is done. In a thread it needs another one."""
    return executor is not None or client._driver is not None


def get_or_set(
    client: _native.Client,
    key: str | bytes,
    make: Callable[[], Any],
    ttl: Any,
    terms: Terms,
    executor: Any = None,
    begin: Callable[[_native.GetOrSet, StepTable], tuple[Any, ...]] = lambda machine, _: machine.begin(),
) -> Steps:
    """Return the value of a key. If there is none, this caller or another one makes it.

    ``begin`` begins with a machine, and may add steps that only its way needs.
    """
    if not callable(make):
        raise UnsupportedType(f"make is called to make the value; {type(make).__qualname__} is not callable")
    waits = waits_of(client)
    can_go_behind = _can_go_behind(client, executor)
    machine = _native.GetOrSet(client, key, waits.scope(), waits.caller(), ttl, can_go_behind, terms)
    behind: Behind | None = None

    def follow(seconds: float) -> Any:
        signal = waits.signal()
        return waits.wait(signal, seconds) if machine.follow(signal) else None

    def make_within(seconds: float) -> Any:
        nonlocal behind
        behind = Behind(machine, make, made, partial(carried_on, machine, steps, made), waits)
        return behind.begin(client, executor, seconds)

    steps: StepTable = {
        "ask": (client._ask_lease, machine.found),
        "make": (make, machine.made),
        "make_within": (make_within, lambda _: behind.next_step()),  # type: ignore[union-attr]
        "store": (client.cas, machine.stored),
        "store_tagged": (lambda *store: client.cas(*store[:-1], tags=store[-1]), machine.stored),
        "give_back": (client._give_back, machine.done),
        "pause": (waits.sleep, machine.done),
        "follow": (follow, machine.done),
    }

    def made(outcome: Any) -> Any:
        not_awaited("make", outcome)
        return value_of(outcome, ttl, machine.made_with)

    try:
        return (yield from carried_on(machine, steps, made, *begin(machine, steps)))
    finally:
        try:
            win = machine.leave() if behind is None or behind.is_callers() else None
            if win is not None:
                waits.give_back(client, key, *win)
                machine.returned()
        except BaseException:  # a handler of signals may raise here, too
            if behind is None or behind.is_callers():
                machine.abandon()
            raise


def make_anew(
    client: _native.Client, key: str | bytes, make: Callable[[], Any], ttl: Any, executor: Any = None, **terms: Any
) -> Steps:
    """Make the value of a key, whatever is stored, and store it in its place."""

    def begin(machine: _native.GetOrSet, steps: StepTable) -> tuple[Any, ...]:
        steps["set"] = (client.set, machine.stored)
        steps["set_tagged"] = (lambda *store: client.set(*store[:-1], tags=store[-1]), machine.stored)
        # The tags of a client of two pools are those of the new one.
        steps["read_tags"] = (getattr(client, "new", client)._ask_lease, machine.found)
        return machine.begin_anew()

    return get_or_set(client, key, make, ttl, terms, executor, begin)  # type: ignore[arg-type]


def carried_out(machine: Any, steps: StepTable, made: Callable[..., Any]) -> Steps:
    """Carry out the steps of a machine, and return what it returns.

    ``made`` turns what the user's function returned, and the arguments of the step, into what the machine receives.
    """
    return (yield from carried_on(machine, steps, made, *machine.begin()))


def carried_on(machine: Any, steps: StepTable, made: Callable[..., Any], step: str, *given: Any) -> Steps:
    """The same from a step on."""
    arguments = list(given)
    while step != "return":
        carry_out, tell = steps[step]
        try:
            outcome = yield carry_out(*arguments)
            if step == "make":
                outcome = made(outcome, *arguments)
        except Exception as error:
            if step == "make_within":  # the maker does not raise here: something ends the caller's wait
                raise
            step, *arguments = machine.failed(error)
        else:
            step, *arguments = tell(outcome)
    return arguments[0]


def value_of(made: Any, ttl: Any, made_with: Callable[[Any, Any, bool], None]) -> Any:
    """Return the value that was made, once ``made_with`` knows how long it is kept."""
    is_made = isinstance(made, Made)
    if not is_made and not callable(ttl):
        return made
    how = made if is_made else Made(made)
    own_ttl = ttl(how.value) if how.ttl is None and how.store and callable(ttl) else how.ttl
    made_with(own_ttl, how.stale, how.store)
    return how.value


def not_awaited(name: str, made: Any) -> None:
    """Refuse what a coroutine function returned that was called and not awaited. ``name``: the argument's."""
    if not isinstance(made, CoroutineType):
        return
    made.close()
    raise UnsupportedType(
        f"{name} returned a coroutine ({made.__qualname__}), which is not awaited here: give a function that returns "
        f"the {'value' if name == 'make' else 'values'}, or use pinyon.aio.Client"
    )
