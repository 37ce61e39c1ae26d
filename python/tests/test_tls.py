"""TLS in every concurrency model: everything works over it, and failures are explained."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import FAR_AHEAD, LONG_AGO, Authority, SecureMemcached, SecureRedis, Shown
from front import Front, byte_by_byte
from logs import about
from models import Model, every_model
from servers import Memcached, Redis
from test_events import Watcher
from waiting import GIVES_UP, eventually_answers

import pinyon

Connect = Callable[..., Any]
LocksOn = Callable[..., Any]

LARGE = b"0123456789" * 500_000


@pytest.fixture(scope="module")
def trusted(certificates: Path) -> Authority:
    return Authority(certificates, "trusted")


@pytest.fixture(scope="module")
def unknown(certificates: Path) -> Authority:
    return Authority(certificates, "unknown")


@pytest.fixture(scope="module")
def here(trusted: Authority) -> Shown:
    """A certificate for this machine."""
    return trusted.issue("localhost", "127.0.0.1", "::1")


@pytest.fixture(scope="module")
def tls(trusted: Authority) -> pinyon.Tls:
    return pinyon.Tls(ca=trusted.file)


class Places:
    """Servers of both kinds with one certificate, started when first needed."""

    def __init__(self, start: Callable[[Any], Any]) -> None:
        self.start = start
        self.started: dict[Any, Any] = {}

    def of(self, kind: type, *shown: Any) -> Any:
        place = (kind, *shown)
        if place not in self.started:
            self.started[place] = self.start(kind(*shown))
        return self.started[place]


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    with contextlib.ExitStack() as stack:
        yield Places(stack.enter_context)


@pytest.fixture
def secure_memcached(places: Places, here: Shown) -> SecureMemcached:
    server: SecureMemcached = places.of(SecureMemcached, here)
    server.flush()
    return server


async def use_all(client: Any) -> None:
    """Small and large values, one by one, many at once, and in a batch."""
    assert await client.set("key", "value")
    assert await client.get("key") == "value"
    assert await client.get("missing") is None
    assert await client.incr("count", initial=5) == 5
    assert await client.set("large", LARGE)
    assert await client.get("large") == LARGE
    values = {f"key:{number}": f"value {number}" * (number % 50) for number in range(500)}
    assert await client.set_many(values) == []
    assert await client.get_many([*values, "missing"]) == values
    several = {f"large:{number}": bytes([number]) * 100_000 for number in range(20)}
    assert await client.set_many(several) == []
    assert await client.get_many(several) == several
    async with client.quiet() as batch:
        for number in range(2000):
            await batch.set(f"quiet:{number}", f"value {number}" * 20)
    assert await client.get("quiet:1999") == "value 1999" * 20
    assert await client.delete_many([f"quiet:{number}" for number in range(2000)]) == 2000


@every_model
async def test_a_cache_works_over_tls(
    model: Model, secure_memcached: SecureMemcached, connect: Connect, tls: pinyon.Tls
) -> None:
    client = connect(secure_memcached, tls=tls, max_value_size=32 << 20)
    await use_all(client)

    async def use_one(number: int) -> Any:
        assert await client.set(f"own:{number}", number)
        return await client.get(f"own:{number}")

    assert await model.gather(use_one(number) for number in range(50)) == list(range(50))


@every_model
async def test_several_servers_are_used_at_once(
    model: Model, places: Places, here: Shown, secure_memcached: SecureMemcached, connect: Connect, tls: pinyon.Tls
) -> None:
    with SecureMemcached(here) as other:
        await use_all(connect(secure_memcached, other, tls=tls, max_value_size=32 << 20))


@every_model
async def test_locks_work_over_tls(
    model: Model, places: Places, here: Shown, locks_on: LocksOn, tls: pinyon.Tls
) -> None:
    redis = places.of(SecureRedis, here)
    locks, others = locks_on(redis, tls=tls), locks_on(redis, tls=tls)
    async with locks.lock("account:1", "account:2") as held:
        assert held.token > 0
        assert await others.try_lock("account:2") is None
    held = await others.try_lock("account:1")
    assert await held.release()
    value = b"x" * 1_000_000
    assert await locks.execute("SET", "large", value) == "OK"
    assert await locks.execute("GET", "large") == value


@every_model
async def test_replies_that_come_byte_by_byte_are_read(
    model: Model, roomy: Memcached, here: Shown, connect: Connect, tls: pinyon.Tls
) -> None:
    roomy.flush()
    with Front(roomy, here, byte_by_byte) as front:
        client = connect(front, tls=tls, max_value_size=32 << 20)
        await use_all(client)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
@every_model
async def test_a_second_connection_resumes_the_session_of_the_first(
    model: Model, server: Memcached, here: Shown, trusted: Authority, connect: Connect, version: ssl.TLSVersion
) -> None:
    tls = pinyon.Tls(ca=trusted.file)
    with Front(server, here, version=version) as front:
        client, another = connect(front, tls=tls), connect(front, tls=tls)
        assert await client.set("key", "value")
        front.hang_up()
        assert await client.get("key") == "value"
        assert await another.get("key") == "value"
        assert front.resumed == [False, True, True]


@every_model
async def test_a_connection_that_is_cut_is_a_broken_one(
    model: Model, server: Memcached, here: Shown, connect: Connect, tls: pinyon.Tls
) -> None:
    """Cut inside a record, or at a record's end inside a value."""
    value = b"x" * 100_000
    assert pinyon.Client(server.address, timeout=20, connect_timeout=20).set("key", value)

    def lose_all(data: bytes) -> Iterator[bytes]:
        if len(data) > 10_000:
            raise ConnectionError("it is lost")
        yield data

    def lose_the_rest(data: bytes) -> Iterator[bytes]:
        yield data[:9_000]
        if len(data) > 9_000:
            raise ConnectionError("the rest is lost")

    for lose in (lose_all, lose_the_rest):
        lost = pytest.raises(pinyon.ConnectionLost, match="the server closed the connection")
        with Front(server, here, lose) as front, lost:
            await connect(front, tls=tls).get("key")


@every_model
async def test_a_handshake_that_is_not_answered_ends_with_its_time(
    model: Model, connect: Connect, locks_on: LocksOn, tls: pinyon.Tls
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        client = connect(address, tls=tls, connect_timeout=0.2)
        says = f"{address}: get: cannot connect: it accepted the connection but did not answer the handshake of TLS"
        with pytest.raises(pinyon.Timeout, match=says):
            await client.get("key")
        locks = locks_on(f"rediss://{address}", tls=tls, connect_timeout=0.2, command_timeout=GIVES_UP)
        with pytest.raises(pinyon.Timeout, match="did not answer the handshake of TLS in time: does it speak TLS"):
            await locks.try_lock("name")


#: A server's certificate, the client's settings, and the error.
NAME = r"is not for \"127.0.0.1\" but for cache.example, 10.0.0.1: use a name that it is for, or set server_name"
UNKNOWN = "is not signed by a trusted authority: name the file with the certificate of who signed it as ca"
FAILURES: dict[str, tuple[str, str, str]] = {
    "the wrong host": ("elsewhere", "trusting", NAME),
    "the wrong host as told": ("here", "named cache.example", 'is not for "cache.example" but for localhost, 127'),
    "an unknown authority": ("here", "trusting others", UNKNOWN),
    "an authority unknown to the system": ("here", "usual", UNKNOWN),
    "an expired certificate": ("expired", "trusting", r"the server's certificate expired \d+ days ago: renew it"),
    "a certificate of the future": ("ahead", "trusting", r"is not valid for another \d+ days: is this machine's clock"),
    "a certificate for signing": ("signing", "trusting", r"for signing others \(CA:TRUE\): make it one of its own"),
    "no certificate of the client's": ("wary", "trusting", "wants a certificate of the client's: set certificate and"),
    "a certificate of the client's that is not trusted": (
        "wary",
        "of others",
        "does not trust who signed the client's",
    ),
    "an expired certificate of the client's": ("wary", "expired", "the client's certificate has expired: renew it"),
}


@pytest.fixture(params=FAILURES)
def failure(
    request: pytest.FixtureRequest, places: Places, trusted: Authority, unknown: Authority, here: Shown
) -> tuple[SecureMemcached, SecureRedis, pinyon.Tls, str]:
    shows, told, says = FAILURES[request.param]
    shown: dict[str, Callable[[], tuple[Any, ...]]] = {
        "here": lambda: (here,),
        "elsewhere": lambda: (trusted.issue("cache.example", "10.0.0.1"),),
        "expired": lambda: (trusted.issue("127.0.0.1", **LONG_AGO),),
        "ahead": lambda: (trusted.issue("127.0.0.1", **FAR_AHEAD),),
        "signing": lambda: (trusted.own(),),
        "wary": lambda: (here, trusted),
    }
    others, expired = unknown.issue("client"), trusted.issue("client", **LONG_AGO)
    settings: dict[str, dict[str, Any]] = {
        "usual": {},
        "trusting": {"ca": trusted.file},
        "trusting others": {"ca": unknown.file},
        "named cache.example": {"ca": trusted.file, "server_name": "cache.example"},
        "of others": {"ca": trusted.file, "certificate": others.certificate, "key": others.key},
        "expired": {"ca": trusted.file, "certificate": expired.certificate, "key": expired.key},
    }
    shown_there = shown[shows]()
    memcached, redis = places.of(SecureMemcached, *shown_there), places.of(SecureRedis, *shown_there)
    return memcached, redis, pinyon.Tls(**settings[told]), says


@every_model
async def test_failures_name_the_server_and_the_remedy(
    model: Model, failure: tuple[SecureMemcached, SecureRedis, pinyon.Tls, str], connect: Connect, locks_on: LocksOn
) -> None:
    memcached, redis, tls, says = failure
    client = connect(memcached, tls=tls)
    with pytest.raises(pinyon.ConnectError, match=says) as raised:
        await client.get("key")
    assert str(raised.value).startswith(f"{memcached.address}: get: cannot connect: ")
    locks = locks_on(redis, tls=tls)
    with pytest.raises(pinyon.ConnectError, match=says) as raised:
        await locks.try_lock("name")
    assert str(raised.value).startswith(f"{redis.address}: cannot connect: ")


@every_model
async def test_a_server_that_speaks_no_tls_is_told_apart(
    model: Model, server: Memcached, redis: Redis, connect: Connect, locks_on: LocksOn, tls: pinyon.Tls
) -> None:
    """Such a server either answers in plain text, or waits for the end of a line."""
    says = "so it does not speak TLS on this port|does it speak TLS on this port"
    with pytest.raises(pinyon.Error, match=says):
        await connect(server, tls=tls, connect_timeout=1).get("key")
    with pytest.raises(pinyon.Error, match=says):
        await locks_on(redis, tls=tls, connect_timeout=1, command_timeout=GIVES_UP).try_lock("name")


@every_model
async def test_a_server_that_speaks_tls_alone_is_told_apart(
    model: Model, places: Places, here: Shown, secure_memcached: Memcached, connect: Connect, locks_on: LocksOn
) -> None:
    says = 'the server speaks TLS on this port|should it speak TLS on this port, set "tls"'
    with pytest.raises(pinyon.Error, match=says):
        await connect(secure_memcached).get("key")
    redis = places.of(SecureRedis, here)
    with pytest.raises(pinyon.Error, match=says):
        await locks_on(redis.url.replace("rediss", "redis"), command_timeout=GIVES_UP).try_lock("name")


@every_model
async def test_a_client_shows_its_certificate(
    model: Model, places: Places, trusted: Authority, here: Shown, connect: Connect, locks_on: LocksOn
) -> None:
    own = trusted.issue("client")
    together = own.certificate.with_name("together.pem")
    together.write_bytes(own.certificate.read_bytes() + own.key.read_bytes())
    for files in ({"certificate": own.certificate, "key": own.key}, {"certificate": str(together)}):
        tls = pinyon.Tls(ca=trusted.file, **files)
        assert await connect(places.of(SecureMemcached, here, trusted), tls=tls).set("key", "value")
        locks = locks_on(places.of(SecureRedis, here, trusted), tls=tls)
        async with locks.lock("name"):
            pass


@every_model
async def test_whom_to_trust_and_what_to_expect_can_be_said(
    model: Model,
    places: Places,
    trusted: Authority,
    here: Shown,
    connect: Connect,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = places.of(SecureMemcached, trusted.issue("cache.example", "10.0.0.1"))
    for settings in (
        {"ca": trusted.file, "server_name": "cache.example"},
        {"ca": trusted.file, "server_name": "10.0.0.1"},
        {"accept_any_certificate_which_is_dangerous": True},
    ):
        assert await connect(elsewhere, tls=pinyon.Tls(**settings)).version()
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted.file))
    port = places.of(SecureMemcached, here).port
    system = pinyon.Tls()
    assert await connect(f"localhost:{port}", tls=system).version()
    with SecureMemcached(here, host="::1") as over_ipv6:
        assert await connect(over_ipv6, tls=system).version()


@every_model
async def test_a_path_has_the_name_that_is_told(
    model: Model, server: Memcached, trusted: Authority, here: Shown, connect: Connect, tmp_path: Path
) -> None:
    with Front(server, here, path=str(tmp_path / "memcached")) as front:
        with pytest.raises(pinyon.UsageError, match="set server_name to the name in the server's"):
            connect(front, tls=pinyon.Tls(ca=trusted.file))
        assert await connect(front, tls=pinyon.Tls(ca=trusted.file, server_name="localhost")).set("key", "value")


def test_files_that_cannot_be_used(trusted: Authority, unknown: Authority, tmp_path: Path) -> None:
    own, others = trusted.issue("client"), unknown.issue("client")
    damaged, encrypted = tmp_path / "damaged.pem", tmp_path / "encrypted.pem"
    damaged.write_text("-----BEGIN CERTIFICATE-----\nnot base64!\n-----END CERTIFICATE-----\n")
    encrypted.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMA==\n-----END ENCRYPTED PRIVATE KEY-----\n")
    missing = tmp_path / "missing.pem"
    for settings, says in (
        ({"ca": missing}, f"ca: {missing} cannot be read: No such file or directory"),
        ({"ca": tmp_path}, f"ca: {tmp_path} cannot be read: Is a directory"),
        ({"ca": own.key}, "has no certificate; it is to be PEM text"),
        ({"ca": damaged}, "is damaged: it is to be certificates as PEM text"),
        ({"certificate": own.certificate}, "has no private key; it is to be PEM text"),
        ({"certificate": own.certificate, "key": missing}, f"key: {missing} cannot be read"),
        ({"certificate": own.certificate, "key": encrypted}, "encrypted with a passphrase: decrypt it with"),
        ({"certificate": own.certificate, "key": others.key}, "does not belong to the certificate in"),
        ({"key": own.key}, "a key is of no use without its certificate: give both"),
        ({"server_name": "no name"}, 'server_name "no name" is no name that a certificate can have'),
        ({"ca": trusted.file, "accept_any_certificate_which_is_dangerous": True}, "to trust everybody"),
    ):
        with pytest.raises(pinyon.UsageError, match=says):
            pinyon.Tls(**settings)  # type: ignore[arg-type]


def test_a_file_that_may_not_be_read(trusted: Authority, certificates: Path) -> None:
    unreadable = certificates / "unreadable.pem"
    unreadable.write_bytes(trusted.file.read_bytes())
    unreadable.chmod(0)
    user = os.geteuid()
    with contextlib.suppress(PermissionError):
        os.seteuid(65534)  # root may read every file
    try:
        with pytest.raises(pinyon.UsageError, match=r"Permission denied.*let this process's user read it"):
            pinyon.Tls(ca=unreadable)
    finally:
        os.seteuid(user)


def test_a_forked_child_makes_its_own_connection(server: Memcached, here: Shown, tls: pinyon.Tls) -> None:
    with Front(server, here) as front:
        client = pinyon.Client(front.address, tls=tls, timeout=10, connect_timeout=10)
        assert client.set("key", "value")
        if not (child := os.fork()):
            code = 1
            with contextlib.suppress(BaseException):
                code = 0 if client.get("key") == "value" else 2
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.get("key") == "value"
        assert len(front.resumed) == 2


def test_what_is_shown_of_it(trusted: Authority) -> None:
    own = trusted.issue("client")
    assert repr(pinyon.Tls()) == "<pinyon.Tls trusting what the system trusts>"
    tls = pinyon.Tls(ca=trusted.file, certificate=own.certificate, key=own.key, server_name="cache1")
    assert (
        repr(tls) == f"<pinyon.Tls ca={trusted.file}, certificate={own.certificate}, key={own.key}, server_name=cache1>"
    )
    assert repr(pickle.loads(pickle.dumps(tls))) == repr(tls)
    assert "dangerous" in repr(pinyon.Tls(accept_any_certificate_which_is_dangerous=True))
    with pytest.raises(pinyon.UsageError, match=r"tls must be True, False or a pinyon\.Tls, not str"):
        pinyon.Client(tls="yes")  # type: ignore[arg-type]


@every_model
async def test_renewed_files_are_used_without_a_new_client(
    model: Model,
    trusted: Authority,
    unknown: Authority,
    here: Shown,
    tmp_path: Path,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    mine, renewed = trusted.issue("first.internal"), trusted.issue("second.internal")
    others = unknown.issue("client.internal")
    caplog.set_level("INFO")

    def present(shown: Shown) -> None:
        certificate.write_bytes(shown.certificate.read_bytes())
        key.write_bytes(shown.key.read_bytes())

    present(mine)
    with SecureMemcached(here, trusted) as server:
        client = connect(server, tls=pinyon.Tls(ca=trusted.file, certificate=certificate, key=key))
        assert await client.set("key", 1)

        key.write_text("not yet written")
        await reconnects(server, client)
        said = [record.getMessage() for record in about(server, caplog, "files of TLS")]
        assert len(said) == 1
        assert "those read last stay in use: key: " in said[0]

        present(others)
        server.restart()
        while not about(server, caplog, "were read again"):
            with contextlib.suppress(pinyon.Error):
                await client.get("key")
            await model.sleep(0.01)
        with pytest.raises(pinyon.Error):
            await client.get("key")

        present(renewed)
        await reconnects(server, client)


@every_model
async def test_locks_tell_of_renewed_files(
    model: Model, trusted: Authority, here: Shown, tmp_path: Path, locks_on: LocksOn, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    caplog.set_level("INFO", "pinyon.locks")
    watcher = Watcher()

    def present(shown: Shown) -> None:
        certificate.write_bytes(shown.certificate.read_bytes())
        key.write_bytes(shown.key.read_bytes())

    present(trusted.issue("first.internal"))
    with SecureRedis(here, trusted) as server:
        tls = pinyon.Tls(ca=trusted.file, certificate=certificate, key=key)
        locks = locks_on(server, tls=tls, on_event=watcher)

        async def is_locked_anew() -> None:
            server.restart()
            async with locks.lock("name"):
                pass

        await is_locked_anew()
        key.write_text("not yet written")
        await is_locked_anew()
        stale = await watcher.has(model, "stale_certificates")
        assert (stale.level, stale.server) == ("warning", server.address)
        assert "those read last stay in use: key: " in stale.line
        assert isinstance(stale.error, pinyon.UsageError)

        present(trusted.issue("second.internal"))
        await is_locked_anew()
        read = await watcher.has(model, "certificates")
        assert (read.level, read.server, read.error) == ("info", server.address, None)
        assert read.line.endswith("the files of TLS have changed and were read again")
        kinds = [event.kind for event in watcher.events if "certificates" in event.kind]
        assert kinds == ["stale_certificates", "certificates"]
        told = [record.pinyon_event for record in about(server, caplog, "files of TLS")]
        assert told == [stale, read]


async def reconnects(server: SecureMemcached, client: Any) -> None:
    """Has the server started again, and waits until the client uses it."""
    server.restart()
    await eventually_answers(client)
