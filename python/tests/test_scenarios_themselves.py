"""Scenarios can fail: wrong expectations are noticed, and so are wrong clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from expand import load
from models import BLOCKING, Awaited, Model, drive, every_model
from playing import Scenarios, play, play_all
from servers import Memcached, Redis

HIT = "VA 5 f16 O{opaque}\r\nvalue\r\n"
GET = {"call": ["get", "key"]}

#: Failing scenarios, by reason.
FAILING: dict[str, dict[str, Any]] = {
    "returned 'value'": {"steps": [HIT], "calls": [{**GET, "returns": "another"}]},
    "'raises': 'Timeout'} returned": {"steps": [HIT], "calls": [{**GET, "raises": "Timeout"}]},
    "raised ConnectionLost": {"steps": [{"then": "close"}], "calls": [{**GET, "raises": "Timeout"}]},
    "has sent=maybe": {"steps": [{"then": "close"}], "calls": [{**GET, "raises": "ConnectionLost", "sent": "no"}]},
    "'says': 'nonsense'} raised": {
        "steps": [{"then": "close"}],
        "calls": [{**GET, "raises": "ConnectionLost", "says": "nonsense"}],
    },
    "'value' was handed out": {"steps": [HIT], "calls": [GET], "never": ["value"]},
    "'connections': 1": {"steps": [HIT], "calls": [GET], "after": {"connections": 2}},
    "was not to be sent": {"steps": [HIT], "calls": [GET], "after": {"requests": ["^version$"]}},
    "does not match its step": {
        "steps": [{"match": "^ms", "send": HIT}],
        "calls": [{**GET, "may_raise": ["ConnectionLost"]}],
    },
    "the password is in": {
        "client": {"username": "app", "password": "closed"},
        "answers": {"^set ": "STORED\r\n"},
        "steps": [{"then": "close"}],
        "calls": [{**GET, "raises": "ConnectionLost"}],
    },
    "['value', None]": {"steps": [HIT], "calls": [{"call": ["get_many", ["key"]], "returns": ["value", None]}]},
}


def write(path: Path, scenario: dict[str, Any]) -> str:
    file = {
        "protocol": "memcached",
        "answers": {"^version$": "VERSION 1.6.18\r\n"},
        "client": {"timeout": 60, "connect_timeout": 60},
        "scenarios": [{"name": "it", **scenario}],
    }
    path.write_text(json.dumps(file))
    return str(path)


@pytest.mark.parametrize("why", FAILING)
def test_what_is_not_as_it_must_be_is_noticed(why: str, memcached: Memcached, redis: Redis, tmp_path: Path) -> None:
    path = write(tmp_path / "it.json", FAILING[why])
    with (
        Scenarios({"memcached": memcached.address, "redis": redis.address}, [path]) as scenarios,
        pytest.raises(AssertionError) as raised,
    ):
        drive(play(BLOCKING, scenarios, "it"))
    assert why in str(raised.value)


@every_model
def test_what_is_played_together_has_an_outcome_each(
    model: Model, memcached: Memcached, redis: Redis, tmp_path: Path
) -> None:
    each = {"each": {"it": ["value", "another"]}, "steps": [HIT], "calls": [{**GET, "returns": "@it"}]}
    path = write(tmp_path / "it.json", each)
    with Scenarios({"memcached": memcached.address, "redis": redis.address}, [path]) as scenarios:
        outcomes = model.run(play_all(model, scenarios, [*scenarios.by_name]))
    assert outcomes.pop("it: 'value'") is None
    assert "returned 'value'" in str(outcomes.pop("it: 'another'"))
    assert not outcomes


class Careless:
    """A client that returns the last value it read when it cannot read."""

    def __init__(self, client: Awaited) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    async def get(self, key: str) -> Any:
        try:
            return await self.client.get(key)
        except Exception:
            return "wrong"


@pytest.mark.parametrize("name", ["a wrong reply to a get: 'MN\\r\\n'", "a late reply reaches no later caller"])
def test_a_client_that_is_wrong_is_noticed(
    name: str, memcached: Memcached, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = BLOCKING.client
    monkeypatch.setattr(BLOCKING, "client", lambda *place, **settings: Careless(connected(*place, **settings)))
    with (
        Scenarios({"memcached": memcached.address, "redis": redis.address}) as scenarios,
        pytest.raises(AssertionError, match="'wrong' was handed out"),
    ):
        drive(play(BLOCKING, scenarios, name))


@pytest.mark.parametrize("mistake", [{"stops": []}, {"steps": [{"then": "explode"}]}, {"steps": [{"sends": ""}]}])
def test_a_file_that_makes_no_sense_is_refused(mistake: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError)):
        load([write(tmp_path / "it.json", {"calls": [], **mistake})])
