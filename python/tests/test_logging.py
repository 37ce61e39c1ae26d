"""The messages of the logger ``pinyon.servers``, in every concurrency model."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from faulty import FaultyServer, Step
from logs import about, text_about
from models import Model, every_model
from pinyon_verify.ports import free_port
from servers import Memcached

import pinyon
from pinyon._logging import log

Connect = Callable[..., Any]


async def has_said(model: Model, log: pytest.LogCaptureFixture, text: str) -> logging.LogRecord:
    give_up = time.monotonic() + 60
    while True:
        for record in log.records:
            if record.name == "pinyon.servers" and text in record.getMessage():
                return record
        assert time.monotonic() < give_up, log.text
        await model.sleep(0.01)


@every_model
async def test_a_server_that_goes_and_comes_back(
    model: Model, connect: Connect, own_server: Memcached, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pinyon")
    cache = connect(own_server)
    assert await cache.set("secret-key", "secret-value")
    assert not about(own_server, caplog)
    own_server.stop()
    for _ in range(5):
        with contextlib.suppress(pinyon.Error):
            await cache.get("secret-key")
    down = await has_said(model, caplog, f"{own_server.address} is marked down: ")
    assert down.levelno == logging.WARNING
    own_server.restart()
    await model.eventually(lambda: cache.get("secret-key"))
    up = await has_said(model, caplog, f"{own_server.address} is up again after ")
    assert up.levelno == logging.WARNING
    assert "secret" not in text_about(own_server, caplog)


@every_model
async def test_a_command_that_is_tried_again(model: Model, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pinyon")
    with FaultyServer(Step(cut=0)) as server:
        cache = connect(server)
        with contextlib.suppress(pinyon.Error):
            await cache.get("key")
        retried = await has_said(model, caplog, f"get is tried again: {server.address}: ")
    assert retried.levelno == logging.DEBUG


@every_model
async def test_it_goes_with_on_event(
    model: Model, connect: Connect, server: Memcached, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pinyon")
    events: list[pinyon.Event] = []
    cache = connect(server, slow_after=1e-9, on_event=events.append)
    await cache.get("key")
    slow = await has_said(model, caplog, f"{server.address}: get took ")
    await model.eventually(lambda: cache.get("key"))
    await model.until(lambda: events)
    assert slow.pinyon_event == events[0]  # type: ignore[attr-defined]


def test_without_any_setting_up_python_shows_that_a_server_is_down() -> None:
    source = (
        "import sys, pinyon\n"
        "cache = pinyon.Client(sys.argv[1], on_failure='miss')\n"
        "print(cache.get('key'), cache.get('key'), cache.metrics()[sys.argv[1]].is_up)"
    )
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-c", source, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=True)
    line = f"{address} is marked down: cannot connect: Connection refused (os error 111)\n"
    assert (done.stdout, done.stderr) == ("None None False\n", line)


def test_lines_about_the_servers_of_earlier_tests_are_told_apart(
    own_server: Memcached, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pinyon")
    for address in (own_server.address, f"{own_server.address}0"):
        log(pinyon.Event("down", address, level="warning", line=f"{address} is marked down"))
    assert text_about(own_server, caplog) == f"{own_server.address} is marked down"
    assert about(own_server, caplog, "is up again") == []
