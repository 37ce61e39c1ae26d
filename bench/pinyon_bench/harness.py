"""A Python contestant's side: answers the benchmark's requests and times its client.

Timing: `time.perf_counter` and `getrusage(RUSAGE_SELF)` around the loop; the garbage collector runs before the clock
starts and is off while it runs.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from itertools import repeat
from typing import Any

from .calls import Adapter, BoundStep, CannotDo, bind, connected, finish_quiet
from .model import verify
from .protocol import RowSpec, Timing, decode, encode


def serve(adapter: Adapter) -> None:
    """Answers requests until the input ends."""
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(encode(answer(adapter, decode(line))))
        sys.stdout.buffer.flush()


def answer(adapter: Adapter, request: dict[str, Any]) -> dict[str, Any]:
    """Returns the reply to one request; a client's error is a reply too."""
    try:
        return {"ok": True, **_do(adapter, request)}
    except CannotDo as cannot:
        return {"ok": False, "cannot": True, "reason": str(cannot)}
    except Exception as error:
        return {"ok": False, "reason": f"{type(error).__name__}: {error}"}


def _do(adapter: Adapter, request: dict[str, Any]) -> dict[str, Any]:
    wanted = request["do"]
    if wanted == "describe":
        return {"version": adapter.version(), "configuration": adapter.configuration()}
    if wanted == "verify":
        verify(adapter, request["row"])
        return {}
    if wanted == "time":
        return dict(measure(adapter, request["row"]))
    if wanted == "fail":
        return fail(adapter, request["servers"], request["attempts"], request["fresh"])
    raise CannotDo(f"no request {wanted!r}")


def measure(adapter: Adapter, row: RowSpec) -> Timing:
    """Prepares the servers, then times the row's phases on a new client."""
    _prepare(adapter, row)
    gc.collect()
    gc.disable()
    try:
        return _time_with_connect(adapter, row) if row["connect"] == "inside" else _time_warm(adapter, row)
    finally:
        gc.enable()


def _prepare(adapter: Adapter, row: RowSpec) -> None:
    with connected(adapter, row) as calls:
        _run(bind(calls, row["prepare"], row), 1)


def _time_with_connect(adapter: Adapter, row: RowSpec) -> Timing:
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    with connected(adapter, row, row["quiet"]) as calls:
        for phase in row["phases"]:
            _run(bind(calls, phase["steps"], row), phase["iterations"])
        finish_quiet(calls, row)
        return _elapsed(before, start)


def _time_warm(adapter: Adapter, row: RowSpec) -> Timing:
    with connected(adapter, row, row["quiet"]) as calls:
        work = [(bind(calls, phase["steps"], row), phase["iterations"]) for phase in row["phases"]]
        for steps, _ in work:
            _run(steps, row["warmup"])
        before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        for steps, iterations in work:
            _run(steps, iterations)
        finish_quiet(calls, row)
        return _elapsed(before, start)


def _run(steps: list[BoundStep], iterations: int) -> None:
    if len(steps) == 1:
        function, arguments = steps[0]
        for _ in repeat(None, iterations):
            function(*arguments)
        return
    for _ in repeat(None, iterations):
        for function, arguments in steps:
            function(*arguments)


def _elapsed(before: resource.struct_rusage, start: float) -> Timing:
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {"wall": wall, "user": after.ru_utime - before.ru_utime, "system": after.ru_stime - before.ru_stime}


def fail(adapter: Adapter, servers: list[str], attempts: int, fresh: bool) -> dict[str, Any]:
    """Gets from servers that are not there, on one client or on a fresh one each time; returns how many raised."""
    failures, last = 0, ""
    calls = adapter.connect(servers, "bytes", False)
    for _ in range(attempts):
        try:
            calls.get("absent")
        except Exception as error:
            failures, last = failures + 1, f"{type(error).__name__}: {error}"
        if fresh:
            calls.close()
            calls = adapter.connect(servers, "bytes", False)
    calls.close()
    return {"failures": failures, "error": last}
