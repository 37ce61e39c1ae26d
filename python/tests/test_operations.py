"""Every method's contract on a real server, under all conditions of use."""

from __future__ import annotations

import pytest
from conftest import Setting

import pinyon

INTEGER_LIMIT = 2**64


def test_a_stored_value_comes_back(setting: Setting) -> None:
    assert setting.client.set("key", "value") is True
    assert setting.client.get("key") == "value"


def test_a_missing_key_is_none_or_the_default(setting: Setting) -> None:
    default = object()
    assert setting.client.get("missing") is None
    assert setting.client.get("missing", default) is default
    setting.client.set("there", b"")
    assert setting.client.get("there", default) == b""


def test_none_is_a_value_of_its_own(setting: Setting) -> None:
    setting.client.set("nothing", None)
    assert setting.client.get("nothing", "default") is None
    assert setting.client.get_many(["nothing", "missing"]) == {"nothing": None}


def test_text_and_bytes_name_the_same_key(setting: Setting) -> None:
    setting.client.set("ключ", 1)
    assert setting.client.get("ключ".encode()) == 1
    assert setting.client.get_many([b"\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87"]) == {"ключ".encode(): 1}


def test_gets_returns_a_token_that_changes_with_the_item(setting: Setting) -> None:
    assert setting.client.gets("key") is None
    setting.client.set("key", "first")
    value, token = setting.client.gets("key")
    assert value == "first"
    assert setting.client.gets("key") == ("first", token)
    setting.client.set("key", "second")
    assert setting.client.gets("key")[1] != token


def test_gets_many_returns_the_tokens_of_gets(setting: Setting) -> None:
    values = {f"key:{number}": number for number in range(300)} | {"ключ": "text", b"large": b"x" * 100_000}
    setting.client.set_many(values)
    assert setting.client.gets_many([*values, "missing"]) == {key: setting.client.gets(key) for key in values}
    _, token = setting.client.gets_many(["key:1"])["key:1"]
    assert setting.client.cas("key:1", "changed", token) is True
    assert setting.client.cas("key:1", "late", token) is False


def test_cas_stores_only_over_the_item_it_knows(setting: Setting) -> None:
    assert setting.client.cas("key", "value", 1) is None
    setting.client.set("key", "first")
    _, token = setting.client.gets("key")
    assert setting.client.cas("key", "second", token, ttl=60) is True
    assert setting.client.cas("key", "third", token) is False
    assert setting.client.get("key") == "second"
    setting.client.delete("key")
    assert setting.client.cas("key", "fourth", token) is None
    assert setting.client.get("key") is None


def test_add_stores_only_what_is_missing(setting: Setting) -> None:
    assert setting.client.add("key", "first", ttl=60) is True
    assert setting.client.add("key", "second") is False
    assert setting.client.get("key") == "first"


def test_replace_stores_only_over_what_is_there(setting: Setting) -> None:
    assert setting.client.replace("key", "first") is False
    assert setting.client.get("key") is None
    setting.client.set("key", "second")
    assert setting.client.replace("key", b"third", ttl=60) is True
    assert setting.client.get("key") == b"third"


def test_append_and_prepend_extend_a_value(setting: Setting) -> None:
    assert setting.client.append("key", "!") is False
    assert setting.client.prepend("key", "!") is False
    assert setting.client.get("key") is None
    setting.client.set("key", "middle")
    assert setting.client.append("key", " end") is True
    assert setting.client.prepend("key", "begin ") is True
    assert setting.client.get("key") == "begin middle end"


def test_touch_and_gat_set_the_ttl(setting: Setting) -> None:
    assert setting.client.touch("key", 60) is False
    assert setting.client.gat("key", 60) is None
    setting.client.set("key", "value")
    assert setting.client.touch("key", 60) is True
    assert setting.client.gat("key", ttl=100) == "value"
    if not setting.classic:
        assert 90 <= setting.client.meta("key").ttl <= 100
    assert setting.client.touch("key", -1) is True
    assert setting.client.get("key") is None
    setting.client.set("key", "value")
    assert setting.client.gat("key", -1) == "value"
    assert setting.client.get("key") is None


def test_delete_says_whether_there_was_an_item(setting: Setting) -> None:
    assert setting.client.delete("key") is False
    setting.client.set("key", "value")
    assert setting.client.delete("key") is True
    assert setting.client.get("key") is None


def test_incr_and_decr_calculate(setting: Setting) -> None:
    assert setting.client.incr("count") is None
    assert setting.client.decr("count") is None
    assert setting.client.get("count") is None
    setting.client.set("count", 40)
    assert setting.client.incr("count") == 41
    assert setting.client.incr("count", 10) == 51
    assert setting.client.incr("count", delta=0) == 51
    assert setting.client.decr("count") == 50
    assert setting.client.decr("count", 45) == 5
    assert setting.client.get("count") == 5
    assert type(setting.client.get("count")) is int


def test_incr_wraps_and_decr_stops_at_zero(setting: Setting) -> None:
    setting.client.set("count", INTEGER_LIMIT - 1)
    assert setting.client.get("count") == INTEGER_LIMIT - 1
    assert setting.client.incr("count") == 0
    setting.client.set("count", 5)
    assert setting.client.incr("count", INTEGER_LIMIT - 1) == 4
    assert setting.client.decr("count", 100) == 0


def test_a_number_made_shorter_by_decr_is_read_back(setting: Setting) -> None:
    setting.client.set("count", 1000)
    assert setting.client.decr("count", 999) == 1
    assert setting.client.get("count") == 1
    assert setting.client.get_many(["count"]) == {"count": 1}


def test_incr_refuses_what_is_not_a_number(setting: Setting) -> None:
    setting.client.set("word", "word")
    with pytest.raises(pinyon.ServerError, match="non-numeric") as raised:
        setting.client.incr("word")
    assert raised.value.sent == "yes"
    assert raised.value.command == "incr"
    assert raised.value.server in setting.servers
    assert setting.client.get("word") == "word"


@pytest.mark.parametrize("delta", [-1, INTEGER_LIMIT])
def test_a_delta_out_of_range_names_the_other_direction(setting: Setting, delta: int) -> None:
    setting.client.set("count", 5)
    with pytest.raises(pinyon.UsageError, match="use decr"):
        setting.client.incr("count", delta)
    with pytest.raises(pinyon.UsageError, match="use incr"):
        setting.client.decr("count", delta)
    assert setting.client.get("count") == 5


def test_incr_creates_a_missing_item_with_its_initial_value(setting: Setting) -> None:
    assert setting.client.incr("count", 5, initial=7, ttl=100) == 7
    assert setting.client.get("count") == 7
    if not setting.classic:
        assert 90 <= setting.client.meta("count").ttl <= 100
    assert setting.client.incr("count", 5, initial=7) == 12
    assert setting.client.decr("countdown", initial=0) == 0
    assert setting.client.decr("other", initial=INTEGER_LIMIT - 1) == INTEGER_LIMIT - 1


def test_meta_describes_an_item_without_touching_it(setting: Setting) -> None:
    if setting.classic:
        with pytest.raises(pinyon.Unsupported, match=setting.why_unsupported):
            setting.client.meta("key")
        return
    assert setting.client.meta("key") is None
    setting.client.set("key", "four", ttl=100)
    described = setting.client.meta("key")
    assert isinstance(described, pinyon.ItemMetadata)
    assert (described.size, described.flags, described.fetched) == (4, 16, False)
    assert 90 <= described.ttl <= 100
    assert described.last_access <= 10
    assert setting.client.meta("key").fetched is False
    assert setting.client.cas("key", b"", described.cas) is True
    assert setting.client.meta("key").size == 0
    assert setting.client.meta("key").ttl is None
    setting.client.get("key")
    assert setting.client.meta("key").fetched is True


def test_many_values_are_stored_read_and_deleted(setting: Setting) -> None:
    values = {f"key:{number}": number for number in range(500)}
    assert setting.client.set_many(values, ttl=100) == []
    assert setting.client.get_many(values) == values
    assert setting.client.get("key:499") == 499
    assert setting.client.delete_many([*list(values)[:300], "missing"]) == 300
    assert setting.client.get_many(values) == {key: number for key, number in values.items() if number >= 300}


def test_many_items_are_touched(setting: Setting) -> None:
    values = {f"key:{number}": number for number in range(500)}
    setting.client.set_many(values)
    some = list(values)[:300]
    assert setting.client.touch_many([*some, "missing"], 100) == some
    assert setting.client.touch_many(some, -1) == some
    assert setting.client.get_many(values) == {key: number for key, number in values.items() if number >= 300}


def test_gat_many_sets_the_ttl_of_what_it_reads(setting: Setting) -> None:
    values = {f"key:{number}": number for number in range(500)}
    setting.client.set_many(values)
    some = {key: number for key, number in values.items() if number < 300}
    assert setting.client.gat_many([*some, "missing"], 100) == some
    if not setting.classic:
        assert 90 <= setting.client.meta("key:299").ttl <= 100
        assert setting.client.meta("key:300").ttl is None
    assert setting.client.gat_many(some, -1) == some
    assert setting.client.get_many(some) == {}
    assert setting.client.gat_many([], 1) == {}


def test_no_keys_at_all_are_no_work(setting: Setting) -> None:
    assert setting.client.get_many([]) == {}
    assert setting.client.set_many({}) == []
    assert setting.client.delete_many([]) == 0
    assert setting.client.touch_many([], 1) == []


def test_a_quiet_batch_does_all_it_was_told(setting: Setting) -> None:
    setting.client.set_many({"deleted": 1, "counted": 10, "replaced": 1, "extended": "b"})
    with setting.client.quiet() as batch:
        assert batch.set("set", "value", ttl=100) is None
        batch.add("added", "value", ttl=100)
        batch.replace("replaced", 2)
        batch.append("extended", "c")
        batch.prepend("extended", "a")
        batch.incr("counted", 5)
        batch.decr("counted")
        batch.delete("deleted")
    found = setting.client.get_many(["set", "added", "replaced", "extended", "counted", "deleted"])
    assert found == {"set": "value", "added": "value", "replaced": 2, "extended": "abc", "counted": 14}


def test_failures_of_a_quiet_batch_are_reported_and_the_rest_done(setting: Setting) -> None:
    setting.client.set("taken", 1)

    def run() -> None:
        with setting.client.quiet() as batch:
            batch.set("first", 1)
            batch.add("taken", 2)
            batch.replace("missing", 3)
            batch.delete("gone")
            batch.incr("absent")
            batch.set("last", 4)

    with pytest.raises(pinyon.BatchError) as raised:
        run()
    failures = {(failure.key, failure.command) for failure in raised.value.failures}
    assert failures == {("taken", "add"), ("missing", "replace"), ("gone", "delete"), ("absent", "incr")}
    assert all(failure.reason and failure.error is None for failure in raised.value.failures)
    assert setting.client.get_many(["first", "taken", "missing", "last"]) == {"first": 1, "taken": 1, "last": 4}


def test_flush_all_makes_all_servers_forget(setting: Setting) -> None:
    keys = [f"key:{number}" for number in range(100)]
    setting.client.set_many(dict.fromkeys(keys, 1))
    assert setting.client.flush_all() is None
    assert setting.client.get_many(keys) == {}


def test_version_and_stats_name_every_server(setting: Setting) -> None:
    assert setting.client.version() == dict.fromkeys(setting.servers, setting.version)
    for stats in (setting.client.stats(), setting.client.stats("settings")):
        assert list(stats) == setting.servers
    assert all(int(each["pid"]) > 0 for each in setting.client.stats().values())
    assert all("maxconns" in each for each in setting.client.stats("settings").values())
    setting.client.set("key", "value")
    assert any(each for each in setting.client.stats("items").values())


def test_a_namespace_stands_before_every_key(setting: Setting) -> None:
    setting.client.set_many({"one": 1, "two": 2})
    with pinyon.Client(setting.servers, timeout=10, connect_timeout=10) as plain:
        found = plain.get_many([f"{setting.namespace}one", f"{setting.namespace}two"])
    assert sorted(found.values()) == [1, 2]
    assert setting.client.get("one") == 1
