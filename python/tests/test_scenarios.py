"""Every scenario of ``scenarios/`` in every concurrency model."""

from __future__ import annotations

import pytest
from models import MODELS, Model
from playing import Outcomes, Played, Scenarios, play_all, written
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
    for name, scenario in written().items()
    for model in MODELS
    if model.cancels or not scenario["shared"]
]


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest,
    memcached: Memcached,
    redis_of_all: Redis,
    guarded_memcached: GuardedMemcached,
    guarded_redis: Redis,
) -> Played:
    real = {
        "memcached": memcached.address,
        "redis": redis_of_all.address,
        "memcached-login": guarded_memcached.address,
        "redis-login": guarded_redis.address,
    }

    def play(model: Model, names: list[str]) -> Outcomes:
        memcached.flush()
        redis_of_all.ask("FLUSHALL")
        with Scenarios(real) as scenarios:
            return model.run(play_all(model, scenarios, names))

    return Played(request.session, test_scenario, play)


@pytest.mark.parametrize(("model", "name"), CASES)
def test_scenario(model: Model, name: str, played: Played) -> None:
    played.check(model, name)
