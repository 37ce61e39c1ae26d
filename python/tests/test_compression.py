"""Compressed values: what is stored, what is read back, and what is refused."""

from __future__ import annotations

import gzip
import math
import random
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard
from models import Model, every_model
from servers import Memcached

import pinyon

COMPRESSED = 1 << 13
LONG = "a value like any other, " * 1000
ALGORITHMS = ["zstd", "zlib", "gzip"]
VALUES = {
    "text": LONG,
    "bytes": LONG.encode(),
    "plain": [LONG, {"nested": LONG}, None],
    "short": "short",
    "number": 10**2000,
    "random": random.Random(5).randbytes(5000),
    "huge": b"x" * 900_000,
}


def stored(server: Memcached, key: str) -> tuple[int, bytes]:
    """The flags and bytes of a stored item."""
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Verbatim()) as client:
        return client.get(key)


class Verbatim:
    """Reads flags and bytes unchanged."""

    def dump(self, value: tuple[int, bytes]) -> tuple[bytes, int]:
        return value[1], value[0]

    def load(self, data: bytes, flags: int) -> tuple[int, bytes]:
        return flags, data


def store(server: Memcached, flags: int, data: bytes) -> None:
    with pinyon.Client(
        server.address, timeout=10, connect_timeout=10, serializer=Verbatim(), max_value_size=2**21
    ) as client:
        assert client.set("key", (flags, data))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@every_model
def test_values_come_back_from_every_command(model: Model, server: Memcached, algorithm: Any) -> None:
    async def scenario() -> None:
        async with model.client(server.address, timeout=10, connect_timeout=10, compression=algorithm) as client:
            assert await client.set_many(VALUES) == []
            assert await client.get_many(VALUES) == VALUES
            for key, value in VALUES.items():
                assert await client.set(key, value)
                assert await client.get(key) == value
                read, cas = await client.gets(key)
                assert read == value
                assert await client.cas(key, value, cas) is True
                assert await client.gat(key, 60) == value
                assert await client.replace(key, value)
                await client.delete(key)
                assert await client.add(key, value)
            async with client.quiet() as batch:
                for key, value in VALUES.items():
                    await batch.set(f"quiet:{key}", value)
            assert await client.get_many(f"quiet:{key}" for key in VALUES) == {
                f"quiet:{key}": value for key, value in VALUES.items()
            }
        async with model.client(server.address, timeout=10, connect_timeout=10) as unaware:
            assert await unaware.get_many(VALUES) == VALUES
            assert await unaware.get("huge") == VALUES["huge"]

    model.run(scenario())
    sizes = {key: len(stored(server, key)[1]) for key in VALUES}
    assert all(sizes[key] < 5000 for key in ("text", "bytes", "plain", "huge"))
    assert {key for key in VALUES if stored(server, key)[0] & COMPRESSED} == {"text", "bytes", "plain", "huge"}


@pytest.mark.parametrize(
    ("algorithm", "decompress"),
    [(True, "zstd"), ("zstd", "zstd"), ("zlib", "zlib"), ("gzip", "gzip"), (pinyon.Compression(level=19), "zstd")],
    ids=["usual", "zstd", "zlib", "gzip", "level"],
)
def test_what_is_stored_is_what_everybody_else_decompresses(server: Memcached, algorithm: Any, decompress: str) -> None:
    by = {"zstd": zstandard.decompress, "zlib": zlib.decompress, "gzip": gzip.decompress}[decompress]
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, compression=algorithm) as client:
        client.set("key", LONG)
    flags, data = stored(server, "key")
    assert flags == COMPRESSED | 16
    assert by(data) == LONG.encode()


@pytest.mark.parametrize("compress", [zstandard.compress, zlib.compress, gzip.compress], ids=ALGORITHMS)
def test_a_client_that_does_not_compress_reads_what_others_did(
    client: pinyon.Client, server: Memcached, compress: Any
) -> None:
    store(server, COMPRESSED | 16, compress(LONG.encode()))
    assert client.get("key") == client.get_many(["key"])["key"] == LONG
    store(server, COMPRESSED | 2, compress(b"5"))
    assert client.get("key") == 5


def test_small_values_and_those_that_hardly_gain_are_stored_as_they_are(server: Memcached) -> None:
    half = random.Random(1).randbytes(1000) + bytes(1000)
    for settings, value, compressed in [
        ({"threshold": 101}, b"x" * 100, False),
        ({"threshold": 100}, b"x" * 100, True),
        ({"minimum_gain": 0.6}, half, False),
        ({"minimum_gain": 0.4}, half, True),
        ({"threshold": None}, LONG.encode(), False),
        ({"threshold": 0}, b"", False),
    ]:
        with pinyon.Client(
            server.address, timeout=10, connect_timeout=10, compression=pinyon.Compression(**settings)
        ) as client:
            client.set("key", value)
            assert client.get("key") == value
        assert bool(stored(server, "key")[0] & COMPRESSED) is compressed, settings


def test_a_value_may_be_larger_than_the_server_takes_once_it_is_compressed(server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, compression=True) as client:
        value = b"x" * (10 * 2**20)
        assert client.set("key", value)
        assert client.get("key") == value


@pytest.mark.parametrize("compress", [zstandard.compress, zlib.compress, gzip.compress], ids=ALGORITHMS)
@every_model
def test_what_would_decompress_to_too_much_is_refused_by_the_server_it_is_on(
    model: Model, server: Memcached, compress: Any
) -> None:
    store(server, COMPRESSED, compress(bytes(2 * 2**20)))

    async def scenario() -> None:
        async with model.client(server.address, timeout=10, connect_timeout=10, max_decompressed_size=2**20) as client:
            for read in (client.get("key"), client.gets("key"), client.get_many(["key"]), client.gat("key", 0)):
                with pytest.raises(pinyon.UndecodableValue, match=r"1048576 bytes.*max_decompressed_size") as raised:
                    await read
                assert str(raised.value).startswith(f"{server.address}: ")
                assert raised.value.server == server.address
                assert raised.value.sent == "yes"
        async with model.client(
            server.address, timeout=10, connect_timeout=10, max_decompressed_size=2 * 2**20
        ) as client:
            assert await client.get("key") == bytes(2 * 2**20)

    model.run(scenario())


def test_the_bound_follows_the_largest_value_that_is_stored(server: Memcached) -> None:
    store(server, COMPRESSED, zlib.compress(bytes(16_001)))
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, max_value_size=1000) as client:
        with pytest.raises(pinyon.UndecodableValue, match="16000 bytes"):
            client.get("key")
        store(server, COMPRESSED, zlib.compress(bytes(16_000)))
        assert client.get("key") == bytes(16_000)


def test_what_the_client_could_not_read_again_is_not_stored(server: Memcached) -> None:
    with pinyon.Client(
        server.address, timeout=10, connect_timeout=10, compression=True, max_decompressed_size=10_000
    ) as client:
        client.set("key", "old")
        for write in (
            lambda: client.set("key", bytes(10_001)),
            lambda: client.set_many({"other": "new", "key": bytes(10_001)}),
        ):
            with pytest.raises(pinyon.ValueTooLarge, match=r"10001 bytes.*max_decompressed_size, 10000.*nothing"):
                write()
        assert client.get_many(["key", "other"]) == {"key": "old"}


@pytest.mark.parametrize("compress", [zstandard.compress, zlib.compress, gzip.compress], ids=ALGORITHMS)
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda data: data[:-5], "its end is missing"),
        (lambda data: data + b"more", "after an append"),
        (lambda data: b"more" + data, "prepended"),
        (lambda data: b"", "does not begin as zstd"),
        (lambda data: data[:20] + bytes(len(data) - 20), "corrupt|missing|after an append"),
    ],
    ids=["cut", "appended to", "prepended to", "empty", "overwritten"],
)
def test_a_spoilt_value_is_an_error_that_says_so(
    client: pinyon.Client, server: Memcached, compress: Any, spoil: Any, why: str
) -> None:
    store(server, COMPRESSED | 16, spoil(compress(random.Random(1).randbytes(300).hex().encode())))
    with pytest.raises(pinyon.UndecodableValue, match=why) as raised:
        client.get("key")
    assert raised.value.server == server.address
    assert client.set("key", "fine")
    assert client.get("key") == "fine"


@every_model
def test_nothing_is_appended_to_what_may_be_compressed(model: Model, server: Memcached) -> None:
    async def scenario() -> None:
        async with model.client(server.address, timeout=10, connect_timeout=10, compression=True) as client:
            await client.set("key", LONG)
            for add in (client.append, client.prepend):
                with pytest.raises(pinyon.UsageError, match="client without compression"):
                    await add("key", "more")
            assert await client.get("key") == LONG

    model.run(scenario())


def test_counters_are_never_compressed(server: Memcached) -> None:
    with pinyon.Client(
        server.address, timeout=10, connect_timeout=10, compression=pinyon.Compression(threshold=0)
    ) as client:
        client.set("digits", 10**2000)
        client.set("count", 10**15)
        assert client.incr("count") == 10**15 + 1
        assert client.get("count") == 10**15 + 1
    assert stored(server, "digits") == (2, b"1" + b"0" * 2000)


def dictionary(seed: int) -> bytes:
    chance = random.Random(seed)
    samples = [f'{{"name": "user {chance.randrange(9999)}", "role": "reader {seed}"}}'.encode() for _ in range(2000)]
    return zstandard.train_dictionary(2000, samples, dict_id=seed).as_bytes()


def test_dictionaries_of_several_generations_are_read_and_the_last_one_written(server: Memcached) -> None:
    value = '{"name": "user 77", "role": "reader 7"}'
    old, new = dictionary(7), dictionary(8)
    small = pinyon.Compression(threshold=10, dictionaries={7: old})
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, compression=small) as client:
        client.set("key", value)
    flags, data = stored(server, "key")
    assert flags == COMPRESSED | 16
    assert zstandard.get_frame_parameters(data).dict_id == 7
    both = pinyon.Compression(threshold=10, dictionaries={7: old, 8: new})
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, compression=both) as client:
        assert client.get("key") == value
        client.set("key", value)
        assert client.get("key") == value
    assert zstandard.get_frame_parameters(stored(server, "key")[1]).dict_id == 8
    reading = pinyon.Compression(threshold=None, dictionaries={8: new})
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, compression=reading) as client:
        assert client.get("key") == value
    with (
        pinyon.Client(server.address, timeout=10, connect_timeout=10) as client,
        pytest.raises(pinyon.UndecodableValue, match=r"dictionary 8.*dictionaries of the setting compression"),
    ):
        client.get("key")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"compression": "lz4"}, 'no "lz4"; there are "zstd", "zlib", "gzip"'),
        ({"compression": 5}, "an algorithm's name or a pinyon.Compression, not int"),
        ({"compression": pinyon.Compression("zlib", level=10)}, "levels 1 to 9, not 10"),
        ({"compression": pinyon.Compression("zstd", level=20)}, "levels 1 to 19, not 20"),
        ({"compression": pinyon.Compression(minimum_gain=1)}, "minimum_gain"),
        ({"compression": pinyon.Compression(minimum_gain=math.nan)}, "minimum_gain"),
        ({"compression": pinyon.Compression("zlib", dictionaries={7: dictionary(7)})}, "zlib has none"),
        ({"compression": pinyon.Compression(dictionaries={8: dictionary(7)})}, "has the id 7"),
        ({"compression": pinyon.Compression(dictionaries={8: b"no dictionary"})}, "no id in it"),
        ({"max_decompressed_size": 0}, "max_decompressed_size must be at least 1"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
def test_settings_that_make_no_sense_say_why(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(pinyon.UsageError, match=why):
        pinyon.Client("127.0.0.1:1", **settings)


def test_a_threshold_below_nothing_is_refused() -> None:
    with pytest.raises(pinyon.UsageError, match="threshold"):
        pinyon.Compression(threshold=-1)
    assert "threshold=1024" in repr(pinyon.Compression("zstd"))


@pytest.mark.parametrize("serializer", ["raw", "pickle", "json"])
def test_every_serializer_has_its_values_compressed(server: Memcached, serializer: str) -> None:
    value = LONG.encode() if serializer == "raw" else {"value": LONG}
    with pinyon.Client(
        server.address, timeout=10, connect_timeout=10, serializer=serializer, compression="zlib"
    ) as client:
        client.set("key", value)
        assert client.get("key") == value
    assert stored(server, "key")[0] & COMPRESSED
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=serializer) as client:
        assert client.get("key") == value


class Own:
    """A user's serializer, which defines all its flags."""

    def dump(self, value: Any) -> tuple[bytes, int]:
        return value, COMPRESSED | 7 if value == b"marked" else 7

    def load(self, data: bytes, flags: int) -> Any:
        return data, flags


def test_a_serializer_of_the_users_has_all_flags_but_the_mark_where_compression_is_asked_for(server: Memcached) -> None:
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Own()) as client:
        client.set("key", b"marked")
        assert client.get("key") == (b"marked", COMPRESSED | 7)
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Own(), compression=True) as client:
        client.set("key", LONG.encode())
        assert client.get("key") == (LONG.encode(), 7)
        with pytest.raises(pinyon.UnsupportedType, match="8192"):
            client.set("key", b"marked")
        assert client.get("key") == (LONG.encode(), 7)


def test_threads_compress_at_the_same_time(server: Memcached) -> None:
    values = {f"key:{number}": random.Random(number).randbytes(100_000).hex() for number in range(8)}
    wrong: list[str] = []
    with pinyon.Client(server.address, timeout=30, connect_timeout=30, compression=True) as client:

        def work(key: str) -> None:
            for _ in range(5):
                client.set(key, values[key])
                if client.get(key) != values[key]:
                    wrong.append(key)

        threads = [threading.Thread(target=work, args=(key,)) for key in values]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_the_mark_is_documented() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "compression.md").read_text()
    assert str(COMPRESSED) in page


def test_other_threads_run_while_a_large_value_is_compressed(server: Memcached) -> None:
    large = random.Random(1).randbytes(3_000_000).hex()
    turns, over = 0, False

    def count() -> None:
        nonlocal turns
        while not over:
            time.sleep(0.0005)  # it gives up the GIL, and takes it again where it can be had
            turns += 1

    thread = threading.Thread(target=count)
    with pinyon.Client(
        server.address, timeout=10, connect_timeout=10, compression=pinyon.Compression("zlib", level=9)
    ) as client:
        thread.start()
        try:
            before = turns
            # Values too large for the server are refused before any wait.
            with pytest.raises(pinyon.ValueTooLarge):
                client.set_many({"key": large})
            while_compressing = turns - before
        finally:
            over = True
            thread.join()
    assert while_compressing > 10
