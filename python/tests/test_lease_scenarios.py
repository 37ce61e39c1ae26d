"""``scenarios/leases.json`` and ``leases_many.json`` in every concurrency model, on a real memcached."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from making import awaited
from models import BLOCKING, Asyncio, Model, every_model
from servers import Memcached
from waiting import SOON

import pinyon

FOLDER = Path(__file__).resolve().parents[2] / "scenarios"
FILES = [json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in ("leases.json", "leases_many.json")]
SCENARIOS = {scenario["name"]: scenario for file in FILES for scenario in file["scenarios"]}
KEY = "key"


class DatabaseError(Exception):
    """What makers fail with."""


class Playing:
    """One scenario."""

    def __init__(self, model: Model, connect: Callable[[], Any], also: dict[str, Any]) -> None:
        self.model = model
        #: Further settings of each ``get_or_set``.
        self.also = also
        self.connect = connect
        self.clients: dict[str, Any] = {}
        self.told: list[pinyon.Event] = []
        self.leases: list[Any] = []
        self.made: list[list[str]] = []
        self.failed: dict[str, Exception] | None = None

    async def step(self, step: dict[str, Any]) -> None:
        name, *arguments = step["call"]
        client = self.clients.get(step["by"]) or self.clients.setdefault(step["by"], self.connect(self.told.append))
        until = time.monotonic() + SOON
        self.failed = {} if "failing" in step else None
        while True:
            self.made = []
            outcome = await self.outcome(getattr(self, name)(client, *arguments))
            if step.get("eventually") and outcome != step["returns"] and time.monotonic() < until:
                await self.model.sleep(0.1)
                continue
            break
        if "returns" in step:
            assert outcome == step["returns"], step
        elif "fails" in step:
            assert isinstance(outcome, DatabaseError), step
            assert str(outcome) == step["fails"]
        else:
            assert isinstance(outcome, getattr(pinyon, step["raises"])), (step, outcome)
            assert re.search(step["says"], str(outcome)), step
        if self.failed is not None:
            assert {key: type(error).__name__ for key, error in self.failed.items()} == step["failing"], step
        if "makes" in step:
            makes = step["makes"]
            assert self.made == ([makes] if isinstance(makes, list) else [[KEY]] if makes else []), step

    async def outcome(self, call: Any) -> Any:
        try:
            return await call
        except (pinyon.Error, DatabaseError) as error:
            return error

    async def get_or_set(self, client: Any, maker: dict[str, Any], terms: dict[str, Any]) -> Any:
        return await client.get_or_set(KEY, self._maker(maker), **_given(terms), **self.also)

    async def refresh(self, client: Any, maker: dict[str, Any], terms: dict[str, Any]) -> Any:
        decorator = getattr(client, "wrapped", client).cached(KEY, **_given(terms), **self.also)
        return await awaited(decorator(self._maker(maker)).refresh())

    async def get_or_set_many(self, client: Any, keys: list[str], maker: dict[str, Any], terms: dict[str, Any]) -> Any:
        def make(asked: list[str]) -> Any:
            self._called(asked, maker)
            return {key: _made(value) if isinstance(value, dict) else value for key, value in maker.items()}

        return await client.get_or_set_many(keys, self._function(make), failed=self.failed, **_given(terms))

    async def get(self, client: Any) -> Any:
        return await client.get(KEY)

    async def gat(self, client: Any, ttl: int) -> Any:
        return await client.gat(KEY, ttl)

    async def touch(self, client: Any, ttl: int) -> bool:
        return bool(await client.touch(KEY, ttl))

    def _maker(self, maker: dict[str, Any]) -> Callable[[], Any]:
        def make() -> Any:
            self._called([KEY], maker)
            return maker["value"] if "value" in maker else _made(maker)

        return self._function(make)

    def _called(self, keys: list[str], maker: dict[str, Any]) -> None:
        self.made.append(keys)
        if "fails" in maker:
            raise DatabaseError(maker["fails"])

    def _function(self, make: Callable[..., Any]) -> Callable[..., Any]:
        async def awaited(*arguments: Any) -> Any:
            return make(*arguments)

        return awaited if isinstance(self.model, Asyncio) else make

    async def mark_stale(self, client: Any, seconds: int, key: str = KEY) -> bool:
        return bool(await client.delete(key, stale=seconds))

    async def delete(self, client: Any, key: str = KEY) -> bool:
        return bool(await client.delete(key))

    async def lease(self, client: Any, key: str) -> str:
        awaited = isinstance(self.model, Asyncio)
        found = await (client._ask_lease(key, 1000, 0) if awaited else client.lease(key, lease=1000))
        self.leases.append(found)
        return str(getattr(found.state, "value", found.state))

    async def ttl_is_within(self, client: Any, low: int, high: int, key: str = KEY) -> bool:
        ttl = (await client.meta(key)).ttl
        return low - SOON < ttl <= high

    async def kept(self, client: Any) -> int:
        return sum(server.command("lease").kept for server in client.metrics().values())

    async def events(self, client: Any, kind: str, reason: str) -> int:
        return sum(event.kind == kind and event.line.endswith(reason) for event in self.told)


def _given(terms: dict[str, Any]) -> dict[str, Any]:
    return {**terms, **({"ttl": int} if terms["ttl"] == "number" else {})}


def _made(maker: dict[str, Any]) -> pinyon.Made[Any]:
    return pinyon.Made(**{"value" if name == "made" else name: given for name, given in maker.items()})


@pytest.mark.parametrize("name", SCENARIOS)
@every_model
async def test_scenario(model: Model, name: str, server: Memcached, connect: Callable[..., Any]) -> None:
    with ThreadPoolExecutor() as executor:
        also = {"executor": executor} if "behind" in SCENARIOS[name] and model is BLOCKING else {}
        playing = Playing(model, lambda on_event: connect(server, on_event=on_event), also)
        for step in SCENARIOS[name]["steps"]:
            await playing.step(step)
