"""Who reads what of namespaces, tags and memory (``scenarios/``), in every concurrency model, on real memcacheds."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from models import Model, every_model
from servers import Memcached
from sharing_playing import Clients, load, scenarios

import pinyon

SCENARIOS = scenarios()


class Playing:
    """One scenario."""

    def __init__(self, model: Model, server: Memcached, connect: Callable[..., Any], scenario: dict[str, Any]) -> None:
        self.model = model
        self.server = server
        self.settings = scenario["clients"]
        self.clients = Clients(model, partial(connect, server), self.play)
        self.kept: dict[str, Any] = {}
        for name, settings in sorted(self.settings.items(), key=lambda item: "using" in item[1]):
            self.clients.add(name, settings)

    async def play(self, steps: list[Any]) -> None:
        for step in steps:
            await self.step(step)

    async def step(self, step: dict[str, Any]) -> None:
        if "evict" in step:
            self.evict(**step["evict"])
        elif "together" in step:
            outcomes = await self.model.gather(self.step(each) for each in step["together"])
            assert outcomes == [None] * len(outcomes)
        elif "servers" in step:
            assert step["servers"] == "stop"
            self.server.stop()
        else:
            self.expect(step, *await self.outcome(step))

    async def outcome(self, step: dict[str, Any]) -> tuple[Any, bool]:
        try:
            return await self.clients.call(step["by"], step["call"])
        except pinyon.Error as error:
            return error, False

    def expect(self, step: dict[str, Any], outcome: Any, makes: bool) -> None:
        if "raises" in step:
            assert isinstance(outcome, getattr(pinyon, step["raises"])), (step, outcome)
            return
        assert not isinstance(outcome, pinyon.Error), (step, outcome)
        assert makes == step.get("makes", makes), step
        assert outcome == step.get("returns", outcome), (step, outcome)
        assert outcome in step.get("returns_one_of", [outcome]), (step, outcome)
        if "returns_kept" in step:
            assert outcome == self.kept[step["returns_kept"]], (step, outcome)
        if "keeps" in step:
            self.kept[step["keeps"]] = outcome

    def evict(self, of: str = "", key: str = "", tag: str = "", generation_of: str = "") -> None:
        """Deletes an item, which is named by what it is, by the key under which it is stored."""
        settings = self.settings[of or generation_of]
        namespace = settings.get("namespace", "")
        stored = f"{namespace}!generation"
        if of and settings.get("clearable"):
            namespace += self.server.ask(f"get {stored}\r\n".encode(), b"END\r\n").split(b"\r\n")[1].decode()
        if of:
            stored = f"{namespace}!tag:{tag}" if tag else f"{namespace}{key}"
        self.server.ask(f"delete {stored}\r\n".encode(), b"DELETED\r\n")


@pytest.mark.parametrize("name", SCENARIOS, ids=[*SCENARIOS])
@every_model
async def test_scenario(model: Model, name: str, connect: Callable[..., Any], request: pytest.FixtureRequest) -> None:
    scenario = SCENARIOS[name]
    server = request.getfixturevalue("own_server" if "own_server" in scenario else "server")
    await Playing(model, server, connect, scenario).play(scenario["steps"])


@pytest.mark.parametrize(
    ("kind", "page", "head"),
    [
        ("namespaces", "namespaces", "| Reader | After `clear_namespace` has returned |"),
        ("tags", "namespaces", "| Reader | After `invalidate_tags` has returned |"),
        ("near", "near", "| What happened | What a reader may get |"),
    ],
)
def test_every_row_of_the_documentation_has_a_scenario(kind: str, page: str, head: str, repository: Path) -> None:
    _, _, table = (repository / f"docs/{page}.md").read_text(encoding="utf-8").partition(f"{head}\n")
    rows = table.split("\n\n")[0].splitlines()[1:]
    assert rows
    names = [scenario["name"] for scenario in load(kind)["scenarios"]]
    said = {int(found[1]) for name in names if (found := re.match(rf"{kind}, row (\d+): ", name))}
    assert said == {number + 1 for number in range(len(rows))}
