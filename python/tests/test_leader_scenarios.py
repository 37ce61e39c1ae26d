"""Every scenario of ``scenarios/leaders.json`` in every concurrency model, on a server that it may stop and start."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from models import MODELS, Model
from servers import Redis

FILE = json.loads((Path(__file__).resolve().parents[2] / "scenarios" / "leaders.json").read_text(encoding="utf-8"))
SCENARIOS = {scenario["name"]: scenario for scenario in FILE["scenarios"]}

#: The time limit of every step in seconds, for slow machines too.
PATIENCE = 100


class Candidate:
    """A leader, and what its callbacks were called with."""

    def __init__(self, locks: Any, name: str, fails: dict[str, str]) -> None:
        self.called: list[tuple[str, int]] = []
        callbacks = {kind: self.callback(kind, fails) for kind in ("on_elected", "on_lost")}
        self.leader = locks.leader(name, **callbacks)

    def callback(self, kind: str, fails: dict[str, str]) -> Any:
        def call(token: int) -> None:
            self.called.append((kind[3:], token))
            if kind in fails:
                raise ValueError("the test wants it")

        return call

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.called]

    @property
    def tokens(self) -> list[int]:
        """Those with which it was elected. Each was told of its end, the last one perhaps not."""
        elected = [token for kind, token in self.called if kind == "elected"]
        lost = [token for kind, token in self.called if kind == "lost"]
        assert self.kinds == ["elected", "lost"] * len(lost) + ["elected"] * (len(elected) - len(lost))
        assert elected[: len(lost)] == lost
        assert sorted(set(elected)) == elected
        return elected


class Playing:
    def __init__(self, model: Model, server: Redis, namespace: str, scenario: dict[str, Any]) -> None:
        self.model = model
        self.server = server
        self.scenario = scenario
        self.settings = {"namespace": namespace, **FILE["client"], **scenario.get("client", {})}
        self.clients: dict[str, Any] = {}
        self.told: dict[str, list[str]] = {}
        self.candidates: dict[str, Candidate] = {}

    async def play(self) -> None:
        try:
            for step in self.scenario["steps"]:
                await self.step(step)
            for candidate in self.candidates.values():
                assert await candidate.leader.stop(PATIENCE)
                assert len(candidate.tokens) * 2 == len(candidate.called), "each election ends once"
        finally:
            for client in self.clients.values():
                client.close()
        assert not self.server.left_behind() or "closing" in self.scenario["name"]

    async def step(self, step: dict[str, Any]) -> None:
        if "server" in step:
            return getattr(self.server, step["server"])()
        locks = self.client(step["by"])
        until = time.monotonic() + PATIENCE
        while (found := await self.use(step["by"], locks, *step["call"])) != step.get("returns", found):
            assert time.monotonic() < (until if step.get("eventually") else 0), f"{step} returned {found!r}"
            await self.model.sleep(0.002)
        return None

    def client(self, by: str) -> Any:
        if by not in self.clients:
            lines = self.told[by] = []
            report = lambda event: lines.append(event.line)  # noqa: E731
            self.clients[by] = self.model.locks(self.server.url, on_event=report, **self.settings)
        return self.clients[by]

    async def use(self, by: str, locks: Any, method: str, *arguments: Any) -> Any:
        if method == "start":
            name, of, *fails = arguments
            self.candidates[name] = Candidate(locks, of, fails[0] if fails else {})
            self.candidates[name].leader.start()
            return None
        if method == "close":
            return locks.close()
        if method == "waiting":
            return await locks.waiting(*arguments)
        if method == "force_release":
            return await locks.force_release(*arguments[0])
        if method == "told":
            return any(arguments[0] in line for line in self.told[by])
        if method == "has_leader":
            return await locks.leader(*arguments).current() is not None
        return await self.use_candidate(locks, self.candidates[arguments[0]], method, *arguments[1:])

    async def use_candidate(self, locks: Any, candidate: Candidate, method: str, *arguments: Any) -> Any:
        leader = candidate.leader
        if method == "leads":
            status = await locks.leader(*arguments).current()
            return status is not None and status.token == leader.token
        if method == "called":
            return candidate.kinds
        if method == "called_at_first":
            return candidate.kinds[: len(arguments[0])] == arguments[0]
        if method == "is_later":
            return candidate.tokens[-1] > self.candidates[arguments[0]].tokens[-1]
        if method == "is_later_than_before":
            return candidate.tokens[-1] > candidate.tokens[-2]
        if method == "stop":
            return await leader.stop(PATIENCE)
        return leader.resign() if method == "resign" else getattr(leader, method)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_scenario(model: Model, name: str, own_redis: Redis) -> None:
    model.run(Playing(model, own_redis, "leaders", SCENARIOS[name]).play())
