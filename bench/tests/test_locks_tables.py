from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pinyon_bench.catalogue import targets
from pinyon_bench.locks.rows import lock_rows
from pinyon_bench.recorded import condensed
from pinyon_bench.results import ContestantInfo, Document, Handovers, Latency, Sample, ServerWork, Target, read, write
from pinyon_bench.tables import tables

RATES = {
    "locks:ping": {"Pinyon script": 45_000, "redis-py": 20_000, "floor": 50_000},
    "locks:pair:1": {
        "Pinyon script": 22_000,
        "Pinyon pure": 14_000,
        "redis-py": 8_000,
        "Pinyon script asyncio": 10_000,
        "redis-py asyncio": 4_000,
        "floor": 25_000,
    },
    "locks:pair:10": {"Pinyon script": 11_000, "Pinyon pure": 9_000, "redis-py": 800, "floor": 15_000},
    "locks:pipelined:1": {"floor": 23_400},
    "locks:pipelined:10": {"floor": 20_000},
    "locks:mutex:1/1": {"Pinyon script asyncio": 8_000, "redis-py asyncio": 1_000, "Pinyon script": 9_000},
    "locks:mutex:10/19": {"Pinyon script asyncio": 3_500, "redis-py asyncio": 100, "Pinyon script": 5_000},
    "locks:section:1/1": {"Pinyon script asyncio": 1_545, "redis-py asyncio": 100},
    "locks:section:10/19": {"Pinyon script asyncio": 650, "redis-py asyncio": 10},
    "locks:handover:8": {"Pinyon script": 20_000, "redis-py": 2_000},
    "locks:far:ping": {"floor": 500},
    "locks:far:handover:8": {"Pinyon script": 400},
}
CYCLES = 1000
PING_SECONDS, FAR_PING_SECONDS = 20e-6, 2e-3


def latency_of(row: str, contestant: str) -> Latency | None:
    if row == "locks:ping":
        seconds = PING_SECONDS if contestant == "floor" else 2 * PING_SECONDS
        return Latency(seconds, seconds, 2 * seconds, 9 * seconds)
    if row == "locks:handover:8":
        seconds = 28e-6 if contestant.startswith("Pinyon") else 5e-3
        return Latency(seconds, seconds, 4 * seconds, 9 * seconds)
    if row == "locks:far:ping":
        return Latency(FAR_PING_SECONDS, FAR_PING_SECONDS, FAR_PING_SECONDS, FAR_PING_SECONDS)
    if row == "locks:far:handover:8":
        return Latency(2.2e-3, 2.2e-3, 5e-3, 9e-3)
    return Latency(1e-3, 1e-3, 5e-3, 9e-3) if row == "locks:mutex:1/1" else None


def sample(number: int, row: str, contestant: str, rate: float) -> Sample:
    wall = CYCLES / rate
    return Sample(number, row, contestant, CYCLES, wall, wall / 4, wall / 8, latency_of(row, contestant))


def work(number: int, row: str, contestant: str) -> ServerWork:
    if contestant.startswith("Pinyon script") or contestant == "floor":
        sent, calls = {"fcall": 2.0 * CYCLES}, {"fcall": 2 * CYCLES, "mget": 2 * CYCLES, "publish": CYCLES // 2}
    elif contestant.startswith("Pinyon"):
        sent, calls = {"set": 1.0 * CYCLES, "exec": 5.0 * CYCLES}, {"set": CYCLES, "exec": 5 * CYCLES}
    else:
        sent, calls = {"set": 1.5 * CYCLES, "evalsha": 1.0 * CYCLES}, {"set": 3 * CYCLES // 2, "evalsha": CYCLES}
    reads = 3 * CYCLES if contestant.startswith("Pinyon pure") else 2 * CYCLES
    return ServerWork(number, row, contestant, CYCLES, calls, sent, 9.0 * CYCLES, reads)


@pytest.fixture
def locks_document(document: Document) -> Document:
    """Known rates in two rounds. The floor's pipelined pairs are half of those at the seed's scale."""
    names = list(dict.fromkeys(name for contestants in RATES.values() for name in contestants))
    cells = [(number, row, name) for row, rates in RATES.items() for name in rates for number in (1, 2)]
    document.rows = [row.info() for row in lock_rows(short=False) if row.name in RATES]
    document.contestants = [ContestantInfo(name, "1.0") for name in names]
    document.samples = [sample(*cell, RATES[cell[1]][cell[2]]) for cell in cells]
    document.server_work = [work(*cell) for cell in cells if not cell[1].endswith("ping")]
    document.handovers = [Handovers(*cell, 400, 300) for cell in cells if cell[1] == "locks:handover:8"]
    document.gaps = []
    return document


def found(document: Document) -> dict[str, Target]:
    return {target.text: target for target in targets(document)}


def test_targets_are_computed_from_the_document(locks_document: Document) -> None:
    known = found(locks_document)
    expected = {
        "locks:pair:1: at least 0.8 of the floor's rate": ("0.880", True),
        "locks:pair:1: CPU per operation at most redis-py's": ("0.364", True),
        # 8,000 and 3,500 per second, where the floor has 23,400.
        "locks:mutex:1/1 asyncio: at least 0.32 of the floor's pipelined pairs": ("0.342", True),
        "locks:mutex:10/19 asyncio: at least 0.171 of the floor's pipelined pairs": ("0.150", False),
        "locks:mutex asyncio: 10/19 takes at most 2 times as long as 1/1": ("2.286", False),
        "locks:section:1/1 asyncio: at least 0.066 of the floor's pipelined pairs": ("0.066", True),
        "locks:section:10/19 asyncio: at least 0.042 of the floor's pipelined pairs": ("0.028", False),
        "locks:pair:1 pure: 1 round trip to lock, 2 to unlock": ("3.00", True),
        "locks:handover:8: at most 1 wake-up per grant": ("0.500", True),
        "locks:handover:8: p50 at most 1.5 round trips of the floor": ("1.400", True),
        "locks:handover:8: p99 at most 5 round trips of the floor": ("5.600", False),
        "locks:far:handover:8: p50 at most 1.5 round trips of the floor": ("1.100", True),
        "locks:far:handover:8: p99 at most 5 round trips of the floor": ("2.500", True),
        "locks:pair:1: at most 2 times the floor's time of the server": ("1.000", True),
    }
    assert {text: (known[text].measured, known[text].met) for text in expected} == expected
    commands = [target for text, target in known.items() if "exactly 2 commands" in text]
    assert [(target.measured, target.met) for target in commands] == [("2.000", True)]
    assert len(known) == len(expected) + 2
    # The longest text leaves room for the other columns of a terminal of 100.
    assert max(map(len, known)) <= 74


def test_one_command_too_many_misses_the_target(locks_document: Document) -> None:
    worse = locks_document.server_work
    name, row = "Pinyon script asyncio", "locks:mutex:10/19"
    locks_document.server_work = [
        replace(each, sent={"fcall": 2.01 * CYCLES}) if (each.contestant, each.row) == (name, row) else each
        for each in worse
    ]
    target = next(target for target in targets(locks_document) if "exactly 2 commands" in target.text)
    assert target.text.endswith("worst: mutex:10/19 asyncio") and (target.measured, target.met) == ("2.010", False)


def test_targets_without_figures_are_left_out(locks_document: Document) -> None:
    locks_document.samples, locks_document.server_work = [], []
    assert not found(locks_document)


def lines_of(document: Document, title: str) -> dict[str, list[str]]:
    table = next(table for table in tables(document) if table.title == title)
    return {line[0]: line[1:] for line in [table.header, *table.rows]}


def test_rates_stand_beside_ours_of_the_same_model(locks_document: Document) -> None:
    lines = lines_of(locks_document, "Locks: one worker, no contention, cycles per second")
    assert lines["names locked"] == ["1", "10"]
    assert lines["Pinyon script"] == ["22,000", "11,000"]
    assert lines["redis-py"] == ["8,000 (2.75)", "800 (14)"]
    assert lines["redis-py asyncio"] == ["4,000 (2.50)", "–"]
    assert lines["floor"] == ["25,000 (0.88)", "15,000 (0.73)"]


def test_waiting_and_hand_over(locks_document: Document) -> None:
    lines = lines_of(locks_document, "Locks: hand-over between processes")
    assert lines["Pinyon script"] == ["28 / 112", "1.4 / 5.6", "1.1 / 2.5", "0.75"]


def test_commands_and_the_server(locks_document: Document) -> None:
    commands = lines_of(locks_document, "Locks, per cycle: commands that clients send")
    assert commands["row"][:3] == ["Pinyon script", "redis-py", "floor"]
    assert commands["handover:8"][0] == "2.00" and commands["pair:1"][1] == "2.50"
    assert lines_of(locks_document, "Locks, per cycle: Redis's time, µs")["Pinyon pure"] == ["9.0", "9.0"]
    reads = lines_of(locks_document, "Locks, per cycle: Redis's reads from sockets, which are round trips")
    assert reads["Pinyon pure"] == ["3.00", "3.00"]


def test_the_record_has_the_same_medians_and_verdicts(locks_document: Document, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write(condensed(locks_document), path)
    kept = read(path)
    assert len(kept.samples) == len(locks_document.samples) / 2
    shown, again = (
        {table.title: table for table in tables(each) if table.title not in ("Targets", "Not measured")}
        for each in (locks_document, kept)
    )
    assert again == shown
    assert targets(kept) == targets(locks_document)
