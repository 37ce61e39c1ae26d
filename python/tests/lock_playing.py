"""Plays the scenarios of ``scenarios/locks.json`` in any concurrency model."""

from __future__ import annotations

import collections
import json
import re
import time
from pathlib import Path
from typing import Any

from models import Model

import pinyon

FILE = json.loads((Path(__file__).resolve().parents[2] / "scenarios" / "locks.json").read_text(encoding="utf-8"))
SCENARIOS = {scenario["name"]: scenario for scenario in FILE["scenarios"]}

#: The time limit of every step in seconds, for slow machines too.
PATIENCE = 100
#: How many are played at the same time. They mostly wait.
AT_ONCE = 8


async def play_all(model: Model, url: str, names: list[str]) -> dict[str, Exception | None]:
    """The exception of each scenario, or None."""
    left = iter(enumerate(names))
    outcomes: dict[str, Exception | None] = {}

    async def play_some() -> None:
        for number, name in left:
            playing = Playing(model, url, f"scenario{number}", SCENARIOS[name])
            outcomes[name] = None
            try:
                await playing.play()
            except Exception as error:
                outcomes[name] = error

    assert not any(await model.gather(play_some() for _ in range(AT_ONCE)))
    return outcomes


class Caller:
    """A thread, task or greenlet that does one call after another."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.calls: collections.deque[Any] = collections.deque()
        self.task = model.spawn(self.work())

    async def work(self) -> None:
        while True:
            while not self.calls:
                await self.model.sleep(0.001)
            call = self.calls.popleft()
            if call is None:
                return
            use, outcome = call
            try:
                outcome.append(await use())
            except pinyon.Error as error:
                outcome.append(error)


class Playing:
    """One scenario, in a namespace of its own."""

    def __init__(self, model: Model, url: str, namespace: str, scenario: dict[str, Any]) -> None:
        self.model = model
        self.url = url
        self.namespace = namespace
        self.scenario = scenario
        self.settings = {**FILE["client"], **scenario.get("client", {})}
        self.clients: dict[str, Any] = {}
        self.callers: dict[str, Caller] = {}
        self.held: dict[str, Any] = {}
        self.losses: dict[str, list[Any]] = {}
        self.tickets: dict[str, str] = {}
        self.begun: dict[str, list[Any]] = {}

    async def play(self) -> None:
        """Plays it. Raises ``AssertionError`` if something is wrong."""
        try:
            for step in self.scenario["steps"]:
                await self.step(step)
            await self.step({"by": "A", "call": ["left_behind"], "returns": [], "eventually": True})
        finally:
            for client in self.clients.values():
                client.close()
            for caller in self.callers.values():
                caller.calls.append(None)
                await self.model.join(caller.task)

    async def step(self, step: dict[str, Any]) -> None:
        begun_at = time.monotonic()
        if "ends" in step:
            return check(step, await self.end(self.begun[step["ends"]]))
        if "begins" in step:
            self.begun[step["begins"]] = self.begin(step)
            return None
        while True:
            outcome = await self.end(self.begin(step))
            try:
                check(step, outcome)
            except AssertionError:
                if not step.get("eventually") or time.monotonic() > begun_at + PATIENCE:
                    raise
                await self.model.sleep(0.002)
            else:
                assert time.monotonic() - begun_at >= step.get("takes", 0), step
                return None

    def begin(self, step: dict[str, Any]) -> list[Any]:
        by, (method, *arguments) = step["by"], step["call"]
        if by not in self.callers:
            self.callers[by] = Caller(self.model)
        if by[0] not in self.clients:
            self.clients[by[0]] = self.model.locks(self.url, namespace=self.namespace, **self.settings)
        outcome: list[Any] = []
        self.callers[by].calls.append((lambda: self.use(self.clients[by[0]], method, *arguments), outcome))
        return outcome

    async def end(self, outcome: list[Any]) -> Any:
        give_up = time.monotonic() + PATIENCE
        while not outcome:
            assert time.monotonic() < give_up, "it never ends"
            await self.model.sleep(0.001)
        return outcome[0]

    async def use(self, locks: Any, method: str, *arguments: Any) -> Any:
        """Carries out one call."""
        if method in ("acquire", "try_lock"):
            return await self.acquire(locks, method, *arguments)
        if method == "adopt":
            return await self.adopt(locks, *arguments)
        if method == "close":
            return locks.close()
        if method == "release_all":
            return await locks.release_all()
        if method in ("is_locked", "waiting"):
            return await getattr(locks, method)(*arguments)
        if method == "owners":
            (status,) = await locks.status(*arguments)
            attempts = [*(status.readers or filter(None, [status.holder])), *status.waiting]
            return [[status.owners[attempt].label, status.owners[attempt].note] for attempt in attempts]
        if method in ("allow", "wait_for_permits"):
            name, settings, *others = arguments
            rate = locks.rate(name, **settings)
            return bool(await (rate.allow(*others) if method == "allow" else rate.wait(*others)))
        if method == "execute":
            parts = [str(part).replace("{namespace}", f"{{{self.namespace}}}") for part in arguments]
            return await locks.execute(*parts)
        if method == "left_behind":
            keys = await locks.execute("KEYS", f"{{{self.namespace}}}:*")
            return [key for key in keys if not key.endswith((b":#f", b":#p")) and b":#x:" not in key]
        if method == "force_release":
            names, *holder = arguments
            return await locks.force_release(*names, **({"token": self.held[holder[0]].token} if holder else {}))
        return await self.use_held(locks, self.held[arguments[0]], method, *arguments)

    async def acquire(self, locks: Any, method: str, name: str, names: list[str], *settings: Any) -> bool:
        told: list[Any] = []
        given = {"on_lost": told.append, **(settings[0] if settings else {})}
        held = await (locks.lock(*names, **given).acquire() if method == "acquire" else locks.try_lock(*names, **given))
        if held is not None:
            self.held[name], self.losses[name] = held, told
        return held is not None

    async def adopt(self, locks: Any, name: str, ticket: str, *settings: Any) -> bool:
        told: list[Any] = []
        lock = locks.adopt(self.tickets[ticket], on_lost=told.append, **(settings[0] if settings else {}))
        self.held[name], self.losses[name] = await lock.acquire(), told
        return True

    async def use_held(self, locks: Any, held: Any, method: str, name: str, *arguments: Any) -> Any:
        if method == "check":
            return held.check()
        if method in ("upgrade", "downgrade"):
            names, *timeout = arguments
            await getattr(held, method)(*names, **({"timeout": timeout[0]} if timeout else {}))
            return True
        if method == "hand_over":
            self.tickets[arguments[0]] = await held.hand_over()
            return True
        if method in ("is_lost", "is_certain"):
            return getattr(held, method)
        if method == "losses":
            return len(self.losses[name])
        if method == "lasts":
            return arguments[0] <= held.remaining() <= arguments[1]
        if method == "is_later":
            return held.token > self.held[arguments[0]].token
        if method == "is_held_by":
            (status,) = await locks.status(*arguments)
            return status.token == held.token
        if method == "notify" and arguments == (0,):
            return await held.notify_all()
        return await getattr(held, method)(*arguments)


def check(step: dict[str, Any], outcome: Any) -> None:
    if not isinstance(outcome, pinyon.Error):
        assert "raises" not in step, f"{step} returned {outcome!r}"
        assert "returns" not in step or outcome == step["returns"], f"{step} returned {outcome!r}"
        return
    assert type(outcome).__name__ == step.get("raises"), f"{step} raised {outcome!r}"
    assert re.search(step.get("says", ""), str(outcome)), f"{step} raised {outcome!r}"
    assert "cycle" not in step or len(outcome.cycle) == step["cycle"], f"{step} raised {outcome!r}"
