"""How long items live."""

from __future__ import annotations

import datetime
import time
from typing import Any, TypeVar

import pytest
from conftest import eventually
from servers import Memcached
from waiting import wait_until

import pinyon

T = TypeVar("T")
DAY = 24 * 60 * 60

#: The last second of memcached's clock: in 2038.
LAST_SECOND = 2**31 - 1


def is_about(left: int | None, seconds: int, server: Memcached) -> bool:
    """Whether the remaining time matches the requested seconds. More than thirty days are sent as a time of day by our
    clock; if our clock is set, the server's is not.
    """
    apart = time.time() - server.clock() if seconds > 30 * DAY else 0
    return left is not None and seconds - 10 <= left - apart <= seconds + 5


class ExpiredError(pinyon.Error):
    """The second ended too soon: at the next tick of the server's clock."""


def there(found: T | None) -> T:
    if found is None:
        raise ExpiredError("an item has expired too early for this test")
    return found


@pytest.mark.parametrize(
    ("ttl", "seconds"),
    [
        (0, None),
        (0.0, None),
        (100, 100),
        (99.2, 100),
        (0.001, 1),
        (datetime.timedelta(minutes=2), 120),
        (datetime.timedelta(seconds=99, milliseconds=1), 100),
        (datetime.timedelta(0), None),
        (30 * DAY, 30 * DAY),
        (30 * DAY + 1, 30 * DAY + 1),
        (31 * DAY, 31 * DAY),
        (datetime.timedelta(days=365), 365 * DAY),
    ],
)
def test_a_ttl_is_seconds_rounded_up(client: pinyon.Client, server: Memcached, ttl: Any, seconds: int | None) -> None:
    def left() -> int | None:
        client.set("key", "value", ttl)
        return there(client.meta("key")).ttl

    if seconds is None:
        assert left() is None
    else:
        assert is_about(eventually(left), seconds, server)


def test_every_method_with_a_ttl_takes_more_than_thirty_days(client: pinyon.Client, server: Memcached) -> None:
    days = datetime.timedelta(days=40)
    client.set_many({"set_many": 1, "replace": 1, "cas": 1, "gat": 1, "touch": 1})
    client.set_many({"set_many": 1}, ttl=days)
    client.add("add", 1, ttl=days)
    client.replace("replace", 1, ttl=days)
    client.cas("cas", 1, client.gets("cas")[1], ttl=days)
    client.gat("gat", days)
    client.touch("touch", days)
    client.incr("incr", initial=1, ttl=days)
    with client.quiet() as batch:
        batch.set("batch", 1, ttl=days)
    for key in ("set_many", "add", "replace", "cas", "gat", "touch", "incr", "batch"):
        assert is_about(client.meta(key).ttl, 40 * DAY, server), key


@pytest.mark.parametrize("ttl", [-1, -0.5, -(2**62), datetime.timedelta(seconds=-1), datetime.timedelta(days=-400)])
def test_a_negative_ttl_has_expired_at_once(client: pinyon.Client, ttl: Any) -> None:
    client.set("key", "old")
    assert client.set("key", "new", ttl) is True
    assert client.get("key") is None


def test_items_expire(client: pinyon.Client) -> None:
    client.set("later", 2)

    def all_are_there() -> None:
        client.set("soon", 1)
        client.touch("soon", 1)
        client.set("rounded", 3, 0.2)
        found = client.get_many(["soon", "later", "rounded"])
        assert there(found if len(found) == 3 else None) == {"soon": 1, "later": 2, "rounded": 3}

    eventually(all_are_there)
    expire(client, "soon", "rounded")
    assert client.get("later") == 2


def expire(client: pinyon.Client, *keys: str) -> None:
    """Waits until items have expired, which a busy server may see late."""
    wait_until(lambda: not client.get_many(keys))


@pytest.mark.parametrize("ttl", [datetime.timedelta(days=20 * 365), 20 * 365 * DAY, 1e300, float("inf"), 2**70])
def test_a_ttl_beyond_the_servers_clock_lasts_as_long_as_that(
    server: Memcached, client: pinyon.Client, ttl: Any
) -> None:
    client.set_many({"touched": 1, "read": 1})
    client.set("set", 1, ttl)
    client.add("added", 1, ttl)
    client.set_many({"many": 1}, ttl)
    client.cas("many", 2, client.gets("many")[1], ttl)
    client.touch("touched", ttl)
    client.gat("read", ttl)
    client.incr("counted", initial=1, ttl=ttl)
    client.get_or_set("made", lambda: 1, ttl, stale=60)
    with client.quiet() as batch:
        batch.set("quiet", 1, ttl)
    with pinyon.Client(server.address, timeout=30, connect_timeout=30, default_ttl=1e12) as usual:
        usual.set("usual", 1)
    for key in ("set", "added", "many", "touched", "read", "counted", "made", "quiet", "usual"):
        item = client.meta(key)
        assert item is not None
        assert abs(server.clock() + (item.ttl or 0) - LAST_SECOND) < 60, key
    client.set("key", 1, -ttl)
    assert client.get("key") is None


@pytest.mark.parametrize("ttl", [None, "60", b"60", datetime.date(2030, 1, 1), [60], True])
def test_what_is_no_ttl_is_refused(client: pinyon.Client, ttl: Any) -> None:
    with pytest.raises(TypeError, match=type(ttl).__name__):
        client.set("key", "value", ttl=ttl)
    with pytest.raises(TypeError, match="seconds"):
        client.touch("key", ttl)
    with pytest.raises(TypeError, match="seconds"):
        client.set_many({"key": "value"}, ttl=ttl)
    assert client.get("key") is None


def test_none_is_answered_with_what_to_give_instead(client: pinyon.Client) -> None:
    with pytest.raises(TypeError, match="that never expires give 0"):
        client.set("key", "value", None)


def test_not_a_number_is_refused(client: pinyon.Client) -> None:
    with pytest.raises(ValueError, match="NaN"):
        client.set("key", "value", float("nan"))


def test_flush_all_can_be_delayed(own_server: Memcached) -> None:
    with pinyon.Client(own_server.address, timeout=10, connect_timeout=10) as client:
        client.set("key", "value")
        client.flush_all(delay=4)
        assert client.get("key") == "value"
        expire(client, "key")
