"""The scenarios of memcached once more: the server that is healed is twemproxy, which takes classic text alone."""

from __future__ import annotations

import re

import pytest
from models import MODELS, Model
from playing import Scenarios, play_all
from servers import Twemproxy

#: Those that cannot pass, and why: one that is listed and passes fails the test.
NOT_PASSING = {
    r"^reading is tried again on another connection: .*": "detection costs one connection more, or `meta` is asked for",
    r"^the version is probed again on each connection$": "it asks for `meta` in the end",
    r"^(what follows|a batch after) a rest leaves on .*": "detection costs one connection more",
    r"^a version that cannot be read, where meta commands are asked for: .*": "twemproxy takes no meta commands",
}
#: Those that are not played, as they would wait for long.
NOT_PLAYED = {"protocol meta for a proxy whose version is its own": 'twemproxy takes nothing from `protocol="meta"`'}

NOWHERE = "127.0.0.1:1"


def behind_twemproxy(scenarios: Scenarios, model: Model) -> list[str]:
    return [
        name
        for name, scenario in scenarios.by_name.items()
        if scenario["protocol"] == "memcached"
        and "password" not in scenario["client"]
        and (model.cancels or not scenario["shared"])
        and name not in NOT_PLAYED
    ]


@pytest.mark.parametrize(
    "model", [each for each in MODELS if each.name in ("blocking", "asyncio")], ids=lambda model: model.name
)
def test_each_passes_that_classic_text_allows(model: Model, twemproxy: Twemproxy) -> None:
    real = {"memcached": twemproxy.address, "redis": NOWHERE, "memcached-login": NOWHERE, "redis-login": NOWHERE}
    with Scenarios(real) as scenarios:
        names = behind_twemproxy(scenarios, model)
        assert len(names) > 400
        outcomes = model.run(play_all(model, scenarios, names))
    failed = {name: error for name, error in outcomes.items() if error is not None}
    expected = {name for name in names if any(re.search(words, name) for words in NOT_PASSING)}
    assert failed.keys() == expected, {name: error for name, error in failed.items() if name not in expected}
