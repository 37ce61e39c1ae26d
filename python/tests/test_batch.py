"""Quiet batches: order, failures, exceptions, and use after their end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Setting
from faulty import OlderServer
from models import Model, cooperative, every_model
from servers import Memcached, free_port

import pinyon


def filled(client: pinyon.Client, fill: Callable[[pinyon.Batch], None]) -> None:
    with client.quiet() as batch:
        fill(batch)


def test_commands_are_done_in_their_order(setting: Setting) -> None:
    def fill(batch: pinyon.Batch) -> None:
        batch.set("key", "a")
        for letter in "bcdefgh" * 100:
            batch.append("key", letter)
        batch.prepend("key", "<")
        batch.set("other", 1)
        batch.delete("other")
        batch.add("other", 10)
        for _ in range(500):
            batch.incr("other")

    filled(setting.client, fill)
    assert setting.client.get_many(["key", "other"]) == {"key": "<a" + "bcdefgh" * 100, "other": 510}


def test_every_failure_names_its_key_as_it_was_given(setting: Setting) -> None:
    keys = [f"key:{number}" if number % 2 else f"key:{number}".encode() for number in range(1000)]
    setting.client.set_many({key: 1 for number, key in enumerate(keys) if number % 7 == 0})
    with pytest.raises(pinyon.BatchError, match=r"add of .* failed: not stored and 142 more") as raised:
        filled(setting.client, lambda batch: [batch.add(key, 2) for key in keys] and None)
    assert {failure.key for failure in raised.value.failures} == {key for n, key in enumerate(keys) if n % 7 == 0}
    assert raised.value.sent == "yes"
    assert list(setting.client.get_many(keys).values()).count(2) == 1000 - 143


def test_a_failure_says_what_the_server_answered(client: pinyon.Client) -> None:
    client.set("word", "word")
    with pytest.raises(pinyon.BatchError) as raised:
        filled(client, lambda batch: batch.incr("word"))
    (failure,) = raised.value.failures
    assert (failure.key, failure.command) == ("word", "incr")
    assert isinstance(failure.error, pinyon.ServerError)
    assert "non-numeric" in failure.reason


def test_an_exception_in_the_block_is_raised_after_what_was_submitted_is_done(client: pinyon.Client) -> None:
    def fill(batch: pinyon.Batch) -> None:
        batch.set("key", "value")
        batch.add("key", "not stored")
        raise RuntimeError("of the block")

    with pytest.raises(RuntimeError, match="of the block"):
        filled(client, fill)
    assert client.get("key") == "value"


def test_an_interrupt_in_the_block_waits_for_nothing(own_server: Memcached) -> None:
    def fill(batch: pinyon.Batch) -> None:
        batch.set("key", "value")
        own_server.pause()
        raise KeyboardInterrupt

    with pinyon.Client(own_server.address, timeout=30, connect_timeout=30) as client:
        client.set("key", "old")
        with pytest.raises(KeyboardInterrupt):
            filled(client, fill)
        own_server.resume()
        assert client.get("key") in ("old", "value")
        assert client.set("key", "new")
        assert client.get("key") == "new"


def test_a_bad_argument_leaves_the_batch_as_it_was(client: pinyon.Client) -> None:
    with client.quiet() as batch:
        batch.set("before", 1)
        with pytest.raises(pinyon.InvalidKey):
            batch.set("bad key", 1)
        with pytest.raises(pinyon.UnsupportedType):
            batch.set("key", object())
        with pytest.raises(TypeError):
            batch.set("key", 1, ttl=None)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="delta must be"):
            batch.incr("key", -1)
        batch.set("after", 2)
    assert client.get_many(["before", "key", "after"]) == {"before": 1, "after": 2}


def test_a_batch_is_used_inside_its_block_alone(client: pinyon.Client) -> None:
    batch = client.quiet()
    for use in (lambda: batch.set("key", 1), lambda: batch.delete("key"), lambda: batch.incr("key")):
        with pytest.raises(pinyon.UsageError, match="use it inside its block"):
            use()
    with batch:
        batch.set("key", 1)
        with pytest.raises(pinyon.UsageError, match="open already"):
            batch.__enter__()
    with pytest.raises(pinyon.UsageError, match="use it inside its block"):
        batch.set("key", 2)
    assert client.get("key") == 1


def test_a_batch_can_be_used_again(client: pinyon.Client) -> None:
    batch = client.quiet()
    for number in range(3):
        with batch:
            batch.set(f"key:{number}", number)
    assert client.get_many(["key:0", "key:1", "key:2"]) == {"key:0": 0, "key:1": 1, "key:2": 2}


def test_a_batch_that_was_interrupted_reports_only_new_failures(client: pinyon.Client) -> None:
    client.set("taken", 1)
    batch = client.quiet()

    def interrupted() -> None:
        with batch:
            batch.set("first", 1)
            batch.set("second", 1)
            raise KeyboardInterrupt

    def again() -> None:
        with batch:
            batch.add("taken", 2)
            batch.set("other", 2)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(pinyon.BatchError) as raised:
        again()
    assert [(failure.key, failure.command) for failure in raised.value.failures] == [("taken", "add")]


def test_a_batch_that_does_nothing_costs_nothing(own_server: Memcached) -> None:
    with pinyon.Client(own_server.address, timeout=20, connect_timeout=20) as client:
        filled(client, lambda batch: None)
        assert own_server.has_connections(0)


def test_a_batch_abandoned_without_its_end_does_no_harm(client: pinyon.Client) -> None:
    batch = client.quiet()
    batch.__enter__()
    batch.set("key", 1)
    del batch
    assert client.set("key", 2)
    assert client.get("key") == 2


def test_the_client_may_be_used_beside_its_batch(client: pinyon.Client) -> None:
    with client.quiet() as batch:
        for number in range(300):
            batch.set(f"key:{number}", number)
            client.set("beside", number)
            assert client.get("beside") == number
    assert client.get("key:299") == 299


def test_another_thread_may_take_over_a_batch(client: pinyon.Client) -> None:
    with client.quiet() as batch:
        batch.set("mine", 1)
        other = threading.Thread(target=lambda: batch.set("theirs", 2))
        other.start()
        other.join()
    assert client.get_many(["mine", "theirs"]) == {"mine": 1, "theirs": 2}


def test_two_threads_at_one_batch_are_told_so(own_server: Memcached) -> None:
    with pinyon.Client(own_server.address, timeout=60, connect_timeout=60) as client:
        batch = client.quiet()
        batch.__enter__()
        batch.set("key", 1)
        own_server.pause()
        leaving = threading.Thread(target=lambda: batch.__exit__(None, None, None))
        leaving.start()
        leaving.join(0.3)
        try:
            with pytest.raises(pinyon.UsageError, match="in use by another thread"):
                batch.set("key", 2)
        finally:
            own_server.resume()
            leaving.join()
        assert client.get("key") == 1


def test_two_batches_at_once_with_one_connection_do_not_wait_for_each_other(four: list[Memcached]) -> None:
    failures: list[BaseException] = []
    with pinyon.Client(
        [server.address for server in four], timeout=10, connect_timeout=10, max_connections=1
    ) as client:

        def run(name: str) -> None:
            try:
                for part in range(5):
                    with client.quiet() as batch:
                        for number in range(100):
                            batch.set(f"{name}:{part}:{number}", number)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        keys = [f"{name}:{part}:{n}" for name in "abcd" for part in range(5) for n in range(100)]
        assert len(client.get_many(keys)) == len(keys)


@every_model
async def test_failures_are_told_in_the_order_of_submission_and_name_keys_as_they_were_given(
    model: Model, four: list[Memcached], connect: Callable[..., Any]
) -> None:
    keys = [f"key:{number}" if number % 2 else f"key:{number}".encode() for number in range(2000)]
    cache = connect(*four, namespace="some:")
    await cache.set_many(dict.fromkeys(keys[::3], 1), ttl=60)

    async def fill() -> None:
        async with cache.quiet() as batch:
            for key in keys:
                await batch.add(key, 2, ttl=60)

    with pytest.raises(pinyon.BatchError) as raised:
        await fill()
    assert [(failure.key, failure.command) for failure in raised.value.failures] == [(key, "add") for key in keys[::3]]
    assert {(failure.reason, failure.error) for failure in raised.value.failures} == {("not stored", None)}


@every_model
async def test_what_a_server_cannot_do_is_told_at_the_end_and_names_server_and_command(
    model: Model, classic_server: OlderServer, connect: Callable[..., Any]
) -> None:
    cache = connect(classic_server, encode_keys=True)
    await cache.set("word", "word")

    async def fill() -> None:
        async with cache.quiet() as batch:
            await batch.set("before", 1)
            await batch.delete("two words")
            await batch.incr("word")
            await batch.set("after", 2)

    with pytest.raises(pinyon.BatchError) as raised:
        await fill()
    unsupported, wrong = raised.value.failures
    assert (unsupported.key, type(unsupported.error)) == ("two words", pinyon.Unsupported)
    assert (wrong.key, type(wrong.error)) == ("word", pinyon.ServerError)
    for failure, command in ((unsupported, "delete"), (wrong, "incr")):
        assert failure.command == command
        assert failure.reason.startswith(f"{classic_server.address}: {command}: ")
    assert await cache.get_many(["before", "after"]) == {"before": 1, "after": 2}


@every_model
async def test_a_value_over_the_limit_is_refused_at_once_and_the_others_are_stored(
    model: Model, server: Memcached, connect: Callable[..., Any]
) -> None:
    cache = connect(server, max_value_size=1000)
    async with cache.quiet() as batch:
        await batch.set("before", 1)
        with pytest.raises(pinyon.ValueTooLarge, match=r"1001 bytes.*\(max_value_size\) of 1000") as raised:
            await batch.set("key", b"x" * 1001)
        assert (raised.value.sent, raised.value.command) == ("no", "set")
        await batch.set("after", 2)
    assert await cache.get_many(["before", "key", "after"]) == {"before": 1, "after": 2}


@every_model
async def test_nobody_there_to_discover_servers_is_told_at_the_end(model: Model, connect: Callable[..., Any]) -> None:
    cache = connect(f"127.0.0.1:{free_port()}", discovery="config", timeout=0.5)

    async def fill(*commands: str) -> None:
        async with cache.quiet() as batch:
            for command in commands:
                await getattr(batch, command)("key")

    await fill()
    with pytest.raises(pinyon.BatchError) as raised:
        await fill("incr", "delete")
    assert [(failure.key, failure.command) for failure in raised.value.failures] == [("key", "incr"), ("key", "delete")]
    assert {type(failure.error) for failure in raised.value.failures} <= {pinyon.ConnectError, pinyon.Timeout}


@every_model
async def test_failures_are_noted_on_the_exception_of_the_block(
    model: Model, server: Memcached, connect: Callable[..., Any]
) -> None:
    cache = connect(server)
    await cache.set("taken", 1)
    batch = cache.quiet()

    async def fill() -> None:
        async with batch:
            await batch.set("key", "value")
            await batch.add("taken", 2)
            raise RuntimeError("of the block")

    with pytest.raises(RuntimeError, match="of the block") as raised:
        await fill()
    (note,) = raised.value.__notes__  # type: ignore[attr-defined]
    assert note == "quiet batch: add of 'taken' failed: not stored"
    assert await cache.get("key") == "value"
    with pytest.raises(pinyon.UsageError, match="use it inside its block"):
        await batch.set("key", "new")
    async with batch:
        await batch.set("key", "new")
        with pytest.raises(pinyon.UsageError, match="open already"):
            await batch.__aenter__()
    assert await cache.get("key") == "new"


@every_model
async def test_what_was_never_sent_goes_on_elsewhere(
    model: Model, server: Memcached, connect: Callable[..., Any]
) -> None:
    cache = connect(f"127.0.0.1:{free_port()}", server)
    keys = [f"key:{number}" for number in range(100)]
    async with cache.quiet() as batch:
        for key in keys:
            await batch.set(key, "a", ttl=60)
            await batch.append(key, "b")
    assert await cache.get_many(keys) == dict.fromkeys(keys, "ab")


@cooperative
async def test_several_callers_share_a_batch_of_a_loop(
    model: Model, server: Memcached, connect: Callable[..., Any]
) -> None:
    cache = connect(server)
    keys = [f"{name}:{number}" for name in "abcd" for number in range(1000)]
    await cache.set_many(dict.fromkeys(keys, 1), ttl=60)

    async def fill(name: str) -> None:
        for number in range(1000):
            await batch.add(f"{name}:{number}", number, ttl=60)

    batch = cache.quiet()
    await batch.__aenter__()
    assert await model.gather(fill(name) for name in "abcd") == [None] * 4
    with pytest.raises(pinyon.BatchError) as raised:
        await batch.__aexit__(None, None, None)
    assert sorted(failure.key for failure in raised.value.failures) == sorted(keys)
