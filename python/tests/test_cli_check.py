"""The command ``pinyon check``, as it is typed, and Django's system check that tells the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Terminal
from faulty import OlderServer
from pinyon_verify.ports import free_port
from servers import PASSWORD, GuardedMemcached, Memcached, Redis
from waiting import GIVES_UP, PATIENT, SOON

import pinyon


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pinyon", "check", "--timeout", "30", *arguments]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=150, check=False
    )


@pytest.fixture
def nobody() -> str:
    return f"127.0.0.1:{free_port()}"


def test_servers_that_are_well(server: Memcached, own_server: Memcached, redis: Redis) -> None:
    done = run(server.address, own_server.address, redis.url)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    for each in (server, own_server):
        assert any(line.startswith(f"ok       {each.address}: memcached 1.") for line in lines), lines
        largest = "stores values of up to 1048263 bytes under any key (-I is 1048576, with key and header)"
        assert f"ok       {each.address}: {largest}" in lines
    assert any("ring 'ketama': of 1000 keys" in line for line in lines)
    assert any("answers and locks" in line for line in lines)


def test_a_server_may_take_its_time_to_connect_to(own_server: Memcached) -> None:
    own_server.hesitate()
    done = run(own_server.address)
    assert f"ok       {own_server.address}: memcached 1." in done.stdout, done.stderr


def test_what_is_stored_outlives_a_slow_check(server: Memcached) -> None:
    done = run(server.address)
    assert done.returncode == 0, done.stdout
    with pinyon.Client(server.address, timeout=SOON, connect_timeout=SOON) as cache:
        stored = cache.get_with_ttl("pinyon:check")
    assert stored is not None
    assert (stored[1] or 0) > 2  # in seconds; the server's clock may end a ttl of 1 at once


def test_two_may_check_locks_at_once(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks, locks.lock("pinyon:check"):
        done = run(redis.url)
    assert done.returncode == 0, done.stdout


def test_one_that_cannot_be_reached_is_an_error(server: Memcached, nobody: str) -> None:
    done = run(f"{server.address},{nobody}")
    assert (done.returncode, done.stderr) == (1, "")
    assert f"error    {nobody}: cannot connect: Connection refused" in done.stdout
    done = run("--timeout", str(GIVES_UP), f"redis://{nobody}")
    assert done.returncode == 1
    assert f"error    {nobody}: cannot connect: Connection refused" in done.stdout


def test_a_terminal_colours_the_levels(server: Memcached, nobody: str) -> None:
    terminal = Terminal(server.address, nobody, "--timeout", "30", room="check", url="")
    assert terminal.end() == 1
    assert re.search(r"\x1b\[32mok +\x1b\[0m", terminal.shown), terminal.shown
    assert re.search(rf"\x1b\[31merror +\x1b\[0m  {nobody}: cannot connect", terminal.shown), terminal.shown


def test_a_login_that_is_missing_is_an_error(guarded_memcached: GuardedMemcached) -> None:
    done = run(guarded_memcached.address)
    assert done.returncode == 1
    assert f"error    {guarded_memcached.address}: " in done.stdout


def test_small_items_and_evictions_are_warned_of() -> None:
    with Memcached("-I", "512k", "-m", "2") as small:
        for number in range(40):
            value = b"x" * 400_000
            small.ask(b"set key%d 0 0 %d\r\n%s\r\n" % (number, len(value), value), b"\r\n")
        done = run(small.address)
    assert done.returncode == 0
    largest = "stores values of at most 523975 bytes under any key, and max_value_size is 1048576"
    assert f"{largest}: raise the server's -I (524288)" in done.stdout
    assert "items that had not expired since it started" in done.stdout


def test_a_server_without_tokens_is_warned_of() -> None:
    with Memcached("-C") as server:
        done = run(server.address)
    assert done.returncode == 0
    assert f"warning  {server.address}: has no CAS tokens, because it was started with -C: gets and cas" in done.stdout


@pytest.mark.parametrize("version", ["UNKNOWN", "v1.12.0", "2", "1.6.99999"])
def test_a_version_that_cannot_be_read_is_warned_of(server: Memcached, version: str) -> None:
    with OlderServer(server, version) as front:
        done = run(front.address)
    assert f"ok       {front.address}: memcached {version}, classic text, answers and stores" in done.stdout
    remedy = f'the version "{version}" could not be read; if it takes meta commands, set protocol="meta"'
    assert f"need memcached 1.6.10 or newer: {remedy}" in done.stdout


def test_a_redis_that_evicts_locks_is_an_error(redis_with: object) -> None:
    server: Redis = redis_with("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")  # type: ignore[operator]
    done = run(server.url)
    assert done.returncode == 1
    assert "maxmemory-policy allkeys-lru may evict locks that are held: set it to noeviction" in done.stdout


def test_json(server: Memcached) -> None:
    done = run("--json", server.address)
    findings = json.loads(done.stdout)
    assert {finding["level"] for finding in findings} == {"ok"}
    assert {finding["server"] for finding in findings} == {server.address}


def test_settings_that_make_no_sense_are_trouble() -> None:
    done = run("a,,b")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is empty" in done.stderr


def deployed(location: str, folder: Path, more: str = "") -> subprocess.CompletedProcess[str]:
    """Run Django's deployment check of a site whose only cache is a PinyonCache."""
    settings = f"""
SECRET_KEY = "{PASSWORD}"
INSTALLED_APPS = ["pinyon.frameworks.django.Checks"]
CACHES = {{"default": {{"BACKEND": "pinyon.frameworks.django.PinyonCache", "LOCATION": "{location}",
                        "OPTIONS": {{"timeout": 30, "connect_timeout": 30, "on_failure": "miss"}}}},
          "local": {{"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}}}
{more}
"""
    (folder / "checked.py").write_text(settings)
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "checked", "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "django", "check", "--deploy", "--tag", "caches"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)


@pytest.mark.parametrize("reachable", [True, False])
def test_djangos_deployment_check_tells_the_same(
    server: Memcached, nobody: str, tmp_path: Path, reachable: bool
) -> None:
    done = deployed(server.address if reachable else nobody, tmp_path)
    assert (done.returncode == 0) == reachable, done.stderr
    assert ("(pinyon.E002) CACHES['default']" in done.stderr) != reachable


@pytest.mark.parametrize(
    ("engine", "alias", "warned"),
    [
        ("django.contrib.sessions.backends.cache", "default", True),
        ("django.contrib.sessions.backends.cached_db", "default", True),
        ("django.contrib.sessions.backends.cached_db", "local", False),
        ("django.contrib.sessions.backends.cached_db", "missing", False),
        ("django.contrib.sessions.backends.db", "default", False),
        ("pinyon.frameworks.django_sessions", "default", False),
    ],
)
def test_djangos_deployment_check_warns_of_sessions_that_come_back(
    server: Memcached, tmp_path: Path, engine: str, alias: str, warned: bool
) -> None:
    done = deployed(server.address, tmp_path, f'SESSION_ENGINE = "{engine}"\nSESSION_CACHE_ALIAS = "{alias}"')
    assert done.returncode == 0, done.stderr
    assert ("(pinyon.W002) SESSION_ENGINE is" in done.stderr) == warned, done.stderr
    assert ('Set SESSION_ENGINE = "pinyon.frameworks.django_sessions"' in done.stderr) == warned
