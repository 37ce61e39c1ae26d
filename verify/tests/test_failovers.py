"""What a failover excuses, and what it does not; what a server's journal tells; links that are cut."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from histories import evidence, fault, held, waited
from test_checks import found

from pinyon_verify.locks import links
from pinyon_verify.locks.attempts import Attempt
from pinyon_verify.locks.checks import belief, liveness, tokens
from pinyon_verify.locks.evidence import Evidence, Fault
from pinyon_verify.locks.group import is_in_step, wait
from pinyon_verify.locks.history import MILLISECOND as MS
from pinyon_verify.locks.journal import Change, Journal, Journals, Reader, Tokens, commands, places_of
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


def test_a_wait_for_a_lock_that_ends_by_a_clock_that_was_set_back() -> None:
    waiter = waited(held("a", "xy", 1, 9000, 9100, process=5), 20)
    history = evidence(waiter, faults=[failover(10, 15)])
    assert [finding.excuse for finding in liveness.soon(history)] == [None]
    history.kept_by_clock = frozenset("z")
    assert [finding.excuse for finding in liveness.soon(history)] == [None]
    history.kept_by_clock = frozenset("y")
    assert [finding.excuse for finding in liveness.soon(history)] == ["a clock was set back, by which a lock ends"]
    history.faults = [failover(9500, 9600)]
    assert [finding.excuse for finding in liveness.soon(history)] == [None], "it was kept only later"


def test_a_replica_may_have_received_more_than_the_primary_that_it_follows_then() -> None:
    journal, older, newer = Journal(), "c.1.0:1:1", "c.1.0:1:2"
    reader = Reader(journal, {})

    def read(attempt: str, token: int, *, is_snapshot: bool) -> None:
        words = ["SET", "{verify}:l:a", f"{attempt} {token} 400", "PXAT", "1000000"]
        data = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        reader.read(data.encode(), is_snapshot=is_snapshot)

    read(older, 7, is_snapshot=False)
    read(newer, 8, is_snapshot=False)
    read(older, 7, is_snapshot=True)
    history = Evidence(journals=[journal])
    assert [finding.excuse for finding in tokens.increase(history)] == [None], "nobody was promoted"
    history.faults = [failover(1000, 2000)]
    assert [finding.excuse for finding in tokens.increase(history)] == [
        "it began to follow a primary that had received less"
    ]
    read(newer, 8, is_snapshot=False)
    read(older, 7, is_snapshot=False)
    assert [finding.excuse for finding in tokens.increase(history)][1:] == [None], "it was granted"


def test_a_file_that_is_being_written_comes_before_the_changes_to_it() -> None:
    def order(*names: str) -> list[str]:
        places = places_of(list(names))
        return sorted(names, key=lambda name: places[name])

    base, changes = "appendonly.aof.{}.base.aof".format, "appendonly.aof.{}.incr.aof".format
    rewritten, resynchronised = "temp-rewriteaof-bg-7.aof", "temp-appendonly.aof.incr"
    assert order(changes(3), rewritten, base(2), changes(2)) == [base(2), changes(2), rewritten, changes(3)]
    assert order(resynchronised, changes(2), rewritten, base(2)) == [base(2), changes(2), rewritten, resynchronised]


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
    take_plainly(server, pure, "b")
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


def take_plainly(server: Server, attempt: str, *names: str) -> None:
    """What a client without scripts does to take names."""
    keys = [f"{{verify}}:l:{name}" for name in names]
    connection = server.connect()
    connection("MULTI")
    connection("INCR", "{verify}:#f")
    connection("MSETNX", *(word for key in keys for word in (key, attempt)))
    for key in keys:
        connection("PEXPIRE", key, 400_000)
    connection("EXEC")
    connection.close()


def held_in(journal: Journal) -> dict[str, tuple[str, int]]:
    """The last attempt of each name, and its token."""
    return {change.name: (change.attempt, change.token) for change in journal.changes}


@pytest.fixture
def pair(server: Server, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    replica = Server(tmp_path / "replica", "journal", ("--repl-diskless-sync-delay", "0"))
    replica.start()
    yield server, replica
    replica.stop()


def test_a_snapshot_has_the_tokens_of_plain_clients(pair: tuple[Server, Server], tmp_path: Path) -> None:
    """Its keys are in any order, and the counter has gone on."""
    server, replica = pair
    journals = Journals([server, replica], tmp_path / "journals")
    plain = {f"n{number}": (f"c.{number:x}.0:1:1", 51 + number) for number in range(20)}
    server.ask("SET", "{verify}:#f", 50)
    for name, (attempt, _) in plain.items():
        take_plainly(server, attempt, name)
    server.ask("SET", "{verify}:l:s", "c.99.0:1:1 71 400", "PX", 400_000)
    replica.ask("REPLICAOF", "127.0.0.1", server.port)
    wait(lambda: is_in_step(replica) and replica.ask("EXISTS", "{verify}:l:s") == 1)
    server.ask("BGREWRITEAOF")
    wait(lambda: not any(each.fact("persistence", "aof_rewrite_in_progress") for each in pair))
    wait(lambda: not replica.fact("persistence", "aof_rewrite_scheduled"))
    server.ask("PEXPIRE", "{verify}:l:n3", 500_000)
    wait(lambda: int(replica.ask("PTTL", "{verify}:l:n3")) > 400_000)  # type: ignore[call-overload]
    expected = {**plain, "s": ("c.99.0:1:1", 71)}
    of_both = journals.stop()
    assert [held_in(journal) for journal in of_both] == [expected, expected]
    history = Evidence(journals=of_both)
    assert not list(tokens.increase(history))
    assert {change.token for journal in of_both for change in journal.changes} == set(range(51, 72))
    assert [journal.kept[3, 54] for journal in of_both] == 2 * [max(of_both[0].kept.values())]


def of(*texts: str) -> bytes:
    """An append-only file with these commands."""
    told = [text.split(" ") for text in texts]
    return b"".join(
        f"*{len(words)}\r\n".encode() + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in words)
        for words in told
    )


def test_a_plain_client_draws_another_token_for_what_it_has() -> None:
    known: Tokens = {}
    journal = Journal()
    reader = Reader(journal, known)
    take = ("MULTI", "INCR {verify}:#f", "SET {verify}:l:a c.1.0:1:1 PXAT 400", "EXEC")
    in_vain = ("INCR {verify}:#f", "MULTI", "PEXPIREAT {verify}:l:a 500", "PUBLISH x y", "EXEC")
    again = ("MULTI", "INCR {verify}:#f", "PEXPIREAT {verify}:l:a 600", "EXEC")
    reader.read(of("SET {verify}:#f 7", *take, *in_vain, *again), is_snapshot=False)
    assert [(change.token, change.expiry) for change in journal.changes] == [(8, 400), (8, 500), (10, 600)]
    for expiry, tokens_found in ((500, [8]), (600, [10]), (700, [])):
        snapshot = Journal()
        data = of("SET {verify}:#f 12", "SET {verify}:l:a c.1.0:1:1", f"PEXPIREAT {{verify}}:l:a {expiry}")
        Reader(snapshot, known).read(data, is_snapshot=True)
        assert [change.token for change in snapshot.changes] == tokens_found


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
