"""The scenarios of memcached once more: the server that is healed is twemproxy, which takes classic text alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from models import MODELS, Model
from playing import Outcomes, Played, Scenarios, play_all, written
from servers import Twemproxy

#: Those that cannot pass, and why: one that is listed and passes fails.
NOT_PASSING = {
    r"^reading is tried again on another connection: .*": "detection costs one connection more, or `meta` is asked for",
    r"^the version is probed again on each connection$": "it asks for `meta` in the end",
    r"^(what follows|a batch after) a rest leaves on .*": "detection costs one connection more",
    r"^a version that cannot be read, where meta commands are asked for: .*": "twemproxy takes no meta commands",
}
#: Those that are not played, as they would wait for long.
NOT_PLAYED = {"protocol meta for a proxy whose version is its own": 'twemproxy takes nothing from `protocol="meta"`'}

NOWHERE = "127.0.0.1:1"


def is_played(model: Model, name: str, scenario: dict[str, Any]) -> bool:
    return (
        scenario["protocol"] == "memcached"
        and "password" not in scenario["client"]
        and (model.cancels or not scenario["shared"])
        and name not in NOT_PLAYED
    )


def marks(name: str) -> list[pytest.MarkDecorator]:
    reasons = [reason for words, reason in NOT_PASSING.items() if re.search(words, name)]
    return [pytest.mark.xfail(reason=reason, strict=True) for reason in reasons]


PLAYED = [model for model in MODELS if model.name in ("blocking", "asyncio")]
CASES = [
    pytest.param(model, name, id=f"{model.name}-{name}", marks=marks(name))
    for name, scenario in written().items()
    for model in PLAYED
    if is_played(model, name, scenario)
]


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, twemproxy_of_all: Twemproxy) -> Played:
    real = {
        **dict.fromkeys(("redis", "memcached-login", "redis-login"), NOWHERE),
        "memcached": twemproxy_of_all.address,
    }

    def play(model: Model, names: list[str]) -> Outcomes:
        for server in twemproxy_of_all.pools[0].servers:
            server.flush()
        with Scenarios(real) as scenarios:
            return model.run(play_all(model, scenarios, names))

    return Played(request.session, test_scenario, play)


def test_what_does_not_pass_is_written() -> None:
    names = {name for name in written() if marks(name)}
    assert all(any(re.search(words, name) for name in names) for words in NOT_PASSING)
    assert NOT_PLAYED.keys() <= written().keys()


@pytest.mark.parametrize("model", PLAYED, ids=lambda model: model.name)
def test_most_are_played(model: Model) -> None:
    assert sum(is_played(model, name, scenario) for name, scenario in written().items()) > 400


@pytest.mark.parametrize(("model", "name"), CASES)
def test_scenario(model: Model, name: str, played: Played) -> None:
    played.check(model, name)
