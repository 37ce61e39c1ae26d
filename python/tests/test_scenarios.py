"""Every scenario of ``scenarios/``, through every concurrency model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from models import MODELS, Model
from playing import Scenarios, play, written
from servers import Memcached, Redis

#: uvloop stops watching a connection that was reset while bytes of it were unread, and tells nobody: the deadline does.
UNNOTICED = ("a reply that ends with a reset: 2", "a reply that ends with a reset: 16")
UNNOTICED += ("one wrong connection costs no lock: resets",)


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
def played(memcached: Memcached, redis_of_all: Redis) -> Iterator[Callable[[Model], Scenarios]]:
    """The scripted server of each model."""
    started: dict[str, Scenarios] = {}

    def of(model: Model) -> Scenarios:
        if model.name not in started:
            started[model.name] = Scenarios(memcached.address, redis_of_all.address)
        return started[model.name]

    yield of
    for scenarios in started.values():
        scenarios.__exit__()


@pytest.mark.parametrize(("model", "name"), CASES)
async def test_scenario(
    model: Model, name: str, played: Callable[[Model], Scenarios], server: Memcached, redis: Redis
) -> None:
    await play(model, played(model), name)
