"""The cost of operations: system calls and memory."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pinyon_verify.ports import free_port
from servers import Memcached

#: System calls that occur now and then regardless of the client, for memory or time.
INCIDENTAL = {"brk", "mmap", "munmap", "mremap", "madvise", "clock_gettime"}

LOOP = """
import sys, pinyon
client = pinyon.Client(sys.argv[1], timeout=20, connect_timeout=20)
for number in range({turns}):
    client.set("key", "value")
    client.get("key")
"""

MEMORY = """
import gc, sys, pinyon

def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

client = pinyon.Client(sys.argv[1], timeout=20, connect_timeout=20)
absent = sys.argv[2]
{work}
first(); first()
before = resident()
for _ in range({rounds}):
    first()
print(resident() - before)
"""

MIXED = """
values = {f"key:{n}": n for n in range(50)}
big = b"x" * 50_000
def first():
    for number in range(1000):
        key = f"key:{number % 100}"
        client.set(key, f"value {number}")
        client.get(key)
        client.get("missing")
        client.set("object", {"number": [number, 1.5, None]})
        client.get("object")
        client.delete(key)
        client.incr("count", initial=1)
        try:
            client.incr("object")
        except pinyon.ServerError:
            pass
    for _ in range(20):
        client.set_many(values); client.get_many(values)
        client.set("big", big); client.get("big")
        with client.quiet() as batch:
            for key in values:
                batch.set(key, 1)
"""

FAILURES = """
down = pinyon.Client(absent, timeout=10, connect_timeout=10)
def first():
    for _ in range(50):
        with pinyon.Client(absent, timeout=10, connect_timeout=10) as fresh:
            for use in (lambda: fresh.get("key"), lambda: fresh.get_many(["key"]), lambda: down.set("key", 1)):
                try:
                    use()
                except pinyon.Error:
                    pass
"""


def system_calls(server: Memcached, turns: int, directory: Path) -> dict[str, int]:
    counts = directory / f"counts-{turns}"
    program = [sys.executable, "-c", LOOP.format(turns=turns), server.address]
    subprocess.run(["strace", "-c", "-f", "-o", str(counts), *program], check=True, timeout=150)
    lines = re.findall(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:(\d+) +)?(\w+)$", counts.read_text(), re.MULTILINE)
    counted = [line for line in lines if line[2] != "total" and line[2] not in INCIDENTAL]
    # Those that fail are looks for an answer that has not arrived. How many there are, the server's speed decides.
    return {name: int(calls) - int(failed or 0) for calls, failed, name in counted}


def test_an_operation_is_two_system_calls(server: Memcached, tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None or subprocess.run([strace, "-c", "-o", "/dev/null", "true"], check=False).returncode:
        pytest.skip("strace is not installed or may not trace here")
    turns = 2000
    once, twice = (system_calls(server, count, tmp_path) for count in (turns, 2 * turns))
    more = {name: calls - once.get(name, 0) for name, calls in twice.items()}
    more = {name: calls for name, calls in more.items() if calls > 0}
    assert 4 * turns * 0.99 <= sum(more.values()) <= 4 * turns * 1.01, more
    assert more.get("sendto") == 2 * turns


def growth(server: Memcached, work: str, rounds: int) -> int:
    program = MEMORY.replace("{work}", work).replace("{rounds}", str(rounds))
    arguments = [sys.executable, "-c", program, server.address, f"127.0.0.1:{free_port()}"]
    return int(subprocess.run(arguments, check=True, timeout=150, capture_output=True, text=True).stdout)


def test_memory_is_flat_over_two_hundred_thousand_operations(server: Memcached) -> None:
    assert growth(server, MIXED, rounds=25) < 3 * 2**20


def test_memory_is_flat_over_two_thousand_failed_connections(server: Memcached) -> None:
    assert growth(server, FAILURES, rounds=40) < 3 * 2**20
