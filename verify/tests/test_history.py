"""What processes and servers write is read back correctly."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from pinyon_verify.locks.attempts import gather
from pinyon_verify.locks.evidence import weigh
from pinyon_verify.locks.history import Recorder, read
from pinyon_verify.locks.names import lock_key, process_of
from pinyon_verify.locks.observer import scan
from pinyon_verify.locks.resp import ServerSaid
from pinyon_verify.locks.server import Server
from pinyon_verify.locks.trace import Tracer, steps


def test_lines_of_one_attempt(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    record("invoke", "1", names=["x", "y"])
    record("granted", "1", token=5, until=900)
    record("believes", "1", until=1000)
    record("begin", "1")
    record("write", "1", name="x", token=5, sent=1, accepted=True, order=3)
    record("end", "1")
    record("release", "1")
    record("released", "1", kept=True)
    (attempt,) = gather(read(tmp_path), {})
    assert attempt.names == {"x", "y"} and attempt.token == 5 and attempt.believed == 1000 and attempt.kept
    assert attempt.invoked <= attempt.begun <= attempt.section_end <= attempt.over < 1 << 62
    assert attempt.writes[0].order == 3


def test_lines_of_an_attempt_that_shares_and_of_one_that_is_handed_over(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    record("invoke", "1", names=["x", "y"], read=["y"], permits={"p": 2}, at_least=0.05)
    record("granted", "1", token=5, until=900)
    record("read", "1", name="y", token=5, sent=1, newest=4, order=2)
    record("invoke", "2", names=["x"], source="1")
    record("granted", "2", token=6, until=900)
    record("handed", "2", sent=7, until=1 << 60)
    record("rated", "", sent=3, count=2, allowed=True, limit=10, per=1.0, burst=3)
    record("rated", "", sent=4, count=2, allowed=False, limit=10, per=1.0, burst=3)
    record("fault", kind="kill", process=record.process, until=1 << 61)
    evidence = weigh(read(tmp_path))
    first, second = evidence.attempts
    assert (first.read, first.permits, first.at_least) == ({"y"}, {"p": 2}, 50_000_000)
    assert first.is_written and first.looks[0].newest == 4 and first.conflicts(second)
    assert (second.source, second.handed, second.over) == ("1", 7, 1 << 60)
    assert second.killed is None and first.killed == 1 << 61
    assert [(rated.sent, rated.count) for rated in evidence.rated] == [(3, 2)]


def test_a_process_that_was_killed(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    record("invoke", "1", names=["x"])
    record("granted", "1", token=5, until=1 << 61)
    record("begin", "1")
    record("fault", kind="kill", process=record.process, until=1 << 60)
    with next(tmp_path.glob("*.lines")).open("a") as file:
        file.write('[1,2,"inv')
    evidence = weigh(read(tmp_path))
    assert evidence.attempts[0].section_end == evidence.attempts[0].over == 1 << 60


def test_a_stall_on_purpose_is_none(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    record("stall", at=10, until=20)
    record("stall", at=15, until=25)
    assert weigh(read(tmp_path)).stalls == [(10, 25)]
    record("fault", at=5, kind="stop", process=record.process, until=30)
    assert weigh(read(tmp_path)).stalls == []


@pytest.fixture
def server(tmp_path: Path):
    server = Server(tmp_path / "server")
    server.start()
    yield server
    server.stop()


def test_what_a_server_does_is_traced(server: Server, tmp_path: Path) -> None:
    tracer = Tracer(server, tmp_path / "trace")
    prefix = "{verify}:"
    queue = 'redis.call("ZADD", KEYS[1], "0", "a\\0001" .. ARGV[1] .. "\\0" .. ARGV[2])'
    server.ask("EVAL", queue, 1, f"{prefix}#q", "0000000000000042", "c.1f.0:1:1")
    server.ask("EVAL", 'redis.call("PSETEX", KEYS[1], 400, ARGV[1])', 1, f"{prefix}l:a", "c.1f.0:1:1 43 400")
    server.ask("EVAL", 'redis.call("PSETEX", KEYS[1], 400, ARGV[1])', 1, f"{prefix}l:a", "c.1f.0:1:1 43 @1792")
    with pytest.raises(ServerSaid):
        server.ask("FCALL", "pinyon_unlock_8", 1, f"{prefix}l:a", "c.1f.0:1:1")
    unlock = server.ask("SCRIPT", "LOAD", 'return redis.call("DEL", KEYS[1])')
    assert isinstance(unlock, bytes)
    server.ask("EVALSHA", unlock, 1, f"{prefix}l:a", "c.1f.0:1:1")
    server.ask("EVALSHA", unlock, 1, f"{prefix}l:a", "c.1f.0:1:1", "x")
    server.ask("EVALSHA", unlock, 1, f"{prefix}l:a", "c.1f.0:1:1", "1")
    server.ask("FLUSHALL")
    tracer.stop()
    seen = [(step.kind, step.attempt, step.number, step.name) for step in steps(tmp_path / "trace")]
    attempt = "c.1f.0:1:1"
    assert seen == [
        ("reset", "", 0, ""),
        ("queued", attempt, 42, "a"),
        ("granted", attempt, 43, "a"),
        ("unlocked", attempt, 0, ""),
        ("unlocked", attempt, 0, ""),
        ("reset", "", 0, ""),
    ]
    assert process_of(attempt) == 0x1F


def test_what_is_shared_on_a_server_is_traced(server: Server, tmp_path: Path) -> None:
    tracer = Tracer(server, tmp_path / "trace")
    prefix, attempt = "{verify}:", "c.1f.0:1:1"
    add = 'redis.call("ZADD", KEYS[1], unpack(ARGV))'
    server.ask("EVAL", add, 1, f"{prefix}l:a", "500", attempt)
    server.ask("EVAL", add, 1, f"{prefix}p:s", "500", f"{attempt} 1", "500", f"{attempt} 2", "4503599627370499", "#")
    server.ask("EVAL", add, 1, f"{prefix}#q", "0", f"\0s\x001{42:016}\0{attempt}")
    record = f"{77:016}{42:016}1m400\0r a\0w b\x002/3 s"
    server.ask("EVAL", 'redis.call("HSET", KEYS[1], unpack(ARGV))', 1, f"{prefix}#w", attempt, record)
    rem = server.ask("SCRIPT", "LOAD", 'return redis.call("ZREM", KEYS[1], ARGV[1] .. " 1")')
    assert isinstance(rem, bytes)
    server.ask("EVALSHA", rem, 1, f"{prefix}p:s", attempt, "", "2/3")
    server.ask("EVALSHA", rem, 1, f"{prefix}p:s", attempt, "400", "c.2.0:1:1")
    server.ask("EVALSHA", rem, 1, f"{prefix}p:s", attempt, "400", "900", "w", "2/3")
    server.ask("ZADD", f"{prefix}p:s", "600", f"{attempt} 1")
    server.ask("DEL", f"{prefix}p:s")
    tracer.stop()
    left = ("left", attempt, 0, "\0s", 1)
    assert [(step.kind, step.attempt, step.number, step.name, step.part) for step in steps(tmp_path / "trace")] == [
        ("reset", "", 0, "", 0),
        ("joined", attempt, 500, "a", 0),
        ("joined", attempt, 500, "\0s", 1),
        ("joined", attempt, 500, "\0s", 2),
        ("queued", attempt, 42, "\0s", 0),
        ("known", attempt, 77, "", 0),
        ("reads", attempt, 0, "a", 0),
        ("unlocked", attempt, 0, "", 0),
        left,
        ("adopts", attempt, 0, "", 0),
        left,
        left,
        ("joined", attempt, 600, "\0s", 1),
        ("left", "", 0, "\0s", 0),
    ]


def test_a_look_sees_the_parts_of_what_is_shared(server: Server) -> None:
    attempt = "c.1f.0:1:1"
    server.ask("SET", lock_key("a"), f"{attempt} 7 @1", "PX", 60_000)
    server.ask("ZADD", lock_key("b"), 4_000_000_000_000, attempt, 5, "c.2.0:1:1")
    server.ask("ZADD", lock_key("\0s"), 4_000_000_000_000, f"{attempt} 1", 4_503_599_627_370_499, "#")
    with closing(server.connect()) as connection:
        seen = scan(connection, ["a", "b", "c", "\0s"], shared=True)
        assert [(each.name, each.attempt, each.token, each.is_part) for each in seen] == [
            ("a", attempt, 7, False),
            ("b", attempt, None, True),
            ("\0s", attempt, None, True),
        ]
        assert [each.name for each in scan(connection, ["a", "b", "\0s"])] == ["a"]


def test_a_server_that_is_killed_and_started(server: Server) -> None:
    server.ask("SET", "x", "1")
    server.kill()
    server.start()
    assert server.ask("GET", "x") is None
