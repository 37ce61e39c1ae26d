"""Every scenario of ``scenarios/`` in every concurrency model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from models import MODELS, Model
from playing import Outcomes, Scenarios, play_all, written
from servers import GuardedMemcached, Memcached, Redis

#: uvloop stops watching a connection that was reset with unread bytes, and reports nothing. Only the deadline ends
#: these.
UNNOTICED = ("a reply that ends with a reset: 2", "a reply that ends with a reset: 16")
UNNOTICED += ("one wrong connection costs no lock: resets", "classic text behind a proxy: a proxy resets")


def marks(model: Model, name: str) -> list[pytest.MarkDecorator]:
    if model.name == "uvloop" and name in UNNOTICED:
        return [pytest.mark.xfail(run=False, reason="uvloop does not tell of resets behind unread bytes")]
    return []


CASES = [
    pytest.param(model, name, id=f"{model.name}-{name}", marks=marks(model, name))
    for name, shared in written()
    for model in MODELS
    if model.cancels or not shared
]


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest,
    memcached: Memcached,
    redis_of_all: Redis,
    guarded_memcached: GuardedMemcached,
    guarded_redis: Redis,
) -> Callable[[Model], Outcomes]:
    """The outcomes of a model's scenarios. All selected scenarios are played as soon as the first one is needed."""
    real = {
        "memcached": memcached.address,
        "redis": redis_of_all.address,
        "memcached-login": guarded_memcached.address,
        "redis-login": guarded_redis.address,
    }
    played: dict[str, Outcomes] = {}

    def of(model: Model) -> Outcomes:
        if model.name not in played:
            played[model.name] = {}  # if that fails as a whole, it is not begun again
            memcached.flush()
            redis_of_all.ask("FLUSHALL")
            with Scenarios(real) as scenarios:
                played[model.name] = model.run(play_all(model, scenarios, to_be_tested(request.session, model)))
        return played[model.name]

    return of


def to_be_tested(session: pytest.Session, model: Model) -> list[str]:
    """The names of a model's scenarios in this test run."""
    items = [item for item in session.items if isinstance(item, pytest.Function) and item.function is test_scenario]
    cases = [item.callspec.params for item in items if item.get_closest_marker("xfail") is None]
    return [case["name"] for case in cases if case["model"] is model]


@pytest.mark.parametrize(("model", "name"), CASES)
def test_scenario(model: Model, name: str, outcomes: Callable[[Model], Outcomes]) -> None:
    error = outcomes(model)[name]
    if error is not None:
        raise error
