"""The scenarios of ``namespaces.json``, ``tags.json`` and ``near.json``, and the calls of their clients.

As a program, ``python sharing_playing.py MEMCACHED``, it plays clients in Python for tests in other languages. Each
line that it reads is an object of JSON: ``forget`` closes all clients; ``by`` and ``settings`` make one; ``by`` and
``call`` make a call. It answers each with a line: what the call ``returns`` and whether it ``makes``, or the names
of the error's classes (``raises``). While the steps of a maker's ``meanwhile`` are to be played, it has said
``meanwhile``, and reads lines until one says ``made``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from models import BLOCKING, Asyncio, Model, drive

import pinyon

FOLDER = Path(__file__).resolve().parents[2] / "scenarios"
GENEROUS = 60


def load(kind: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{kind}.json").read_text(encoding="utf-8"))


def scenarios() -> dict[str, dict[str, Any]]:
    """Those that a real server can play, by name. Each client has all its settings."""
    played = {}
    for kind in ("namespaces", "tags", "near"):
        file = load(kind)
        for scenario in file["scenarios"]:
            common = {**file["client"], **scenario.get("client", {})}
            for name, own in scenario["clients"].items():
                scenario["clients"][name] = own if "using" in own else {**common, **own}
            if "simulated" not in scenario:
                played[scenario["name"]] = scenario
    return played


class Clients:
    """The clients of a scenario.

    Args:
        connect: Makes a client with these settings.
        meanwhile: Plays the steps of a maker.
    """

    def __init__(
        self, model: Model, connect: Callable[..., Any], meanwhile: Callable[[list[Any]], Coroutine[Any, Any, None]]
    ) -> None:
        self.model = model
        self.connect = connect
        self.meanwhile = meanwhile
        self.all: dict[str, Any] = {}
        self.tokens: dict[str, Any] = {}

    def add(self, name: str, settings: dict[str, Any]) -> None:
        given = {key: pinyon.Near(**value) if isinstance(value, dict) else value for key, value in settings.items()}
        using = given.pop("using", None)
        self.all[name] = self.all[using].using(**given) if using else self.connect(**given)

    async def call(self, by: str, call: list[Any]) -> Any:
        """What the call returns, and whether it called its maker."""
        name, *arguments = call
        if name == "get_or_set":
            return await self.get_or_set(by, *arguments)
        if name in {"gets", "cas"}:
            return await getattr(self, name)(by, *arguments), False
        settings = arguments.pop() if len(arguments) > 1 and isinstance(arguments[-1], dict) else {}
        return await getattr(self.all[by], name)(*arguments, **settings), False

    async def gets(self, by: str, key: str) -> Any:
        value, self.tokens[by] = await self.all[by].gets(key) or (None, None)
        return value

    async def cas(self, by: str, key: str, value: str) -> Any:
        return await self.all[by].cas(key, value, self.tokens[by])

    async def get_or_set(self, by: str, key: str, maker: dict[str, Any], terms: dict[str, Any]) -> tuple[Any, bool]:
        makes = False

        async def make() -> Any:
            nonlocal makes
            makes = True
            await self.meanwhile(maker.get("meanwhile", []))
            return maker["value"]

        function = make if isinstance(self.model, Asyncio) else lambda: drive(make())
        return await self.all[by].get_or_set(key, function, **terms), makes


def serve(memcached: str) -> None:
    """Plays clients for the program that started this one."""

    def connect(**settings: Any) -> Any:
        return BLOCKING.client(memcached, **{"timeout": GENEROUS, "connect_timeout": GENEROUS, **settings})

    async def meanwhile(steps: list[Any]) -> None:
        if steps:
            say({"meanwhile": True})
            take_orders("made")

    clients = Clients(BLOCKING, connect, meanwhile)

    def take_orders(last: str | None) -> None:
        while (line := sys.stdin.readline()) and last not in (order := json.loads(line)):
            if "forget" in order:
                [client.close() for client in clients.all.values()]
                clients.all.clear()
                say({})
            elif "settings" in order:
                clients.add(order["by"], order["settings"])
                say({})
            else:
                say(outcome(order))

    def outcome(order: dict[str, Any]) -> dict[str, Any]:
        try:
            returned, makes = drive(clients.call(order["by"], order["call"]))
        except pinyon.Error as error:
            return {"raises": [kind.__name__ for kind in type(error).__mro__]}
        return {"returns": returned, "makes": makes}

    take_orders(None)


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
