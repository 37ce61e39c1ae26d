"""Plays the scenarios of ``scenarios/``: runs their server as a process, and their calls in any concurrency model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import pytest
from models import Model

import pinyon

if TYPE_CHECKING:
    from typing_extensions import Self

FOLDER = Path(__file__).resolve().parents[2] / "scenarios"
FILES = sorted(map(str, (FOLDER / "data").glob("*.json")))

#: Seconds by which a call may be late, on slow machines too. Every fault here lasts longer.
LATE = 10.0
#: How many are played at the same time.
AT_ONCE = 32
#: Seconds within which a healed server must be in use again.
HEALED = 60.0


class Scenarios:
    """The scripted server, with one address for each scenario.

    Args:
        real: the addresses of real servers, by the names of the program's options.
        files: the scenario files.
    """

    def __init__(self, real: Mapping[str, str], files: list[str] = FILES) -> None:
        options = [word for kind, address in real.items() for word in (f"--{kind}", address)]
        command = [sys.executable, str(FOLDER / "server.py"), *options, *files]
        self._asking = threading.Lock()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.by_name: dict[str, dict[str, Any]] = {each["name"]: each for each in self._answer()}

    def tell(self, word: str, name: str) -> dict[str, Any]:
        """Sends ``heal`` or ``report`` about a scenario. Returns what happened there."""
        assert self.process.stdin is not None
        with self._asking:
            self.process.stdin.write(f"{word} {name}\n")
            self.process.stdin.flush()
            report: dict[str, Any] = self._answer()
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


#: The exception of each scenario that was played, or None.
Outcomes = dict[str, Optional[Exception]]


@cache
def written() -> Mapping[str, dict[str, Any]]:
    """All scenarios by their names, as they are written."""
    with Scenarios({}) as scenarios:
        return scenarios.by_name


class Played:
    """The outcomes of each model's scenarios. All that a test run selects are played when the first one is needed.

    Args:
        test: the test that has a case for each model and name.
        play: plays a model's scenarios of these names.
    """

    def __init__(self, session: pytest.Session, test: object, play: Callable[[Model, list[str]], Outcomes]) -> None:
        items = [item for item in session.items if isinstance(item, pytest.Function) and item.function is test]
        self._cases = [item.callspec.params for item in items if _is_run(item)]
        self._play = play
        self._outcomes: dict[str, Outcomes] = {}

    def check(self, model: Model, name: str) -> None:
        """Raises what a scenario has raised."""
        if model.name not in self._outcomes:
            self._outcomes[model.name] = {}  # if that fails as a whole, it is not begun again
            names = [case["name"] for case in self._cases if case["model"] is model]
            self._outcomes[model.name] = self._play(model, names)
        error = self._outcomes[model.name][name]
        if error is not None:
            raise error


def _is_run(item: pytest.Function) -> bool:
    expected = item.get_closest_marker("xfail")
    return expected is None or bool(expected.kwargs.get("run", True))


async def play_all(model: Model, scenarios: Scenarios, names: list[str]) -> Outcomes:
    """Plays scenarios, many at the same time. They mostly wait."""
    left = iter(names)
    outcomes: Outcomes = {}

    async def play_some() -> None:
        for name in left:
            try:
                await play(model, scenarios, name)
            except Exception as error:
                outcomes[name] = error
            else:
                outcomes[name] = None

    assert not any(await model.gather(play_some() for _ in range(AT_ONCE)))
    return outcomes


async def play(model: Model, scenarios: Scenarios, name: str) -> None:
    """Plays one scenario. Raises ``AssertionError`` if something is wrong."""
    scenario = scenarios.by_name[name]
    playing = (_OnMemcached if scenario["protocol"] == "memcached" else _OnRedis)(model, scenarios, scenario)
    try:
        for call in scenario["calls"]:
            await playing.step(call)
        await playing.works_again()
    finally:
        playing.client.close()
    playing.check_report(scenario["after"])


class _Playing:
    """One scenario, and a client of its server."""

    #: The client's settings that limit the time of a call.
    limits: tuple[str, ...]

    def __init__(self, model: Model, scenarios: Scenarios, scenario: dict[str, Any]) -> None:
        self.model = model
        self.scenarios = scenarios
        self.scenario = scenario
        self.address: str = scenario["address"]
        self.client = self.connected(scenario["client"])
        self.report: dict[str, Any] = {}

    def connected(self, settings: dict[str, Any]) -> Any:
        raise NotImplementedError

    async def use(self, name: str, arguments: list[Any]) -> Any:
        """Carries out one call."""
        raise NotImplementedError

    def afterwards(self) -> Iterator[dict[str, Any]]:
        """The calls that must succeed once the server is healed."""
        raise NotImplementedError

    async def step(self, step: dict[str, Any]) -> None:
        if "together" in step:
            for outcome in await self.model.gather(self.step(each) for each in step["together"]):
                if outcome is not None:
                    raise outcome
        elif "wait_ms" in step:
            await self.model.sleep(step["wait_ms"] / 1000)
        elif step.get("server") == "heal":
            self.heal()
        else:
            await self.call(step)

    async def call(self, step: dict[str, Any]) -> None:
        name, *arguments = step["call"]
        give_up = time.monotonic() + HEALED
        while True:
            begun = time.monotonic()
            try:
                value = _plain(await self.use(name, arguments))
            except pinyon.Error as error:
                self.check_values(getattr(error, "partial", None))
                if step.get("eventually") and time.monotonic() < give_up:
                    await self.model.sleep(0.02)
                    continue
                self.check_error(step, error)
            else:
                self.check_values(value)
                assert "raises" not in step, f"{step} returned {value!r}"
                assert "returns" not in step or value == step["returns"], f"{step} returned {value!r}"
            limit = LATE + sum(self.scenario["client"].get(each, 0) for each in self.limits)
            assert time.monotonic() - begun < limit, f"{step} took too long"
            return

    def check_error(self, step: dict[str, Any], error: pinyon.Error) -> None:
        """Checks that this error is allowed here, and that its text is right."""
        password = self.scenario["client"].get("password")
        assert password is None or password not in everything_said(error), f"{step}: the password is in {error!r}"
        expected = step.get("raises", step.get("may_raise", []))
        kinds = tuple(getattr(pinyon, kind) for kind in ([expected] if isinstance(expected, str) else expected))
        if isinstance(error, pinyon.BatchError) and pinyon.BatchError not in kinds:
            assert error.sent == step.get("sent", error.sent), f"{step}: {error!r} has sent={error.sent}"
            (failure,) = error.failures
            assert failure.error is not None
            assert [failure.command, failure.key] == step["call"][1][:2]
            error = failure.error
        assert isinstance(error, kinds), f"{step} raised {error!r}"
        assert re.search(step.get("says", ""), str(error)), f"{step} raised {error!r}"
        assert error.sent == step.get("sent", error.sent), f"{step}: {error!r} has sent={error.sent}"
        if not isinstance(error, (pinyon.LockError, pinyon.UndecodableValue)):
            assert error.server == self.address or self.address in str(error), f"{error!r} does not name the server"

    def check_values(self, value: Any) -> None:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for each in (value, *inner):
            assert not any(type(each) is type(never) and each == never for never in self.scenario["never"]), (
                f"{value!r} was handed out"
            )

    def heal(self) -> None:
        self.report = self.report or self.scenarios.tell("heal", self.scenario["name"])

    async def works_again(self) -> None:
        """Heals the server. Soon afterwards, the same client must work again."""
        self.heal()
        for step in self.afterwards():
            await self.step({**step, "eventually": True})

    def check_report(self, after: dict[str, Any]) -> None:
        """Checks what the server saw until it was healed."""
        unexpected = self.report["unexpected"]
        assert not unexpected, f"{unexpected} does not match its step"
        assert after.get("connections") in (None, self.report["connections"]), self.report
        for request in self.report["requests"]:
            allowed = after.get("requests", [""])
            assert any(re.search(words, request) for words in allowed), f"{request} was not to be sent"


class _OnMemcached(_Playing):
    limits = ("timeout",)

    def connected(self, settings: dict[str, Any]) -> Any:
        return self.model.client([self.address], **settings)

    async def use(self, name: str, arguments: list[Any]) -> Any:
        if name != "batch":
            return await getattr(self.client, name)(*arguments)
        async with self.client.quiet() as batch:
            for command, *rest in arguments:
                await getattr(batch, command)(*rest)
        return None

    def afterwards(self) -> Iterator[dict[str, Any]]:
        yield {"call": ["set", "after", "right"], "returns": True}
        yield {"call": ["get", "after"], "returns": "right"}
        yield {"call": ["get_many", ["after", "missing"]], "returns": {"after": "right"}}

    def check_error(self, step: dict[str, Any], error: pinyon.Error) -> None:
        super().check_error(step, error)
        if step["call"][0] != "batch" and error.command is not None:
            assert error.command == step["call"][0].replace("gets", "get")
            assert str(error).startswith(f"{self.address}: {error.command}: ")


class _OnRedis(_Playing):
    limits = ("timeout", "command_timeout", "connect_timeout")

    def connected(self, settings: dict[str, Any]) -> Any:
        return self.model.locks(f"redis://{self.address}", **settings)

    async def use(self, name: str, arguments: list[Any]) -> Any:
        if name == "lock":
            async with self.client.lock(*arguments) as held:
                return held.token
        if name == "proceed":
            async with self.client.lock(*arguments, on_failure="proceed") as held:
                return held.is_certain
        if name == "try_lock":
            held = await self.client.try_lock(*arguments)
            assert held is not None
            await held.release()
            return None
        return await getattr(self.client, name)(*arguments)

    def afterwards(self) -> Iterator[dict[str, Any]]:
        yield {"call": ["execute", "ECHO", "right"], "returns": "right"}
        yield {"call": ["try_lock", f"after {self.address}"]}


def everything_said(error: BaseException) -> str:
    """Everything that a log or an error report could show, including local variables outside the tests."""
    return "".join([repr(error), str(error), repr(vars(error)), *traceback.format_exception(error)])


def _plain(value: Any) -> Any:
    """A value as JSON has it. Bytes become text with one character per byte."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return value
