"""Real processes under faults: the quick cells, and a world that is wrong on purpose."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pinyon_verify import programs
from pinyon_verify.cli import main
from pinyon_verify.locks import switches
from pinyon_verify.locks.cell import Cell
from pinyon_verify.locks.cells import CELLS
from pinyon_verify.locks.evidence import Attempt, weigh
from pinyon_verify.locks.group import Group
from pinyon_verify.locks.history import SECOND, now, read
from pinyon_verify.locks.names import lock_key
from pinyon_verify.locks.run import run
from pinyon_verify.locks.server import Server
from pinyon_verify.locks.settings import BUSY
from pinyon_verify.locks.world import World


def test_the_quick_cells(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["locks", "--quick"])
    assert status == 0, capsys.readouterr().out


def test_names_of_cells_are_distinct() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)


def test_an_unknown_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["locks", "--cell", "no-such-cell"]) == 2
    assert "no-such-cell" in capsys.readouterr().out


def delete_secretly(world: World) -> None:
    world.server.ask("DEL", *map(lock_key, world.names))


def test_a_world_that_is_wrong_is_found_out() -> None:
    """Locks vanish without a cause, and clients without order are checked for order."""
    crowded = BUSY.but(fairness="throughput", model="asyncio", long_stays=0.2)
    cell = Cell("wrong", "", (crowded, crowded, crowded), faults=(delete_secretly,), every=0.05)
    result = run(cell, seed=1, seconds=1.5)
    assert {"belief", "exclusion", "order"} <= {finding.check for finding in result.violations}
    assert "--seed 1" in result.replay


@pytest.mark.parametrize("model", ["asyncio", "blocking", "ruby-threads", "perl-threads"])
def test_clients_work_for_as_long_as_they_are_told(model: str, tmp_path: Path) -> None:
    """A fault takes longer than the cell, and its time begins anew.

    While the server is stopped, whoever has begun an attempt cannot end it, and nobody ends for lack of time before.
    """
    try:
        programs.of_locks(model)
    except programs.Missing as missing:
        pytest.skip(str(missing))
    resumed: list[int] = []

    def is_late(attempt: Attempt) -> bool:
        return attempt.invoked > resumed[0] and attempt.granted is not None

    def pause(world: World) -> None:
        world.server.pause()
        world.work_on(1.0)
        ends_without = world.until
        world.work_on(60.0)
        time.sleep(max(0.0, (ends_without - now()) / SECOND))
        world.server.resume()
        resumed.append(now())
        # How soon a client is granted its next lock depends on the load of the machine.
        while world.running() and not any(map(is_late, weigh(read(world.history)).attempts)):
            time.sleep(0.05)
        world.work_on(0)

    patient = BUSY.but(patience=60.0, command_timeout=60.0, cancels=0.0, tries=0.0)
    cell = Cell("late", "", patient.each(model), faults=(pause,), every=60.0, traced=False)
    evidence = World(cell, 1, 60.0, tmp_path / "world").run()
    assert any(map(is_late, evidence.attempts))
    assert not evidence.violations


def test_a_slow_machine_leaves_time_for_a_fault(tmp_path: Path) -> None:
    caused: list[World] = []
    world = World(Cell("slow", "", (BUSY,), faults=(caused.append,)), 1, 1.0, tmp_path / "world")
    world._cause_faults(last=now() - SECOND)
    assert caused == [world]


class Undecided(Group):
    """Servers whose Sentinels name one after another as the primary."""

    def __init__(self, folder: Path, served_by: str) -> None:
        servers = [Server(folder / str(number)) for number in range(3)]
        super().__init__(servers, [], folder, linked=False)
        self._next = iter(served_by)
        self._left = len(served_by)

    def serving(self) -> Server | None:
        self._left -= 1
        number = next(self._next)
        return None if number == "-" else self.servers[int(number)]

    def is_settled(self) -> bool:
        return self._left == 0


@pytest.mark.parametrize(
    ("served_by", "recorded"),
    [
        ("11", [("failover", 0, 1)]),
        ("1--1", [("failover", 0, 1), ("pause",)]),
        ("1-2-11", [("failover", 0, 1), ("failover", 1, 2), ("failover", 2, 1)]),
    ],
)
def test_all_that_sentinels_do_is_recorded(
    served_by: str, recorded: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switches, "TOLD", 0.0)
    told: list[tuple[Any, ...]] = []
    worked: list[float] = []
    group = Undecided(tmp_path, served_by)
    world: Any = SimpleNamespace(
        server=group,
        seconds=9.0,
        work_on=worked.append,
        fault=lambda kind, at: told.append((kind,)),
        record=lambda event, attempt, at, kind, **facts: told.append((kind, facts["old"], facts["new"])),
    )
    switch = switches._Switch(world)
    group.primary = group.servers[1]
    switch.over()
    assert told == recorded
    assert worked[0] > 60
    assert worked[1:] == [9.0]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "server")
    server.start()
    yield server
    server.stop()


def test_a_key_may_stay_until_the_end_that_a_fast_clock_set(server: Server, tmp_path: Path) -> None:
    world = World(Cell("clock", "", (BUSY,), moves_clock=True), 1, 1.0, tmp_path / "world")
    world.server, world.clock = server, SimpleNamespace(furthest=600)  # type: ignore[assignment]
    server.ask("SET", "in-time", "x", "PX", 500_000)
    server.ask("SET", "too-late", "x", "PX", 900_000)
    server.ask("SET", "for-ever", "x")
    keys = ["in-time", "too-late", "for-ever", "gone"]
    assert world._that_stay(keys, 5.0) == ["too-late", "for-ever"]
    world.cell = Cell("calm", "", (BUSY,))
    assert world._that_stay(keys, 5.0) == keys
