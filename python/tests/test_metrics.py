"""The counts of a client, in every concurrency model."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from models import Model, every_model
from pinyon_verify.ports import free_port
from servers import Memcached
from test_fork import in_child

import pinyon
from pinyon.metrics import BOUNDS

Connect = Callable[..., Any]

#: An operation, and what it counts: command, hits, misses, stored, not stored.
OPERATIONS = {
    "get": ([("set", "k", "v"), ("get", "k"), ("get", "absent"), ("get", "absent")], "get", (1, 2, 0, 0)),
    "gets": ([("set", "k", "v"), ("gets", "k"), ("gets", "absent")], "get", (1, 1, 0, 0)),
    "gat": ([("set", "k", "v"), ("gat", "k", 5), ("gat", "absent", 5)], "gat", (1, 1, 0, 0)),
    "touch": ([("set", "k", "v"), ("touch", "k", 5), ("touch", "absent", 5)], "touch", (1, 1, 0, 0)),
    "set": ([("set", "k", "v"), ("set", "k", "w")], "set", (0, 0, 2, 0)),
    "add": ([("add", "k", "v"), ("add", "k", "w")], "add", (0, 0, 1, 1)),
    "replace": ([("replace", "k", "v")], "replace", (0, 0, 0, 1)),
    "append": ([("set", "k", b"v"), ("append", "k", b"w")], "append", (0, 0, 1, 0)),
    "cas": ([("set", "k", "v"), ("cas", "k", "w", 1), ("cas", "absent", "w", 1)], "cas", (0, 0, 0, 2)),
    "delete": ([("set", "k", "v"), ("delete", "k"), ("delete", "k")], "delete", (1, 1, 0, 0)),
    "incr": ([("incr", "n", 1), ("set", "n", 1), ("incr", "n", 1)], "incr", (1, 1, 0, 0)),
    "meta": ([("set", "k", "v"), ("meta", "k"), ("meta", "absent")], "meta", (1, 1, 0, 0)),
    "get_many": ([("set", "k", "v"), ("get_many", ["k", *map(str, range(99))])], "get", (1, 99, 0, 0)),
    "set_many": ([("set_many", {str(number): number for number in range(50)})], "set", (0, 0, 50, 0)),
    "gat_many": ([("set", "k", "v"), ("gat_many", ["k", "a", "b"], 60)], "gat", (1, 2, 0, 0)),
    "touch_many": ([("set", "k", "v"), ("touch_many", ["k", "a", "b"], 60)], "touch", (1, 2, 0, 0)),
    "delete_many": ([("set", "k", "v"), ("delete_many", ["k", "a", "b"])], "delete", (1, 2, 0, 0)),
}


def only(cache: Any) -> pinyon.ServerMetrics:
    (server,) = cache.metrics().values()
    assert isinstance(server, pinyon.ServerMetrics)
    return server


def outcomes(command: pinyon.CommandMetrics) -> tuple[int, int, int, int]:
    return command.hits, command.misses, command.stored, command.not_stored


@every_model
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_commands_are_counted_by_what_they_came_to(
    model: Model, connect: Connect, server: Memcached, operation: str
) -> None:
    calls, name, expected = OPERATIONS[operation]
    cache = connect(server)
    for method, *arguments in calls:
        await getattr(cache, method)(*arguments)
    command = only(cache).command(name)
    assert outcomes(command) == expected
    assert command.answered == sum(expected)
    assert command.failed == command.retries == 0


@every_model
async def test_some_answers_are_timed(model: Model, connect: Connect, server: Memcached) -> None:
    cache = connect(server)
    for _ in range(5):
        await model.gather(cache.get(f"key:{number}") for number in range(100))
    get = only(cache).command("get")
    assert get.answered == 500
    assert 5 < get.latencies.count < 100
    assert 0 < (get.latencies.percentile(1) or 0) <= (get.latencies.percentile(99) or 0) < 20
    assert get.latencies.mean is not None


@every_model
async def test_a_line_of_many_keys_is_timed_as_so_many(model: Model, connect: Connect, server: Memcached) -> None:
    cache = connect(server)
    for _ in range(200):
        await cache.get_many(["a", "b", "c"])
    count = only(cache).command("get").latencies.count
    assert 0 < count < 200
    assert count % 3 == 0


@every_model
async def test_what_is_joined_is_counted_by_key(model: Model, connect: Connect, server: Memcached) -> None:
    cache = connect(server)
    await cache.set_many({f"key:{number}": "value" for number in range(0, 100, 2)})
    found = await model.gather(cache.get(f"key:{number}") for number in range(100))
    assert found == ["value", None] * 50
    await model.gather(cache.set("key", "value") for _ in range(50))
    assert outcomes(only(cache).command("get")) == (50, 50, 0, 0)
    assert outcomes(only(cache).command("set")) == (0, 0, 100, 0)


@every_model
async def test_a_batch_is_counted_by_command(model: Model, connect: Connect, server: Memcached) -> None:
    cache = connect(server)
    async with cache.quiet() as batch:
        for number in range(300):
            await batch.set(f"key:{number}", number)
        for number in range(100):
            await batch.delete(f"key:{number}")
    assert outcomes(only(cache).command("set")) == (0, 0, 300, 0)
    assert outcomes(only(cache).command("delete")) == (100, 0, 0, 0)


@every_model
async def test_views_count_together_and_other_clients_apart(model: Model, connect: Connect, server: Memcached) -> None:
    cache, other = connect(server), connect(server)
    await cache.using(on_failure="miss").get("key")
    await cache.get("key")
    assert only(cache).command("get").misses == 2 == only(cache.using()).command("get").misses
    assert only(other).commands == {}


@every_model
async def test_bytes_and_connections_are_counted(model: Model, connect: Connect, server: Memcached) -> None:
    cache = connect(server)
    assert only(cache).connections == only(cache).bytes_sent == 0
    await cache.set("key", b"v" * 50_000)
    sent = only(cache)
    assert 50_000 < sent.bytes_sent < 50_200
    assert sent.bytes_received < 200
    await cache.get("key")
    received = only(cache)
    assert 50_000 < received.bytes_received < 50_400
    assert received.bytes_sent < 50_400
    assert received.connections == 1
    assert received.is_up


@every_model
async def test_failures_are_counted_by_their_exception(model: Model) -> None:
    cache = model.client(f"127.0.0.1:{free_port()}", failover=False, timeout=5)
    for _ in range(3):
        with pytest.raises((pinyon.ConnectError, pinyon.ServerDown)):
            await cache.get("key")
    server = only(cache)
    get = server.command("get")
    assert not server.is_up
    assert get.errors["ConnectError"] >= 2
    assert get.errors["ServerDown"] >= 1
    assert (get.answered, get.failed, get.retries) == (0, sum(get.errors.values()), 1)
    cache.close()


@every_model
async def test_a_server_that_does_not_answer_is_a_timeout(model: Model, own_server: Memcached) -> None:
    cache = model.client(own_server.address, timeout=0.2, failover=False)
    assert await model.eventually(lambda: cache.set("key", "value"))
    before = only(cache).command("set").errors
    own_server.pause()
    try:
        with pytest.raises(pinyon.Timeout):
            await cache.set("key", "value")
    finally:
        own_server.resume()
    assert only(cache).command("set").errors == {**before, "Timeout": before.get("Timeout", 0) + 1}
    cache.close()


@every_model
async def test_a_new_connection_goes_on_where_the_last_one_ended(
    model: Model, connect: Connect, own_server: Memcached
) -> None:
    cache = connect(own_server)
    await cache.set("key", b"v" * 50_000)
    before = only(cache)
    own_server.stop()
    with pytest.raises(pinyon.Error):
        await cache.incr("key")
    assert only(cache).connections == 0
    own_server.restart()
    assert await model.eventually(lambda: cache.set("key", "value"))
    after = only(cache)
    assert after.connections == 1
    assert before.bytes_sent < after.bytes_sent < before.bytes_sent + 500
    assert before.bytes_received < after.bytes_received
    assert after.command("set").stored == 2


@every_model
async def test_a_servers_own_error_is_counted(model: Model, connect: Connect, server: Memcached) -> None:
    cache = connect(server)
    await cache.set("key", "text")
    with pytest.raises(pinyon.ServerError):
        await cache.incr("key")
    assert only(cache).command("incr").errors == {"ServerError": 1}
    assert only(cache).command("incr").latencies.count == 0


@every_model
async def test_what_concerns_no_key_is_counted(model: Model, connect: Connect, server: Memcached) -> None:
    cache = connect(server)
    await cache.version()
    await cache.stats()
    await cache.flush_all()
    commands = only(cache).commands
    assert {name: command.answered for name, command in commands.items()} == {"version": 1, "stats": 1, "flush_all": 1}
    assert not any(any(outcomes(command)) for command in commands.values())


@every_model
async def test_each_server_is_counted_apart(model: Model, four: list[Memcached]) -> None:
    cache = model.client([server.address for server in four], timeout=10, connect_timeout=10)
    await cache.set_many({f"key:{number}": number for number in range(200)})
    await cache.get_many([f"key:{number}" for number in range(300)])
    servers = cache.metrics()
    assert list(servers) == [server.address for server in four]
    gets = [server.command("get") for server in servers.values()]
    assert all(get.hits and get.misses for get in gets)
    assert sum(get.hits for get in gets) == 200
    assert sum(get.misses for get in gets) == 100
    cache.close()


def test_threads_lose_nothing(server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=20, connect_timeout=20, max_connections=3) as cache:
        threads = [threading.Thread(target=lambda: [cache.get("key") for _ in range(200)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert only(cache).command("get").misses == 1600


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_counts_from_zero_and_the_parent_goes_on(client: pinyon.Client) -> None:
    client.get("key")

    def in_the_child() -> tuple[int, int]:
        before = only(client).command("get").misses
        client.get("key")
        return before, only(client).command("get").misses

    assert in_child(in_the_child) == (0, 1)
    client.get("key")
    assert only(client).command("get").misses == 2


def test_a_snapshot_does_not_change(client: pinyon.Client) -> None:
    before = only(client)
    client.get("key")
    assert before.commands == {}
    get = only(client).command("get")
    with pytest.raises(dataclasses.FrozenInstanceError):
        get.hits = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        get.errors["Timeout"] = 1  # type: ignore[index]


def test_metrics_are_sent_to_another_process(client: pinyon.Client) -> None:
    client.get("key")
    with pinyon.Client("127.0.0.1:1") as failing, pytest.raises(pinyon.ConnectError):
        failing.get("key")
    for metrics in (client.metrics(), failing.metrics()):
        sent = pickle.loads(pickle.dumps(metrics))
        assert sent == metrics
        with pytest.raises(TypeError):
            next(iter(sent.values())).commands["get"] = None


def test_latencies_are_told_and_compared() -> None:
    counts = [0] * len(BOUNDS)
    counts[20], counts[60] = 90, 10
    both = pinyon.Latencies(counts, 1.0)
    assert (both.counts, both.total, both.count, both.mean) == (tuple(counts), 1.0, 100, 0.01)
    assert both.percentile(90) == BOUNDS[20]
    assert both.within(BOUNDS[20]) == 90
    assert both + pinyon.Latencies() == both == pickle.loads(pickle.dumps(both))
    assert both - both == pinyon.Latencies()
    assert repr(both).startswith("<Latencies of 100: mean 0.010000 s, p50 ")
    assert repr(pinyon.Latencies()) == "<Latencies of nothing>"
    assert pinyon.Latencies().percentile(50) is None
    with pytest.raises(ValueError, match="0 to 100"):
        both.percentile(101)
    with pytest.raises(ValueError, match="3 buckets"):
        pinyon.Latencies([1, 2, 3])


def test_commands_are_added_up(client: pinyon.Client) -> None:
    client.get("key")
    client.set("key", "value")
    client.get("key")
    get = only(client).command("get")
    twice = get + get
    assert outcomes(twice) == (2, 2, 0, 0)
    assert twice.latencies.count == 2 * get.latencies.count
