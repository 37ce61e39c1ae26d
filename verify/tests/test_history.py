"""What processes and servers write is read back correctly."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinyon_verify.locks.attempts import gather
from pinyon_verify.locks.evidence import weigh
from pinyon_verify.locks.history import Recorder, read
from pinyon_verify.locks.names import process_of
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


def test_a_server_that_is_killed_and_started(server: Server) -> None:
    server.ask("SET", "x", "1")
    server.kill()
    server.start()
    assert server.ask("GET", "x") is None
