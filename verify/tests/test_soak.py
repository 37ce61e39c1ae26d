"""The soak: its ledger's claims, the detection of wrong clients, and a few seconds in every concurrency model."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from pinyon_verify.cli import main
from pinyon_verify.soak.client import Looks
from pinyon_verify.soak.ledger import SIZES, Ledger, generation_of, value_of


def written(ledger: Ledger, times: int = 1) -> int:
    """Acknowledge so many generations one after another. Returns the last one."""
    for _ in range(times):
        generation = ledger.begin("key")
        ledger.acknowledge("key", generation)
    return generation


def test_each_generation_has_a_value_of_its_own() -> None:
    values = {value_of("key", generation) for generation in range(1, 3 * len(SIZES))}
    assert len(values) == 3 * len(SIZES) - 1
    assert all(generation_of("key", value_of("key", each)) == each for each in range(1, 40))


@pytest.mark.parametrize(
    "wrong", [value_of("other", 1), value_of("key", 1)[:-1], value_of("key", 1) + "b", b"key 1 ", 7]
)
@pytest.mark.parametrize("keys_stay", [True, False])
def test_anothers_value_and_a_torn_one_are_found(wrong: object, keys_stay: bool) -> None:
    ledger = Ledger(keys_stay)
    written(ledger)
    assert str(ledger.judge("key", wrong, 0)).startswith("identity")


def test_a_value_whose_write_was_never_begun_is_found() -> None:
    ledger = Ledger(keys_stay=False)
    written(ledger)
    assert str(ledger.judge("key", value_of("key", 2), 0)).startswith("future")


def test_a_value_that_had_ended_is_found_where_keys_stay() -> None:
    for keys_stay in (True, False):
        ledger = Ledger(keys_stay)
        written(ledger, 2)
        judged = ledger.judge("key", value_of("key", 1), ledger.mark("key"))
        assert str(judged).startswith("revival") if keys_stay else judged is None


def test_a_value_that_ends_while_it_is_read_is_right() -> None:
    ledger = Ledger(keys_stay=True)
    written(ledger)
    mark = ledger.mark("key")
    written(ledger)
    assert ledger.judge("key", value_of("key", 1), mark) is None


def test_of_writes_at_the_same_time_either_may_last() -> None:
    ledger = Ledger(keys_stay=True)
    first, second = ledger.begin("key"), ledger.begin("key")
    ledger.acknowledge("key", second)
    ledger.acknowledge("key", first)
    for generation in (first, second):
        assert ledger.judge("key", value_of("key", generation), ledger.mark("key")) is None


def test_what_was_never_acknowledged_may_come_at_any_time_and_what_was_refused_never() -> None:
    ledger = Ledger(keys_stay=True)
    doubtful, refused = ledger.begin("key"), ledger.begin("key")
    ledger.refuse("key", refused, "for a reason")
    written(ledger, 3)
    mark = ledger.mark("key")
    assert ledger.judge("key", value_of("key", doubtful), mark) is None
    assert str(ledger.judge("key", value_of("key", refused), mark)).startswith("revival")


def test_an_operation_hangs_if_it_is_the_same_at_every_look() -> None:
    hangs, works, waits = (SimpleNamespace(number=number, busy=("get", 0.0)) for number in range(3))
    looks, waits.busy = Looks(), None
    for _ in range(Looks.MOST):
        works.busy = ("set", time.monotonic())
        assert looks.hanging([works, waits, hangs]) is None
    assert looks.hanging([works, waits, hangs]) == (hangs.number, "get")


def test_a_few_seconds_of_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", "--quick"]) == 0, capsys.readouterr().out


def test_wrong_clients_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", "--sabotage"]) == 0, capsys.readouterr().out
