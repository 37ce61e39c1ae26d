"""What editors, type checkers and ``help`` show is what there is."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import pkgutil
import typing
from typing import Any

import async_to_sync
import pytest
import signatures
import uvloop

import pinyon
import pinyon.aio
import pinyon.gevent
from pinyon import _native, _settings

CLASSES = [
    pinyon.Client,
    pinyon.gevent.Client,
    pinyon.aio.Client,
    pinyon.Batch,
    pinyon.aio.Batch,
    pinyon.Locks,
    pinyon.gevent.Locks,
    pinyon.aio.Locks,
    pinyon.Lock,
    pinyon.aio.Lock,
    pinyon.Held,
    pinyon.aio.Held,
    pinyon.Lease,
    pinyon.aio.Lease,
    pinyon.MigratingClient,
    pinyon.aio.MigratingClient,
    pinyon.Tls,
    pinyon.Compression,
    pinyon.Event,
    pinyon.ItemMetadata,
    pinyon.Latencies,
    pinyon.CommandMetrics,
    pinyon.ServerMetrics,
    pinyon.LockStatus,
    pinyon.Progress,
]

#: Modules that are documented. All others begin with an underscore, or are parts of these.
PUBLIC = {
    "aio",
    "checking",
    "cli",
    "client",
    "compat",
    "compression",
    "errors",
    "events",
    "frameworks",
    "gevent",
    "leases",
    "locks",
    "metadata",
    "metrics",
    "migration",
    "near",
    "opentelemetry",
    "prometheus",
    "serializers",
    "tls",
}


@pytest.mark.parametrize("path", signatures.paths(), ids=lambda path: str(path.name))
def test_generated_signatures_and_docstrings_are_up_to_date(path: Any) -> None:
    assert path.read_text() == signatures.written(path), "run: make signatures"


def test_the_locks_for_threads_are_written_from_those_for_tasks() -> None:
    pytest.importorskip("ruff", reason="ruff formats them")
    for path, text in async_to_sync.written().items():
        assert path.read_text() == text, "run: make signatures"


def test_choices_are_those_of_the_core() -> None:
    types = {"ring": "Ring", "dialect": "Dialect", "key_rule": "KeyRule", "protocol": "Protocol"}
    choices = json.loads(_native.SETTING_CHOICES)
    assert {name: list(typing.get_args(getattr(_settings, kind))) for name, kind in types.items()} == choices
    for name in typing.get_args(_settings.SerializerName):
        pinyon.Client("127.0.0.1:1", serializer=name)
    for algorithm in typing.get_args(_settings.Algorithm):
        pinyon.Client("127.0.0.1:1", compression=algorithm)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
def test_everything_public_is_documented_and_has_a_signature(kind: type) -> None:
    assert inspect.getdoc(kind)
    for name in dir(kind):
        attribute = inspect.getattr_static(kind, name)
        if name in getattr(kind, "__dataclass_fields__", ()):
            continue
        if name.startswith("_") or type(attribute).__name__ == "member_descriptor":
            continue
        assert inspect.getdoc(getattr(kind, name)), name
        if callable(getattr(kind, name)):
            shown = inspect.signature(getattr(kind, name))
            catch_all = [
                str(parameter) for parameter in shown.parameters.values() if parameter.kind.name == "VAR_KEYWORD"
            ]
            known = ("cached", "get_or_set", "get_or_set_many", "permits", "read", "synchronized", "using", "write")
            assert catch_all == [] or name in known, (name, shown)


def test_the_package_shows_nothing_internal() -> None:
    modules = {module.name for module in pkgutil.iter_modules(pinyon.__path__) if not module.name.startswith("_")}
    assert modules == PUBLIC
    shown = {name for name in dir(pinyon) if not name.startswith("_")}
    assert shown <= {*pinyon.__all__} | PUBLIC
    for name in PUBLIC - {"cli", "compat", "frameworks"}:
        module = importlib.import_module(f"pinyon.{name}")
        assert all(hasattr(module, public) for public in module.__all__)


async def use_futures() -> None:
    client, locks = pinyon.aio.Client("127.0.0.1:1"), pinyon.aio.Locks("redis://127.0.0.1:1")
    started: list[asyncio.Future[Any]] = [
        client.get("key"),
        client.set("key", 1),
        client.get_many(["key"]),
        client.set_many({"key": 1}),
        client.delete_many(["key"]),
        client.incr("key"),
        client.stats(),
        client.flush_all(),
        locks.execute("PING"),
        locks.force_release("name"),
    ]
    assert all(isinstance(future, asyncio.Future) for future in started)
    assert started[0].cancel()
    first, *others = await asyncio.gather(*started, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert [future.cancelled() for future in started] == [True] + [False] * len(others)
    assert all(isinstance(outcome, pinyon.Error) for outcome in others)
    outcomes = await asyncio.gather(client.get("key"), client.touch("key", 1), return_exceptions=True)
    assert all(isinstance(outcome, pinyon.Error) for outcome in outcomes)
    with pytest.raises(pinyon.Error):
        await asyncio.wait_for(client.get("key"), 30)
    client.close()
    locks.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_what_is_awaited_is_a_future(run: Any) -> None:
    run(use_futures())
