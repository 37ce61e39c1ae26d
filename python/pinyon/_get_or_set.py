"""``get_or_set``: carries out the steps that the native half decides on, in every concurrency model."""

from __future__ import annotations

from types import CoroutineType
from typing import TYPE_CHECKING, Any

from pinyon import _native
from pinyon._waits import waits_of
from pinyon.errors import UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pinyon._steps import Steps


def get_or_set(client: _native.Client, key: str | bytes, make: Callable[[], Any], *terms: Any) -> Steps:
    """Return the value of a key. If there is none, this caller or another one makes it."""
    if not callable(make):
        raise UnsupportedType(f"make is called to make the value; {type(make).__qualname__} is not callable")
    waits = waits_of(client)
    machine = _native.GetOrSet(client, key, waits.scope(), waits.caller(), *terms)

    def follow(seconds: float) -> Any:
        signal = waits.signal()
        return waits.wait(signal, seconds) if machine.follow(signal) else None

    #: For each step, the function that carries it out and the method that receives its result.
    steps: dict[str, tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]]]] = {
        "ask": (client._ask_lease, machine.found),
        "make": (make, machine.made),
        "store": (client.cas, machine.stored),
        "give_back": (client._give_back, machine.done),
        "pause": (waits.sleep, machine.done),
        "follow": (follow, machine.done),
    }
    try:
        step, *arguments = machine.begin()
        while step != "return":
            carry_out, tell = steps[step]
            try:
                outcome = yield carry_out(*arguments)
                if step == "make" and isinstance(outcome, CoroutineType):
                    raise _not_awaited(outcome)
            except Exception as error:
                step, *arguments = machine.failed(error)
            else:
                step, *arguments = tell(outcome)
        return arguments[0]
    finally:
        try:
            win = machine.leave()
            if win is not None:
                waits.give_back(client, key, *win)
                machine.returned()
        except BaseException:  # a handler of signals may raise here, too
            machine.abandon()
            raise


def _not_awaited(made: CoroutineType[Any, Any, Any]) -> UnsupportedType:
    """Return the error for a coroutine function that was called and not awaited."""
    made.close()
    return UnsupportedType(
        f"make returned a coroutine ({made.__qualname__}), which is not awaited here: give a function that returns the "
        "value, or use pinyon.aio.Client"
    )
