"""Pinyon's own values, compared with the vectors for every language and with the libraries that wrote them earlier."""

from __future__ import annotations

import datetime
import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import Memcached
from test_compression import Verbatim
from test_values import JSON_SCALARS, KEYS, SCALARS, nested, same

import pinyon
from pinyon.serializers import Json, Portable

REPOSITORY = Path(__file__).resolve().parents[2]
VECTORS = json.loads((REPOSITORY / "vectors" / "portable.json").read_text())
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
SERIALIZERS = ["portable", "json"]


def value_of(typed: list[Any]) -> Any:
    """A vector's value, from its type and content."""
    kind, what = typed[0], typed[1] if len(typed) > 1 else None
    if kind == "list":
        return [value_of(item) for item in what]
    if kind == "map":
        return {value_of(key): value_of(item) for key, item in what}
    if kind == "instant":
        seconds, nanoseconds = map(int, what.split("."))
        return EPOCH + datetime.timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    scalars = {
        "null": lambda what: None,
        "bool": bool,
        "integer": int,
        "float": float,
        "text": str,
        "bytes_hex": bytes.fromhex,
        "date_time": datetime.datetime.fromisoformat,
    }
    return scalars[kind](what)


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    if isinstance(one, datetime.datetime) and one.utcoffset() != other.utcoffset():
        return False
    return same(one, other) and repr(one) == repr(other)


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_what_is_stored_and_read_is_what_the_vectors_say(server: Memcached, serializer: str) -> None:
    with (
        pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=serializer) as client,
        pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Verbatim()) as raw,
    ):
        for vector in VECTORS["values"]:
            value, stored = value_of(vector["value"]), vector[serializer]
            if stored is None:
                with pytest.raises(pinyon.UnsupportedType):
                    client.set("key", value)
                continue
            client.set("key", value)
            flags, data = raw.get("key")
            assert (flags, data.hex()) == (stored["flags"], stored["data_hex"]), vector["name"]
            assert is_same(client.get("key"), value), vector["name"]


@pytest.mark.parametrize("kind", ["read", "malformed"])
def test_what_others_stored_is_read_or_an_error(server: Memcached, kind: str) -> None:
    with (
        pinyon.Client(server.address, timeout=10, connect_timeout=10) as portable,
        pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer="json") as reads_json,
        pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=Verbatim()) as raw,
    ):
        for vector in VECTORS[kind]:
            raw.set("key", (vector["flags"], bytes.fromhex(vector["data_hex"])))
            client = reads_json if vector["flags"] == 512 else portable
            if kind == "read":
                assert is_same(client.get("key"), value_of(vector["value"])), vector["name"]
                continue
            with pytest.raises(pinyon.UndecodableValue):
                client.get("key")


DATETIMES = st.datetimes() | st.datetimes(timezones=st.just(datetime.timezone.utc))


@given(value=nested(SCALARS | DATETIMES, KEYS | DATETIMES))
def test_messagepack_is_what_msgpack_writes(value: Any) -> None:
    def other(value: datetime.datetime) -> Any:
        naive = value.tzinfo is None
        return msgpack.ExtType(1, value.isoformat().encode()) if naive else msgpack.Timestamp.from_datetime(value)

    data, _ = Portable().dump(value)
    assert data == msgpack.packb(value, default=other)
    assert same(Portable().load(data, 256), value)


@given(value=nested(JSON_SCALARS | st.floats(), st.text()))
def test_json_is_what_python_writes(value: Any) -> None:
    data, _ = Json().dump(value)
    assert data == json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    assert repr(Json().load(data, 512)) == repr(value)


@given(value=nested(JSON_SCALARS | st.floats(), st.text()), indent=st.sampled_from([None, 1]))
def test_json_is_read_as_python_reads_it(value: Any, indent: int | None) -> None:
    data = json.dumps(value, indent=indent).encode()
    assert repr(Json().load(data, 512)) == repr(value)


@given(text=st.text(st.characters(min_codepoint=0xD7FE, max_codepoint=0xE001, exclude_categories=[])))
def test_half_a_surrogate_pair_in_json_is_read(text: str) -> None:
    data = json.dumps([text]).encode()
    assert Json().load(data, 512) == json.loads(data)


@pytest.mark.parametrize("changing", [[], {}], ids=["list", "dict"])
def test_what_changes_while_it_is_written_is_no_crash(changing: Any) -> None:
    class Meddler(datetime.tzinfo):
        def utcoffset(self, _: datetime.datetime | None) -> datetime.timedelta:
            changing.clear()
            return datetime.timedelta(0)

    now = datetime.datetime(2024, 1, 1, tzinfo=Meddler())
    if isinstance(changing, dict):
        changing.update({"now": now, "then": 1})
    else:
        changing.extend([now, "then"])
    data, _ = Portable().dump(changing)
    assert not changing
    written = Portable().load(data, 256)
    assert len(written) == 2
    assert "then" in written


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo builds the program")
@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_values_are_exchanged_with_a_program_in_rust(server: Memcached, serializer: str) -> None:
    build = ["cargo", "build", "-q", "--locked", "-p", "pinyon-cache", "--example", "values"]
    subprocess.run(build, cwd=REPOSITORY, check=True)
    values = {vector["name"]: value_of(vector["value"]) for vector in VECTORS["values"] if vector[serializer]}
    with pinyon.Client(server.address, timeout=10, connect_timeout=10, serializer=serializer) as client:
        client.set_many({f"python:{name}": value for name, value in values.items()})
        program = REPOSITORY / "target" / "debug" / "examples" / "values"
        subprocess.run([program, server.address, serializer], check=True, timeout=150)
        read = client.get_many([f"rust:{name}" for name in values])
    assert len(read) == len(values)
    for name, value in values.items():
        assert is_same(read[f"rust:{name}"], value), name
