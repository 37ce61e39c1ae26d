"""The command ``pinyon stats``, as users type it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from certificates import Authority, SecureMemcached
from command_line import Terminal
from pinyon_verify.ports import free_port
from servers import PASSWORD, GuardedMemcached, Memcached

import pinyon
from pinyon.cli.sampling import FIGURES, GROWING, Sample
from pinyon.cli.stats import amount, size, table


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pinyon", "stats", "--timeout", "30", *arguments]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=150, check=False
    )


@pytest.fixture
def nobody() -> str:
    return f"127.0.0.1:{free_port()}"


def test_each_server_and_all_together_once(four: list[Memcached]) -> None:
    addresses = [server.address for server in four]
    with pinyon.Client(addresses, timeout=20, connect_timeout=20) as cache:
        cache.set_many({str(number): number for number in range(100)})
    done = run(*addresses)
    heading, *rows, total = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert heading.split()[:2] == ["SERVER", "VERSION"]
    assert [row.split()[0] for row in rows] == addresses
    assert all(row.split()[1].startswith("1.") for row in rows)
    assert total.split()[0] == "total"
    assert {len(row) for row in rows} == {len(heading)}


def test_a_server_may_take_its_time_to_connect_to(own_server: Memcached) -> None:
    own_server.hesitate()
    done = run(own_server.address)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[1].split()[1].startswith("1.")


def test_a_dead_server_is_a_row_with_its_error(server: Memcached, nobody: str) -> None:
    done = run("--once", f"{nobody},{server.address}")
    dead, alive = done.stdout.splitlines()[1:3]
    assert (done.returncode, done.stderr) == (1, "")
    assert dead.startswith(nobody)
    assert "down: cannot connect: Connection refused" in dead
    assert alive.startswith(server.address)


def test_json_has_all_there_is(own_server: Memcached, nobody: str) -> None:
    with pinyon.Client(own_server.address, timeout=20, connect_timeout=20) as cache:
        cache.set("key", "value")
        cache.get("key")
    alive, dead, total = json.loads(run("--json", own_server.address, nobody).stdout)
    assert (alive["server"], alive["up"]) == (own_server.address, True)
    assert {*FIGURES, *(f"{name}_per_second" for name in GROWING)} <= set(alive)
    assert alive["hits"] == total["hits"] >= 1
    assert alive["items"] == 1
    assert (dead["server"], dead["up"]) == (nobody, False)
    assert "Connection refused" in dead["error"]


def test_the_servers_of_the_environment_are_meant(server: Memcached) -> None:
    assert server.address in run(MEMCACHE_SERVERS=server.address).stdout


def test_what_makes_no_sense_is_said(server: Memcached) -> None:
    malformed = run("host:port:weight:more")
    assert malformed.returncode == 2
    assert malformed.stderr.startswith("pinyon: ")
    assert run("--interval", "0", server.address).returncode == 2
    without_password = run("--username", "app", server.address)
    assert without_password.returncode == 2
    assert "MEMCACHE_PASSWORD" in without_password.stderr


def test_a_terminal_keeps_up_until_ctrl_c(own_server: Memcached, nobody: str) -> None:
    terminal = Terminal(own_server.address, nobody, "--interval", "0.05", room="stats", url="")
    terminal.wait_for("1 up, 1 down")
    with pinyon.Client(own_server.address, timeout=20, connect_timeout=20) as cache:
        cache.set_many({str(number): number for number in range(1234)})
    terminal.wait_for("1.2k")
    terminal.type("\x03")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.shown


def test_tls_and_logins(certificates: Path, tmp_path: Path) -> None:
    authority = Authority(certificates, "stats")
    with SecureMemcached(authority.issue("127.0.0.1")) as server:
        assert run("--ca", str(authority.file), server.address).returncode == 0
        assert "down: " in run(server.address).stdout
    with GuardedMemcached(certificates / "users-stats") as server:
        assert run("--username", "app", server.address, MEMCACHE_PASSWORD=PASSWORD).returncode == 0
        refused = run("--username", "app", server.address, MEMCACHE_PASSWORD="wrong-word")
        assert refused.returncode == 1
        assert "wrong-word" not in refused.stdout + refused.stderr


def sample(server: str, number: int = 123_456_789) -> Sample:
    figures = dict.fromkeys(FIGURES, number)
    return Sample(server, 0.0, "1.6.18", number, figures, {name: float(number) for name in GROWING})


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 200])
def test_a_narrow_terminal_has_fewer_columns(columns: int) -> None:
    samples = [sample("cache1.internal:11211"), Sample("cache2:11211", 0.0, error="cannot connect: " + "x" * 300)]
    lines = [line.text for line in table(samples, columns)]
    assert max(map(len, lines)) <= columns
    assert lines[0].startswith("SERVER")
    assert lines[2].startswith("cache2:11211")
    widest = [line.text for line in table(samples)]
    assert "OUT/S" in widest[0]
    assert widest[2].endswith("xxx")


def test_figures_are_short() -> None:
    assert [amount(each) for each in (0, 0.4, 7, 999, 1000, 12_345, 999_999, 3_400_000)] == [
        *("0", "0.4", "7", "999", "1.0k", "12k", "1.0M", "3.4M")
    ]
    assert [size(each) for each in (0, 1023, 1024, 64 * 1024 * 1024)] == ["0B", "1023B", "1.0K", "64M"]
