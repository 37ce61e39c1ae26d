"""What a failover excuses, and what it does not; what a server's journal tells; links that are cut."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from histories import evidence, fault, held
from test_checks import found

from pinyon_verify.locks import links
from pinyon_verify.locks.attempts import Attempt
from pinyon_verify.locks.checks import belief, tokens
from pinyon_verify.locks.evidence import Evidence, Fault
from pinyon_verify.locks.history import MILLISECOND as MS
from pinyon_verify.locks.journal import Change, Journal, Journals, commands
from pinyon_verify.locks.links import Links
from pinyon_verify.locks.resp import Connection
from pinyon_verify.locks.server import Server

OLD, NEW = 0, 1


def failover(at: int, until: int, deaf: frozenset[int] = frozenset(), told: int = 0) -> Fault:
    return Fault("failover", at * MS, until * MS, old=OLD, new=NEW, deaf=deaf, told=(told or until) * MS)


def known(*servers: list[tuple[Attempt, int]]) -> list[Journal]:
    """The journals of servers that kept these locks until then."""
    journals = []
    for of_one in servers:
        journal = Journal()
        for attempt, expiry in of_one:
            journal.add(Change(",".join(attempt.names), f"c.{attempt.process:x}.0:1:1", attempt.token or 0, expiry))
        journals.append(journal)
    return journals


def overlapping() -> tuple[Attempt, Attempt]:
    return held("a", "x", 1, 10, 30, believed=400, process=5), held("b", "x", 2, 20, 25, process=6)


def test_a_lock_that_the_new_primary_did_not_know_is_excused() -> None:
    first, second = overlapping()
    history = evidence(first, second, faults=[failover(15, 19)])
    history.journals = known([(first, 400)], [(second, 1000)])
    assert found(history) == {
        "exclusion": ["the new primary did not know one of them"],
        "belief": ["the new primary did not know one of them"],
    }


def test_a_lock_that_the_new_primary_knew_is_not_excused() -> None:
    first, second = overlapping()
    history = evidence(first, second, faults=[failover(15, 19)])
    history.journals = known([(first, 400)], [(first, 400), (second, 1000)])
    assert found(history) == {"exclusion": [None], "belief": [None]}


def test_a_renewal_that_the_new_primary_did_not_know_is_excused() -> None:
    first, second = overlapping()
    history = evidence(first, second, faults=[failover(15, 19)])
    history.journals = known([(first, 400)], [(first, 19), (second, 1000)])
    assert set(found(history)["belief"]) == {"the new primary did not know one of them"}


def test_two_of_the_old_primary_are_not_excused() -> None:
    first, second = overlapping()
    history = evidence(first, second, faults=[failover(15, 19)])
    history.journals = known([(first, 400), (second, 1000)], [])
    assert found(history)["belief"] == [None]


def test_a_later_failover_excuses_nothing_that_came_before_an_earlier_one() -> None:
    first, second = overlapping()
    history = evidence(first, second, faults=[failover(1, 2), failover(3, 4)])
    history.journals = known([(first, 400)], [(second, 1000)])
    assert history.unknown(first, history.faults[1])
    assert not history.unknown(first, history.faults[0])


def test_a_client_that_stays_with_the_old_primary() -> None:
    late = held("a", "x", 1, 9000, 9100, believed=9400, process=5)
    history = evidence(late, faults=[failover(100, 200)])
    history.journals = known([(late, 9400)], [])
    assert [finding.check for finding in belief.followed(history)] == ["followed"]
    history.faults = [failover(100, 200, frozenset({5}), 8900)]
    assert not list(belief.followed(history)), "it could not hear of the new one"


def test_a_belief_that_no_server_gave() -> None:
    lock = held("a", "x", 1, 10, 20, believed=400, process=5)
    history = evidence(lock, wall=0)
    history.journals = known([(lock, 399)], [])
    assert not list(belief.proved(history))
    history.journals = known([(lock, 300)], [])
    assert [finding.excuse for finding in belief.proved(history)] == [None]


def test_tokens_of_a_replaced_primary_are_excused_and_those_of_the_new_one_are_not() -> None:
    newer, older = held("a", "x", 7, 10, 20, process=5), held("b", "x", 6, 30, 40, process=6)
    history = evidence(newer, older, faults=[failover(5, 50)])
    history.journals = known([(older, 90)], [(newer, 90)])
    assert [finding.excuse for finding in tokens.increase(history)] == ["granted by a primary that had been replaced"]
    history.journals = known([(newer, 90)], [(older, 90)])
    assert [finding.excuse for finding in tokens.increase(history)] == [None]


def test_tokens_that_fall_on_one_server() -> None:
    newer, older = held("a", "x", 7, 10, 20, process=5), held("b", "x", 6, 30, 40, process=6)
    history = Evidence(journals=known([(newer, 90), (older, 90)]))
    assert [finding.excuse for finding in tokens.increase(history)] == [None]
    history.faults = [fault("failover", 0, 100)]
    assert [finding.excuse for finding in tokens.increase(history)] == [None]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "server", "journal")
    server.start()
    yield server
    server.stop()


def test_a_journal_outlives_rewrites_and_starts_without_data(server: Server, tmp_path: Path) -> None:
    journals = Journals([server], tmp_path / "journals")
    first, second, pure = "c.1f.0:1:1", "c.1f.0:1:2", "c.20.0:1:1"
    server.ask("SET", "{verify}:l:a", f"{first} 43 400", "PX", 400_000)
    server.ask("PEXPIRE", "{verify}:l:a", 500_000)
    server.ask("BGREWRITEAOF")
    server.ask("SET", "{verify}:#f", 50)
    server.ask("INCR", "{verify}:#f")
    server.ask("SET", "{verify}:l:b", pure, "PX", 400_000)
    server.kill()
    server.start(afresh=True)
    assert not server.ask("EXISTS", "{verify}:l:a")
    server.ask("SET", "{t}{verify}:l:{t}a", f"{second} 60 400", "PX", 400_000)
    server.ask("DEL", "{t}{verify}:l:{t}a")
    (journal,) = journals.stop()
    assert {(0x1F, 43), (0x20, 51), (0x1F, 60)} == set(journal.kept)
    assert [change.name for change in journal.changes][-2:] == ["{t}a", "{t}a"]
    assert journal.changes[-1].attempt == ""
    expiries = [change.expiry for change in journal.changes if change.token == 43]
    assert max(expiries) >= min(expiries) + 90_000


def test_a_journal_that_was_cut_off() -> None:
    whole = b"*1\r\n$4\r\nPING\r\n"
    assert list(commands(whole + whole[:-3])) == [[b"PING"]]


@pytest.fixture
def linked(server: Server) -> Iterator[Links]:
    linked = Links([server.port])
    linked.start()
    yield linked
    linked.stop()


def test_a_link_is_cut_for_some_processes_only(server: Server, linked: Links) -> None:
    me, port = [str(os.getpid())], linked.public[server.port]
    before = Connection(port, 60.0)
    assert before("PING") == "PONG"
    linked.cut(["1"], [server.port], links.CLOSED)
    assert before("PING") == "PONG"
    linked.cut(me, [server.port], links.CLOSED)
    with pytest.raises(OSError):
        before("PING")
    linked.heal()
    assert Connection(port, 60.0)("PING") == "PONG"


def test_what_a_silent_link_was_given_arrives_later(server: Server, linked: Links) -> None:
    connection = Connection(linked.public[server.port], 60.0)
    connection("PING")
    linked.cut([str(os.getpid())], [server.port], links.SILENT)
    connection.send("SET", "x", "1")
    assert not server.ask("EXISTS", "x")
    linked.heal()
    assert connection.read() == "OK"


def test_a_deaf_link_carries_requests(server: Server, linked: Links) -> None:
    connection = Connection(linked.public[server.port], 60.0)
    connection("PING")
    linked.cut([str(os.getpid())], [server.port], links.DEAF)
    connection.send("SET", "x", "1")
    arrived = threading.Event()
    reading = threading.Thread(target=lambda: (connection.read(), arrived.set()))
    reading.start()
    while not server.ask("EXISTS", "x"):
        pass
    assert not arrived.is_set()
    linked.heal()
    reading.join(60.0)
    assert arrived.is_set()


def test_what_a_link_carries_is_changed(server: Server, linked: Links) -> None:
    server.ask("SET", "x", "name:abcd")
    linked.say([str(os.getpid())], server.port, r"name:\w", "name:z")
    assert Connection(linked.public[server.port], 60.0)("GET", "x") == b"name:zbcd"
