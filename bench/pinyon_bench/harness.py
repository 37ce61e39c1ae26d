"""The Python contestants' side: answers the benchmark's requests, and times its client on rows of steps."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import repeat
from typing import Any

from pinyon.cli.stress.models import Model

from .calls import STORES, Adapter, BoundStep, Calls, CannotDo, bind, connected, finish_quiet
from .clock import Stopwatch, no_garbage_collection
from .names import BLOCKING
from .protocol import RowSpec, Timing, decode, encode

Do = Callable[[dict[str, Any]], dict[str, Any]]
#: Makes two functions for an adapter and a model: one does a request, the other is called at the end.
Serve = Callable[[Any, Model], tuple[Do, Callable[[], None]]]


def run_contestant(package: str, models: dict[str, type[Model]], serve: Serve) -> int:
    """Serves the adapter and the concurrency model named on the command line; reports one that cannot be imported."""
    names = sys.argv[1:]
    model = names[1] if len(names) == 2 else BLOCKING
    if len(names) not in (1, 2) or model not in models:
        print(f"usage: python -m {package} MODULE[.ADAPTER] [{'|'.join(models)}]", file=sys.stderr)
        return 2
    module, _, attribute = names[0].partition(".")
    try:
        adapter = getattr(importlib.import_module(f"{package}.{module}"), attribute or "ADAPTER")
        do, close = serve(adapter, models[model]())
    except ImportError as error:
        refuse(f"cannot be imported: {error}")
        return 1
    answer_requests(do)
    close()
    return 0


def answer_requests(do: Do) -> None:
    """Answers requests until the input ends."""
    for line in sys.stdin.buffer:
        _write(answer(do, decode(line)))


def refuse(reason: str) -> None:
    """Answers the first request with the reason why none can be done."""
    sys.stdin.buffer.readline()
    _write({"ok": False, "reason": reason})


def _write(reply: dict[str, Any]) -> None:
    sys.stdout.buffer.write(encode(reply))
    sys.stdout.buffer.flush()


def answer(do: Do, request: dict[str, Any]) -> dict[str, Any]:
    """Returns the reply to one request. A client's error is a reply too."""
    try:
        return {"ok": True, **do(request)}
    except CannotDo as cannot:
        return {"ok": False, "cannot": True, "reason": str(cannot)}
    except Exception as error:
        return {"ok": False, "reason": f"{type(error).__name__}: {error}"}


def described(adapter: Adapter) -> dict[str, Any]:
    """Returns what `describe` asks for."""
    return {"version": adapter.version, "configuration": adapter.configuration}


class Kept:
    """Does rows with clients that are kept from row to row, by server."""

    def __init__(self, adapter: Any, model: Model) -> None:
        self._adapter = adapter
        self._model = model
        self._clients: dict[str, Any] = {}

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        """Does one request. Raises CannotDo, WrongResult or the client's exception, and then drops its clients."""
        if request["do"] == "describe":
            return described(self._adapter)
        if request["do"] != "play":
            raise CannotDo(f"no request {request['do']!r}")
        try:
            return self._play(request["row"])
        except BaseException:
            with suppress(Exception):
                self.close()
            raise

    def close(self) -> None:
        """Closes all clients."""
        while self._clients:
            self._model.run(self._model.outcome(self._clients.popitem()[1].close()))

    def _client(self, server: str, *arguments: Any) -> Any:
        if server not in self._clients:
            self._clients[server] = self._model.run(self._model.outcome(self._adapter.connect(*arguments)))
        return self._clients[server]

    def _play(self, row: Any) -> dict[str, Any]:
        raise NotImplementedError


def do_steps(adapter: Adapter, request: dict[str, Any]) -> dict[str, Any]:
    """Does one request. Raises CannotDo, WrongResult or the client's exception."""
    wanted = request["do"]
    if wanted == "describe":
        return described(adapter)
    if wanted == "play":
        row = request["row"]
        return {"replies": replies(adapter, row)} if row["check"] else dict(measure(adapter, row))
    if wanted == "fail":
        return fail(adapter, request["servers"], request["attempts"], request["fresh"])
    raise CannotDo(f"no request {wanted!r}")


def replies(adapter: Adapter, row: RowSpec) -> list[Any]:
    """Does the row's phases on a new client, and returns every reply as JSON knows it."""
    found = []
    with connected(adapter, row, row["quiet"]) as calls:
        for phase in row["phases"]:
            bound = bind(calls, phase["steps"], row)
            for _ in range(phase["iterations"]):
                for step, (function, arguments) in zip(phase["steps"], bound):
                    found.append(_told(calls, step[0], function(*arguments)))
        finish_quiet(calls, row)
    return found


def _told(calls: Calls, operation: str, reply: Any) -> Any:
    if operation == "get_many":
        return {key: _told(calls, "get", value) for key, value in calls.found(reply).items()}
    if operation in (*STORES, "delete"):
        return bool(reply)
    return bytes(reply).decode("latin-1") if isinstance(reply, (bytes, memoryview)) else reply


def measure(adapter: Adapter, row: RowSpec) -> Timing:
    """Times the row's phases on a new client."""
    with no_garbage_collection():
        return _time_with_connect(adapter, row) if row["connect"] == "inside" else _time_warm(adapter, row)


def _time_with_connect(adapter: Adapter, row: RowSpec) -> Timing:
    watch = Stopwatch()
    with connected(adapter, row, row["quiet"]) as calls:
        for phase in row["phases"]:
            _run(bind(calls, phase["steps"], row), phase["iterations"])
        finish_quiet(calls, row)
        return watch.elapsed()


def _time_warm(adapter: Adapter, row: RowSpec) -> Timing:
    with connected(adapter, row, row["quiet"]) as calls:
        work = [(bind(calls, phase["steps"], row), phase["iterations"]) for phase in row["phases"]]
        for steps, _ in work:
            _run(steps, row["warmup"])
        watch = Stopwatch()
        for steps, iterations in work:
            _run(steps, iterations)
        finish_quiet(calls, row)
        return watch.elapsed()


def _run(steps: list[BoundStep], iterations: int) -> None:
    if len(steps) == 1:
        function, arguments = steps[0]
        for _ in repeat(None, iterations):
            function(*arguments)
        return
    for _ in repeat(None, iterations):
        for function, arguments in steps:
            function(*arguments)


def fail(adapter: Adapter, servers: list[str], attempts: int, fresh: bool) -> dict[str, Any]:
    """Gets from servers that do not exist, on one client or on a new one each time; returns how many gets raised."""
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
