"""Turns data files into scenarios: fills in defaults, and makes one scenario for each combination that a file asks
for.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from conversation import Step


@dataclass(frozen=True)
class Scenario:
    """A server's actions, a client's calls, and the expected outcomes. `README.md` describes the fields."""

    name: str
    protocol: str
    steps: list[Step]
    answers: dict[str, Step]
    calls: list[Any]
    client: dict[str, Any]
    after: dict[str, Any]
    never: list[Any]
    faulty_connections: int | None = None
    shared: bool = False

    @property
    def behind(self) -> str:
        """The program's option for the real server behind a healed one."""
        return f"{self.protocol}_login" if "password" in self.client else self.protocol

    def for_clients(self) -> dict[str, Any]:
        """What a test suite needs to know about it."""
        kept = ("name", "protocol", "calls", "client", "after", "never", "shared")
        return {name: getattr(self, name) for name in kept}


def load(paths: Iterable[str | Path]) -> list[Scenario]:
    """All scenarios of these files. Raises ``ValueError`` for invalid ones."""
    found: dict[str, Scenario] = {}
    for path in paths:
        for scenario in _of_file(json.loads(Path(path).read_text(encoding="utf-8"))):
            if scenario.name in found:
                raise ValueError(f"{path}: a second scenario is called {scenario.name!r}")
            found[scenario.name] = scenario
    return list(found.values())


def _of_file(file: dict[str, Any]) -> Iterator[Scenario]:
    for written in file["scenarios"]:
        for scenario in _each(written, file.get("tables", {})):
            yield _scenario(scenario, file)


def _each(written: dict[str, Any], tables: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The scenario with each choice filled in for ``"@name"`` and ``"@name.field"``."""
    axes = written.get("each", {})
    columns = [_rows(tables[rows] if isinstance(rows, str) else rows) for rows in axes.values()]
    for chosen in itertools.product(*columns):
        values = {name: value for name, (_, value) in zip(axes, chosen)}
        variant = ", ".join(name for name, _ in chosen)
        filled: dict[str, Any] = _filled(written, values)
        yield {**filled, "name": f"{written['name']}: {variant}" if variant else written["name"]}


def _rows(table: dict[str, Any] | list[Any]) -> list[tuple[str, Any]]:
    if isinstance(table, dict):
        return list(table.items())
    return [(json.dumps(value) if not isinstance(value, str) else repr(value[:30]), value) for value in table]


def _filled(value: Any, values: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(inner, values) for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, values) for inner in value]
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    name, *path = value[1:].split(".")
    found = values[name]
    for field in path:
        found = found[field]
    return found


def _scenario(written: dict[str, Any], file: dict[str, Any]) -> Scenario:
    known = {field.name for field in fields(Scenario)} | {"guards", "each"}
    if unknown := written.keys() - known:
        raise ValueError(f"{written['name']}: no such field: {', '.join(sorted(unknown))}")
    own = written.get("answers", {})
    # A scenario's own answers come first. Null removes one of the file's.
    answers = {**own, **{words: step for words, step in file.get("answers", {}).items() if words not in own}}
    return Scenario(
        name=written["name"],
        protocol=file["protocol"],
        steps=[_step(step, take=1) for step in written.get("steps", [])],
        answers={words: _step(step, take=0) for words, step in answers.items() if step is not None},
        calls=written["calls"],
        client={**file.get("client", {}), **written.get("client", {})},
        after=written.get("after", {}),
        never=written.get("never", []),
        faulty_connections=written.get("faulty_connections"),
        shared=written.get("shared", False),
    )


def _step(written: str | dict[str, Any], take: int) -> Step:
    if isinstance(written, str):
        return Step(send=written, take=take)
    return Step(**{"take": take, **written})
