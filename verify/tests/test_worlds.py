"""Real processes under faults: the quick cells, and a world that is wrong on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pinyon_verify.cli import main
from pinyon_verify.locks.cell import Cell
from pinyon_verify.locks.cells import BUSY, CELLS
from pinyon_verify.locks.observer import lock_key
from pinyon_verify.locks.run import run

if TYPE_CHECKING:
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
