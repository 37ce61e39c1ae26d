"""The commands of ``pinyon locks`` with a server that speaks TLS."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Authority, SecureRedis
from command_line import run
from servers import Redis
from waiting import GIVES_UP, PATIENT

import pinyon
from pinyon._native import DEFAULT_SETTINGS
from pinyon.cli.arguments import parse


@pytest.fixture(scope="module")
def authority(certificates: Path) -> Authority:
    return Authority(certificates, "typed")


@pytest.fixture(scope="module")
def secure_redis(authority: Authority) -> Iterator[SecureRedis]:
    """Its certificate has another name than its address, and it accepts only clients with a certificate."""
    with SecureRedis(authority.issue("locks.internal"), authority) as server:
        yield server


@pytest.fixture(scope="module")
def known(authority: Authority) -> dict[str, str]:
    """The options for the server that speaks TLS."""
    own = authority.issue("operator")
    files = {"ca": authority.file, "certificate": own.certificate, "key": own.key}
    return {**{name: str(file) for name, file in files.items()}, "server_name": "locks.internal"}


def typed(settings: dict[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_locks_are_looked_at_and_released_over_tls(
    secure_redis: SecureRedis, known: dict[str, str], scheme: str
) -> None:
    url, tls = f"{scheme}://{secure_redis.address}", typed(known)
    with pinyon.Locks(url, tls=pinyon.Tls(**known), **PATIENT) as locks:
        held = locks.lock("a").acquire()
        assert run("list", *tls, url=url).stdout.startswith("a\t")
        assert run("show", "a", *tls, url=url).stdout.startswith("a\n  holder   ")
        assert run("release", "a", "--yes", *tls, url=url).stdout.startswith("a is released; ")
        assert held.release() is False


#: They visit each key once, with any number of tries.
SIX_PROCESSES = ("--forks", "6", "--keys", "3", "--sleep", "0.05", "--tries", "1000000")


@pytest.mark.parametrize("driver", ["blocking", "gevent", "asyncio"])
def test_stress_passes_over_tls(secure_redis: SecureRedis, known: dict[str, str], driver: str) -> None:
    before = secure_redis.keys()
    done = run("stress", *SIX_PROCESSES, "--driver", driver, *typed(known), url=secure_redis.url)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["PASS"]), done.stdout + done.stderr
    assert len(re.findall(r"^\[\d+\] Complete; Ok: 3, Failures: \d+$", done.stdout, re.MULTILINE)) == 6
    assert secure_redis.keys() == before


def test_a_server_may_be_trusted_unseen(secure_redis: SecureRedis, known: dict[str, str]) -> None:
    own = typed({name: known[name] for name in ("certificate", "key")})
    done = run("list", "--accept-any-certificate-which-is-dangerous", *own, url=secure_redis.url)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


#: Changed options, None for a missing one, and the resulting error.
UNTRUSTING: dict[str, tuple[dict[str, str | None], str]] = {
    "nothing is said": (
        dict.fromkeys(("ca", "certificate", "key", "server_name")),
        "the server's certificate is not signed by a trusted authority",
    ),
    "another name": ({"server_name": "cache.internal"}, 'is not for "cache.internal" but for locks.internal'),
    "the name of the URL": ({"server_name": None}, 'is not for "127.0.0.1" but for locks.internal'),
    "no certificate": (dict.fromkeys(("certificate", "key")), "the server wants a certificate of the client's"),
    "a key alone": ({"certificate": None}, "a key is of no use without its certificate: give both"),
    "no such file": ({"ca": "/nowhere.pem"}, "ca: /nowhere.pem cannot be read: No such file or directory"),
    "no file": ({"ca": ""}, "cannot be read: No such file or directory"),
    "no name": ({"server_name": "no name"}, 'server_name "no name" is no name that a certificate can have'),
}


@pytest.mark.parametrize("verb", ["list", "stress"])
@pytest.mark.parametrize("case", UNTRUSTING)
def test_what_keeps_a_verb_from_speaking_tls_is_said(
    secure_redis: SecureRedis, known: dict[str, str], case: str, verb: str
) -> None:
    instead, says = UNTRUSTING[case]
    settings = {name: value for name, value in {**known, **instead}.items() if value is not None}
    done = run(verb, *typed(settings), url=secure_redis.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pinyon: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_speaks_no_tls_is_told_apart(redis: Redis, known: dict[str, str]) -> None:
    done = run("list", "--timeout", str(GIVES_UP), *typed(known), url=redis.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert "does it speak TLS on this port" in done.stderr


def test_every_setting_of_tls_can_be_typed() -> None:
    for verb in (["list"], ["show", "a"], ["release", "a"], ["stress"]):
        assert {*json.loads(DEFAULT_SETTINGS)["Tls"]} <= {*vars(parse(["locks", *verb]))}
