"""The rings of Ruby and Perl clients from Debian's packages."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from other_rings.fleets import Fleet
from other_rings.listening import Listening

HERE = Path(__file__).parent


def dalli(fleet: Fleet, keys: Sequence[bytes], dead: Collection[int] = ()) -> list[int | None]:
    need("ruby", "-e", "require 'dalli'", package="ruby-dalli")
    namespace = fleet.namespace.removesuffix(":") or None
    job = {"servers": fleet.texts, "namespace": namespace, "dead": list(dead)}
    return _places(run("ruby", HERE / "dalli.rb", job, keys))


def cache_memcached(fleet: Fleet, keys: Sequence[bytes], dead: Collection[int] = ()) -> list[int | None]:
    need("perl", "-MCache::Memcached", "-e", "1", package="libcache-memcached-perl")
    job = {"servers": _weighted(fleet), "namespace": fleet.namespace, "dead": list(dead)}
    return _places(run("perl", HERE / "cache_memcached.pl", job, keys))


def cache_memcached_fast(
    fleet: Fleet, keys: Sequence[bytes], dead: Collection[int] = (), *, ketama_points: int = 0
) -> list[int | None]:
    need("perl", "-MCache::Memcached::Fast", "-e", "1", package="libcache-memcached-fast-perl")
    job = {"servers": _weighted(fleet), "namespace": fleet.namespace, "ketama_points": ketama_points}
    with Listening(fleet, dead) as servers:
        run("perl", HERE / "cache_memcached_fast.pl", job, keys)
    return servers.places(keys)


def _weighted(fleet: Fleet) -> list[str | tuple[str, float]]:
    return [server.place if server.weight == 1 else (server.place, server.weight) for server in fleet.servers]


def run(language: str, script: Path, job: dict[str, Any], keys: Sequence[bytes]) -> str:
    """The output of a script. Its input is a job as a line of JSON, and a key in hexadecimal on each further line."""
    lines = "\n".join([json.dumps(job), *(key.hex() for key in keys)])
    done = subprocess.run([language, script], input=lines, capture_output=True, timeout=50, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _places(lines: str) -> list[int | None]:
    """One place per line. An empty line means no server."""
    return [int(line) if line else None for line in lines.splitlines()]


@functools.cache
def _is_there(*check: str) -> bool:
    return shutil.which(check[0]) is not None and subprocess.run(check, capture_output=True).returncode == 0


def need(*check: str, package: str) -> None:
    if not _is_there(*check):
        pytest.skip(f"the Debian package {package} is not installed")
