"""Quiet batches: order, failures, exceptions, and use where they are not open."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from conftest import Setting
from servers import Memcached

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

    with pinyon.Client(own_server.address, timeout=30) as client:
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
    with pinyon.Client(own_server.address) as client:
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
    with pinyon.Client(own_server.address, timeout=60) as client:
        batch = client.quiet()
        batch.__enter__()
        batch.set("key", 1)
        own_server.pause()
        leaving = threading.Thread(target=lambda: batch.__exit__(None, None, None))
        leaving.start()
        leaving.join(0.3)
        try:
            with pytest.raises(pinyon.UsageError, match="used by another thread"):
                batch.set("key", 2)
        finally:
            own_server.resume()
            leaving.join()
        assert client.get("key") == 1


def test_two_batches_at_once_with_one_connection_do_not_wait_for_each_other(four: list[Memcached]) -> None:
    failures: list[BaseException] = []
    with pinyon.Client([server.address for server in four], timeout=10, max_connections=1) as client:

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
