from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from asking import done

from pinyon_bench.calls import Calls
from pinyon_bench.checks import Counts, expected_counts
from pinyon_bench.contestant import ContestantError
from pinyon_bench.harness import answer, do_steps
from pinyon_bench.playing import CacheModel
from pinyon_bench.protocol import Kind, ProtocolError, decode, encode, value_of
from pinyon_bench.step_rows import seed_rows, step_rows


class Dictionary:
    """A client with a dict in its own process as its cache."""

    def __init__(self, broken: bool = False) -> None:
        self._items: dict[str, Any] = {}
        self._broken = broken

    version, configuration = "1", "none"

    def connect(self, servers: list[str], kind: Kind, quiet: bool) -> Calls:
        return Calls(get=self._get, set=self._set, close=lambda: None, get_many=self._get_many)

    def _get(self, key: str) -> Any:
        return None if self._broken else self._items.get(key)

    def _set(self, key: str, value: Any) -> bool:
        self._items[key] = value
        return True

    def _get_many(self, keys: list[str]) -> dict[str, Any]:
        return {key: self._items[key] for key in keys if key in self._items}


def ask(adapter: Dictionary, do: str, name: str) -> dict[str, Any]:
    row = next(row for row in step_rows() if row.name == name)
    return done(partial(answer, partial(do_steps, adapter)), do, row.spec(["nowhere:1"], 3))


def test_a_message_is_one_line() -> None:
    message = {"do": "verify", "text": "two\nlines"}
    assert encode(message).count(b"\n") == 1
    assert decode(encode(message)) == message


@pytest.mark.parametrize("line", [b"", b"nonsense\n", b"[]\n"])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(line)


def test_values() -> None:
    assert value_of("bytes", 0, "\x04\x08[\x00") == b"\x04\x08[\x00"
    assert value_of("bytes", 5, "abc") == b"abcab"
    assert value_of("object", 0, "") == []


def test_a_right_client_is_verified_and_timed() -> None:
    for name in ("set:plain", "get:object", "multiget", "get:10KB"):
        assert ask(Dictionary(), "verify", name) == {"ok": True}
        assert set(ask(Dictionary(), "time", name)) == {"ok", "wall", "user", "system", "latency"}


def test_a_wrong_client_is_found() -> None:
    reply = ask(Dictionary(broken=True), "verify", "get:plain")
    assert not reply["ok"] and "answered None" in reply["reason"]


def test_a_missing_operation_is_said() -> None:
    assert ask(Dictionary(), "verify", "missing") == {"ok": False, "cannot": True, "reason": "no delete"}


def test_the_model_counts() -> None:
    row = next(row for row in seed_rows() if row.name == "incr").spec(["nowhere:1"], 2)
    model = CacheModel(row)
    for step, reply in ((["incr_or_create", "n", 1, 1], 1), (["incr_or_create", "n", 1, 1], 2), (["decr", "n", 1], 1)):
        model.check(step, reply)
    with pytest.raises(ContestantError):
        model.check(["decr", "n", 1], 1)


def test_seed_rows_have_the_seeds_operations() -> None:
    wanted = [15_000, 15_000, 15_000, 15_000, 15_000, 2_500, 15_000, 30_000, 37_500, 5_000]
    assert [2500 * row.operations for row in seed_rows()] == wanted


def test_what_servers_must_count() -> None:
    rows = {row.name: row for row in step_rows()}
    counts = expected_counts(rows["mixedq"].spec(["nowhere:1"], 10))
    assert counts == Counts(gets=60, sets=83, deletes=10, evictions=0)
    assert not counts.differ_from(rows["mixedq"].spec(["nowhere:1"], 10))
    assert "60 gets instead of 66" in counts.differ_from(rows["mixedq"].spec(["nowhere:1"], 11))
