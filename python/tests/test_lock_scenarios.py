"""Every scenario of ``scenarios/locks.json`` in every concurrency model, on a real server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import pytest
from lock_playing import SCENARIOS, play_all
from models import MODELS, Model
from servers import Redis

Outcomes = dict[str, Optional[Exception]]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, redis_of_all: Redis) -> Callable[[Model], Outcomes]:
    """The outcomes of a model's scenarios. All selected scenarios are played as soon as the first one is needed."""
    played: dict[str, Outcomes] = {}

    def of(model: Model) -> Outcomes:
        if model.name not in played:
            played[model.name] = {}  # if that fails as a whole, it is not begun again
            redis_of_all.ask("FLUSHALL")
            items = [item for item in request.session.items if isinstance(item, pytest.Function)]
            cases = [item.callspec.params for item in items if item.function is test_scenario]
            names = [case["name"] for case in cases if case["model"] is model]
            played[model.name] = model.run(play_all(model, redis_of_all.url, names))
        return played[model.name]

    return of


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_scenario(model: Model, name: str, outcomes: Callable[[Model], Outcomes]) -> None:
    error = outcomes(model)[name]
    if error is not None:
        raise error
