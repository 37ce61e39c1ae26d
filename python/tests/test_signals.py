"""Signals: Ctrl-C ends a wait at once, and no signal disturbs a result."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually
from faulty import Conversation, FaultyServer, Step
from gate import Gate
from listener import ScriptedServer
from models import Model, every_model
from processes import wait_until_asleep
from servers import Memcached

import pinyon

TESTS = str(Path(__file__).parent)

#: The client's timeout in these tests, and the time within which an interrupted wait must end.
LONG = 100
AT_ONCE = 40


@contextlib.contextmanager
def interrupt_after(delay: float) -> Iterator[None]:
    """Presses Ctrl-C."""
    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    begun = time.monotonic()
    interrupted = False
    try:
        timer.start()
        yield
    except KeyboardInterrupt:
        interrupted = True
    finally:
        took = time.monotonic() - begun
        with contextlib.suppress(KeyboardInterrupt):
            timer.join()
    assert interrupted
    assert delay - 0.05 < took < AT_ONCE


@contextlib.contextmanager
def handling(number: int, handler: Callable[..., None]) -> Iterator[None]:
    previous = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, previous)


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that accepts connections and sends nothing, or whose queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def quietly(client: pinyon.Client, *keys: str) -> None:
    with client.quiet() as batch:
        for key in keys:
            batch.set(key, "new")


KEYS = [f"key:{number}" for number in range(50)]
WAITS: dict[str, Callable[[pinyon.Client], Any]] = {
    "get": lambda client: client.get("key:0"),
    "set": lambda client: client.set("key:0", "new"),
    "incr": lambda client: client.incr("key:0"),
    "get_many": lambda client: client.get_many(KEYS),
    "set_many": lambda client: client.set_many(dict.fromkeys(KEYS, "new")),
    "delete_many": lambda client: client.delete_many(KEYS),
    "quiet": lambda client: quietly(client, *KEYS),
    "version": lambda client: client.version(),
    "stats": lambda client: client.stats(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("count", [1, 2])
def test_ctrl_c_ends_a_wait_for_a_reply_at_once(four: list[Memcached], count: int, wait: Callable[..., Any]) -> None:
    servers = four[:count]
    with pinyon.Client([server.address for server in servers], timeout=LONG, connect_timeout=LONG) as client:
        client.set_many({key: f"value of {key}" for key in KEYS})
        stalled = next(server for server in servers if server.holds("key:0"))
        stalled.pause()
        try:
            with interrupt_after(0.15):
                wait(client)
        finally:
            stalled.resume()
        for key in KEYS:
            client.set(key, f"newer value of {key}")
        assert client.get_many(KEYS) == {key: f"newer value of {key}" for key in KEYS}
        assert [client.get(key) for key in KEYS] == [f"newer value of {key}" for key in KEYS]


def test_ctrl_c_ends_connecting_at_once(silent: str) -> None:
    with pinyon.Client(silent, timeout=LONG, connect_timeout=LONG) as client:
        for use in (lambda: client.get("key"), lambda: client.get_many(["key"]), lambda: quietly(client, "key")):
            with interrupt_after(0.15):
                use()


def test_ctrl_c_ends_connecting_to_a_full_queue_at_once(silent: str) -> None:
    host, port = silent.split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex((host, int(port)))
        client = stack.enter_context(pinyon.Client(silent, timeout=LONG, connect_timeout=LONG))
        with interrupt_after(0.15):
            client.get("key")


def test_ctrl_c_ends_the_wait_for_a_connection_at_once(server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=LONG, connect_timeout=LONG, max_connections=1) as client:
        with client.quiet() as batch:
            batch.set("key", "value")
            with interrupt_after(0.15):
                client.get("key")
        assert client.get("key") == "value"
        assert "1 connected, 1 idle" in repr(client)


def test_ctrl_c_in_the_middle_of_a_large_value(faulty: Callable[..., FaultyServer], server: Memcached) -> None:
    half = faulty(Step("VA 200000 f0 O{opaque}\r\n{x*100000}", then="stall"))
    with pinyon.Client(half.address, timeout=LONG, connect_timeout=LONG) as client:
        with interrupt_after(0.15):
            client.get("key")
        half.heal(server)
        assert client.set("key", b"y" * 200_000)
        assert client.get("key") == b"y" * 200_000


class Interrupted(BaseException):
    """Raised by a signal handler."""


@pytest.mark.parametrize("use", ["get", "get_many", "quiet", "version"])
def test_a_signal_that_ends_no_system_call_of_the_wait_ends_the_wait(use: str) -> None:
    def interrupt(conversation: Conversation) -> None:
        conversation.request()
        time.sleep(0.05)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        conversation.wait()

    def handler(*_: object) -> None:
        raise Interrupted

    with contextlib.ExitStack() as stack:
        stack.enter_context(handling(signal.SIGUSR1, handler))
        greeting = Step("VERSION 1.6.18\r\n", match="^version$")
        stalling = stack.enter_context(ScriptedServer("memcached", [greeting, Step("EN O{opaque}\r\n"), interrupt], {}))
        client = stack.enter_context(pinyon.Client(stalling.address, timeout=LONG, connect_timeout=LONG))
        assert client.get("missing") is None
        begun = time.monotonic()
        with pytest.raises(Interrupted):
            WAITS[use](client)
        assert time.monotonic() - begun < AT_ONCE


@pytest.mark.parametrize("use", ["get", "get_many", "quiet"])
def test_an_interrupt_as_a_connection_gets_ready_leaves_one_that_waits(use: str) -> None:
    def greet_and_interrupt(conversation: Conversation) -> None:
        conversation.take_greeting()
        # This thread takes the signal, which ends no wait of the client. It is noticed after the reply.
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        conversation.send(b"MN\r\n")

    def handler(*_: object) -> None:
        raise Interrupted

    late = Step("VA 4 f0 O{opaque}\r\nlate\r\n", delay_ms=150)
    with contextlib.ExitStack() as stack:
        stack.enter_context(handling(signal.SIGUSR1, handler))
        server = stack.enter_context(ScriptedServer("memcached", [greet_and_interrupt, late], {}))
        client = stack.enter_context(pinyon.Client(server.address, timeout=LONG, connect_timeout=LONG))
        with pytest.raises(Interrupted):
            WAITS[use](client)
        assert client.get("key") == b"late"
        assert server.accepted == 1


def test_an_interrupt_at_any_moment_never_costs_a_right_value(four: list[Memcached]) -> None:
    armed = False
    interrupted = 0
    values = {f"key:{number}": f"value {number}" * (number * 40 + 1) for number in range(40)}

    def handler(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Interrupted

    over = threading.Event()

    def disturb() -> None:
        while not over.wait(0.002):
            os.kill(os.getpid(), signal.SIGUSR1)

    with (
        pinyon.Client([server.address for server in four], timeout=LONG, connect_timeout=LONG) as client,
        handling(signal.SIGUSR1, handler),
    ):
        client.set_many(values)
        disturbing = threading.Thread(target=disturb)
        disturbing.start()
        try:
            give_up = time.monotonic() + 100
            while interrupted <= 50:
                assert time.monotonic() < give_up, interrupted
                for key, value in values.items():
                    try:
                        armed = True
                        single, many = client.get(key), client.get_many(values)
                        armed = False
                    except Interrupted:
                        interrupted += 1
                        continue
                    assert single == value
                    assert many == values
        finally:
            armed = False
            over.set()
            disturbing.join()
        assert client.get_many(values) == values


@pytest.mark.timeout(600, method="thread")
def test_handlers_that_do_not_raise_disturb_nothing(four: list[Memcached]) -> None:
    signals = 0

    def handler(*_: object) -> None:
        nonlocal signals
        signals += 1

    with (
        pinyon.Client([server.address for server in four], timeout=LONG, connect_timeout=LONG) as client,
        handling(signal.SIGALRM, handler),
    ):
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            give_up = time.monotonic() + 100
            turn = 0
            while signals <= 100 or turn < 10:
                assert time.monotonic() < give_up, (signals, turn)
                turn += 1
                values = {f"key:{number}": [turn, number] for number in range(100)}
                assert client.set_many(values) == []
                assert client.get_many(values) == values
                assert client.set("large", b"%d" % turn * 100_000)
                assert client.get("large") == b"%d" % turn * 100_000
                assert client.incr("turn", initial=1) == turn
                quietly(client, *values)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.mark.timeout(600, method="thread")
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_handlers_that_do_not_raise_move_no_deadline(own_server: Memcached, wait: Callable[..., Any]) -> None:
    with (
        pinyon.Client(own_server.address, timeout=1, connect_timeout=30) as client,
        handling(signal.SIGALRM, lambda *_: None),
    ):
        eventually(lambda: client.set("key:0", 1))
        own_server.pause()
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        begun = time.monotonic()
        try:
            with pytest.raises(pinyon.Error) as raised:
                wait(client)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            own_server.resume()
        assert 0.9 < time.monotonic() - begun < AT_ONCE
        errors = [failure.error for failure in getattr(raised.value, "failures", [])] or [raised.value]
        assert all(isinstance(error, pinyon.Timeout) for error in errors)


@pytest.mark.timeout(600, method="thread")
def test_a_reply_that_comes_during_signals_is_still_the_reply(faulty: Callable[..., FaultyServer]) -> None:
    slow = faulty(Step("VA 5 f16 O{opaque}\r\nvalue\r\n", delay_ms=400))
    with (
        pinyon.Client(slow.address, timeout=LONG, connect_timeout=LONG) as client,
        handling(signal.SIGALRM, lambda *_: None),
    ):
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        try:
            assert client.get("key") == "value"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_handler_may_use_the_client(own_server: Memcached) -> None:
    found: list[Any] = []
    with pinyon.Client(own_server.address, timeout=LONG, connect_timeout=LONG) as client:
        client.set_many({"key": "value", "other": "other value"})

        def handler(*_: object) -> None:
            own_server.resume()
            found.append(client.get("other"))

        with handling(signal.SIGUSR1, handler):
            own_server.pause()
            timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            assert client.get("key") == "value"
            timer.join()
    assert found == ["other value"]


def test_a_program_ends_at_ctrl_c(silent: str) -> None:
    program = (
        "import pinyon, sys\n"
        "print('ready', flush=True)\n"
        f"pinyon.Client({silent!r}, timeout={LONG}, connect_timeout={LONG}).get('key')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONG)
    assert time.monotonic() - begun < AT_ONCE
    assert "KeyboardInterrupt" in errors
    assert process.returncode == -signal.SIGINT


CTRL_C_AND_GO_ON = """
import asyncio, sys, uvloop
sys.path.insert(0, sys.argv[1])
from models import MODELS
model = next(each for each in MODELS if each.name == sys.argv[2])
run = {"asyncio": asyncio.run, "uvloop": uvloop.run}.get(model.name, model.run)
cache = model.client(sys.argv[3], timeout=1000, connect_timeout=1000)

def say(what):
    print(what, flush=True)
    sys.stdin.readline()

async def wait():
    await cache.set("key", "value")
    say("connected")
    await model.gather(cache.get(f"key:{n}") for n in range(10 if model.cancels else 1))

async def use():
    await cache.set("key", "right")
    return await model.gather(cache.get("key") for _ in range(10))

try:
    run(wait())
except KeyboardInterrupt:
    say("interrupted")
say(run(use()))
"""


@every_model
def test_ctrl_c_ends_the_waits_of_a_program_that_then_goes_on(model: Model, gate: Gate) -> None:
    command = [sys.executable, "-W", "ignore", "-c", CTRL_C_AND_GO_ON, TESTS, model.name, gate.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            assert process.stdout.readline() == "connected\n"
            held = gate.hold(replies=0)
            process.stdin.write("\n")
            assert held.wait(60)
            wait_until_asleep(process)
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            gate.release()
            process.stdin.write("\n")
            assert process.stdout.readline() == f"{['right'] * 10}\n"
        finally:
            process.kill()
