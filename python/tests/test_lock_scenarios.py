"""Every scenario of ``scenarios/locks.json`` in every concurrency model, on a real server."""

from __future__ import annotations

import pytest
from lock_playing import SCENARIOS, play_all
from models import MODELS, Model
from playing import Outcomes, Played
from servers import Redis


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, redis_of_all: Redis) -> Played:
    def play(model: Model, names: list[str]) -> Outcomes:
        redis_of_all.ask("FLUSHALL")
        return model.run(play_all(model, redis_of_all.url, names))

    return Played(request.session, test_scenario, play)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_scenario(model: Model, name: str, played: Played) -> None:
    played.check(model, name)
