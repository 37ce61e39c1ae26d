"""What a user does first, with the Pinyon that is installed: `python smoke.py [package ...]`.

The packages named have to be there too, so that nothing is left out because they are missing.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pinyon
import pinyon.aio

SECONDS = 30


def main() -> None:
    packages = sys.argv[1:]
    for package in packages:
        importlib.import_module(package)
    installed()
    errors_are_pickled()
    with tempfile.TemporaryDirectory(prefix="pinyon-") as folder, servers(Path(folder)) as (memcached, redis):
        cache_in_threads(memcached)
        large_values(memcached)
        locks_in_threads(redis)
        asyncio.run(in_asyncio(memcached, redis))
        if "gevent" in packages:
            in_gevent(memcached, redis)
        command_line(redis)
    print(f"smoke: pinyon {pinyon.__version__} works in Python {sys.version.split()[0]}", *packages)


def installed() -> None:
    """It is the installed one, whole and typed."""
    folder = Path(pinyon.__file__).parent
    assert folder.parent in {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}, folder
    assert pinyon.__version__ == importlib.metadata.version("pinyon")
    files = {str(file) for file in importlib.metadata.files("pinyon") or ()}
    assert {"pinyon/py.typed", "pinyon/_native.pyi"} <= files
    assert {Path(file).name for file in files if "/licenses/" in file} == {"LICENSE-APACHE", "LICENSE-MIT"}


def errors_are_pickled() -> None:
    error = pinyon.Timeout("the server did not answer", server="127.0.0.1:11211", command="mg", sent="maybe")
    read = pickle.loads(pickle.dumps(error))
    assert (type(read), read.server, read.sent) == (pinyon.Timeout, "127.0.0.1:11211", "maybe")


def cache_in_threads(memcached: str) -> None:
    with pinyon.Client(memcached) as cache:
        assert cache.set("greeting", "hello", ttl=60)
        assert cache.get("greeting") == "hello"
        assert cache.get_many(["greeting", "missing"]) == {"greeting": "hello"}
        try:
            cache.get("a key")
        except pinyon.InvalidKey:
            return
        raise AssertionError("a key with a space was accepted")


def large_values(memcached: str) -> None:
    """Compression and its reverse, by each library that is built in."""
    value = b"pinyon " * 10_000
    for method in ("zlib", "zstd"):
        with pinyon.Client(memcached, compression=pinyon.Compression(method)) as cache:
            cache.set(method, value)
            assert cache.get(method) == value


def locks_in_threads(redis: str) -> None:
    locks = pinyon.Locks(redis)
    with locks.lock("account:1", "account:2", timeout=SECONDS) as held:
        assert held.token > 0


async def in_asyncio(memcached: str, redis: str) -> None:
    async with pinyon.aio.Client(memcached) as cache:
        await asyncio.gather(*(cache.set(f"row:{number}", number) for number in range(100)))
        assert await cache.get("row:99") == 99
    locks = pinyon.aio.Locks(redis)
    async with locks.lock("account:1", timeout=SECONDS) as held:
        assert held.token > 0


def in_gevent(memcached: str, redis: str) -> None:
    import gevent  # type: ignore[import-untyped]
    import pinyon.gevent

    cache = pinyon.gevent.Client(memcached)
    gevent.joinall([gevent.spawn(cache.set, f"row:{number}", number) for number in range(100)], raise_error=True)
    assert cache.get("row:99") == 99
    with pinyon.gevent.Locks(redis).lock("account:1", timeout=SECONDS) as held:
        assert held.token > 0


def command_line(redis: str) -> None:
    command = Path(sysconfig.get_path("scripts")) / "pinyon"
    for arguments in (["--help"], ["locks", "list", "--url", redis]):
        subprocess.run([str(command), *arguments], check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)


@contextmanager
def servers(folder: Path) -> Iterator[tuple[str, str]]:
    """Starts memcached and Redis on sockets of their own, and says how clients name them."""
    memcached, redis = str(folder / "memcached"), str(folder / "redis")
    user = ["-u", "root"] if os.getuid() == 0 else []
    commands = (
        ["memcached", "-s", memcached, *user],
        ["redis-server", "--port", "0", "--save", "", "--unixsocket", redis],
    )
    processes = []
    try:
        for command in commands:
            assert shutil.which(command[0]), f"{command[0]} is not installed"
            processes.append(subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL))
        await_true(lambda: os.path.exists(memcached) and os.path.exists(redis), "servers start")
        yield memcached, f"unix://{redis}"
    finally:
        for process in processes:
            process.terminate()
            process.wait(SECONDS)


def await_true(happened: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < until, f"{what}: not within {SECONDS} seconds"
        time.sleep(0.01)


if __name__ == "__main__":
    main()
