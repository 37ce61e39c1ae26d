"""What workers of all languages want, and the tickets that they leave for each other."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pinyon_verify import programs
from pinyon_verify.locks.attempts import Attempt
from pinyon_verify.locks.cell import Cell
from pinyon_verify.locks.evidence import Evidence
from pinyon_verify.locks.settings import BUSY, MANIFOLD
from pinyon_verify.locks.tickets import Ticket, Tickets
from pinyon_verify.locks.wanted import Wanted, draw
from pinyon_verify.locks.world import World

NAMES = ["n0", "n1", "n2", "n3", "n4"]


def test_plain_locks_have_no_other_arguments() -> None:
    drawn = [draw(BUSY, random.Random(seed), NAMES, "m") for seed in range(50)]
    assert all(wanted.written == wanted.names and not wanted.arguments(3) for wanted in drawn)
    assert {tuple(wanted.facts()) for wanted in drawn} == {("names",)}


def test_all_kinds_are_drawn() -> None:
    settings = BUSY.but(**MANIFOLD, marked=True)
    drawn = [draw(settings, random.Random(seed), NAMES, "m") for seed in range(200)]
    assert all("m" in wanted.written for wanted in drawn)
    assert any(set(wanted.read) == set(wanted.names) - {"m"} for wanted in drawn)
    assert any(wanted.read and len(wanted.written) > 1 for wanted in drawn)
    assert any(wanted.permits and wanted.names == ["m"] for wanted in drawn)
    assert any(wanted.permits and len(wanted.names) > 1 for wanted in drawn)
    assert any(wanted.at_least for wanted in drawn)
    assert not any(wanted.at_least and not wanted.may_be_handed_over for wanted in drawn)


def test_arguments_and_facts() -> None:
    wanted = Wanted(["a", "b"], ["b"], {"p": 2}, 0.0)
    assert wanted.arguments(3) == {"read": ("b",), "permits": {"p": (2, 3)}}
    assert wanted.facts() == {"names": ["a", "b"], "read": ["b"], "permits": {"p": 2}}


def test_a_ticket_is_left_and_found(tmp_path: Path) -> None:
    ticket = Ticket("text", ["a", "b"], "1.2.3")
    for seed in range(20):
        tickets = Tickets(tmp_path, random.Random(seed))
        assert tickets.find() is None
        tickets.leave(ticket)
        assert tickets.find() == ticket
        tickets.remove(ticket)
    assert not list(tmp_path.iterdir())


def test_some_tickets_are_used_by_several(tmp_path: Path) -> None:
    tickets = Tickets(tmp_path, random.Random(1))
    left = []
    for _ in range(50):
        tickets.leave(Ticket("text", ["a"], "1.2.3"))
        tickets.find()
        left.append(bool(list(tmp_path.iterdir())))
    assert True in left and False in left


def test_workers_of_all_languages_do_all_of_it(tmp_path: Path) -> None:
    models = ("blocking", "gevent", "asyncio", "ruby-threads", "ruby-async", "perl-threads", "perl-coro")
    try:
        for model in models:
            programs.of_locks(model)
    except programs.Missing as missing:
        pytest.skip(str(missing))
    settings = BUSY.but(
        **{**MANIFOLD, "hand_overs": 0.4, "at_least": 0.4, "changes": 0.4, "cancels": 0.0, "tries": 0.0}
    )
    missing: dict[str, set[str]] = {}
    for seed in range(1, 6):
        world = World(Cell("all", "", settings.each(*models), traced=False), seed, 3.0, tmp_path / str(seed))
        evidence = world.run()
        assert not evidence.violations
        for client in world.clients:
            missing.setdefault(client.settings.model, set(KINDS)).difference_update(done(evidence, client.pid))
        if not any(missing.values()):
            break
    assert missing == dict.fromkeys(models, set())


#: What an attempt that was granted shows that it did.
KINDS: dict[str, Callable[[Attempt], object]] = {
    "read": lambda attempt: attempt.looks,
    "permits": lambda attempt: attempt.permits,
    "at least": lambda attempt: attempt.at_least,
    "handed over": lambda attempt: attempt.handed,
    "adopted": lambda attempt: attempt.source,
    "a plain lock": lambda attempt: attempt.writes,
    "upgraded": lambda attempt: None,
    "downgraded": lambda attempt: None,
    "a rate": lambda attempt: None,
}


def done(evidence: Evidence, process: int) -> set[str]:
    own = [attempt for attempt in evidence.attempts if attempt.process == process and attempt.granted]
    kinds = {kind for kind, shows in KINDS.items() if any(shows(attempt) for attempt in own)}
    by_id = {attempt.id: attempt for attempt in own}
    changed = [(by_id[attempt.former], attempt) for attempt in own if attempt.former]
    kinds |= {"upgraded" if former.read - attempt.read else "downgraded" for former, attempt in changed}
    return kinds | {"a rate" for rated in evidence.rated if rated.process == process}
