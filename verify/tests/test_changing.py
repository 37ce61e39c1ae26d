"""Checks of upgrades and downgrades: bad histories are found, good ones pass."""

from __future__ import annotations

from histories import evidence, fault, held, scan, waited
from test_checks import found
from test_sharing import reading

from pinyon_verify.locks.attempts import Attempt
from pinyon_verify.locks.checks import changing, liveness, sharing, tokens
from pinyon_verify.locks.evidence import Bounds
from pinyon_verify.locks.history import MILLISECOND as MS
from pinyon_verify.locks.observer import Scan, Seen


def changed(former: Attempt, at: int, attempt: Attempt) -> tuple[Attempt, Attempt]:
    """Return both: a lock, and what it became when it had asked at that time."""
    former.changing = former.changed = at * MS
    former.release_sent = former.released = former.kept = None
    attempt.former = former.id
    return former, waited(attempt, at)


def upgraded(token: int = 6) -> tuple[Attempt, Attempt]:
    return changed(reading(held("a", "x", 5, 10, 20), "x"), 20, held("b", "x", token, 30, 40))


def test_an_upgrade_has_a_higher_token_and_a_downgrade_the_same() -> None:
    assert found(evidence(*upgraded())) == {}
    assert [each.excuse for each in changing.tokens(evidence(*upgraded(token=5)))] == [None]
    downgraded = changed(held("a", "xy", 5, 10, 20), 20, reading(held("b", "xy", 5, 22, 40), "x"))
    assert found(evidence(*downgraded)) == {}, "it goes on with its token, also where it writes"
    downgraded[1].token = 6
    assert list(changing.tokens(evidence(*downgraded)))


def test_nobody_writes_between_a_lock_and_its_upgrade() -> None:
    between = held("c", "x", 6, 25, 28)
    assert set(found(evidence(*upgraded(token=7), between))) == {"change"}
    excused = evidence(*upgraded(token=7), between, faults=[fault("flush", 22, 23)])
    assert [each.excuse for each in changing.nobody_between(excused)] == ["the server lost its state"]
    assert not list(changing.nobody_between(evidence(*upgraded(token=7), reading(between, "x")))), "readers may come"


def test_nobody_reads_beside_an_upgrade() -> None:
    assert "exclusion" in found(evidence(*upgraded(), reading(held("c", "x", 5, 15, 35), "x")))
    assert found(evidence(*upgraded(), reading(held("c", "x", 5, 15, 29), "x"))) == {}


def test_of_two_upgrades_one_is_refused() -> None:
    def both(until: int, refuses: bool = True) -> int:
        readers = [reading(held(each, "x", 5, 10, 20), "x") for each in "ab"]
        waiting = [Attempt(f"{each.id}2", 1, each.names, 20 * MS, former=each.id) for each in readers]
        for each in waiting:
            each.given_up, each.timed_out = until * MS, True
        bounds = Bounds(refuses_upgrades=refuses)
        return len(list(changing.refused(evidence(*readers, *waiting, bounds=bounds))))

    assert both(5000) == 1
    assert both(2000) == 0, "perhaps there was no time to refuse it"
    assert both(5000, refuses=False) == 0, "clients without scripts wait for each other"


def test_whoever_upgrades_waits_for_other_readers_only() -> None:
    former, attempt = changed(reading(held("a", "x", 5, 10, 20), "x"), 20, held("b", "x", 6, 900, 910))
    assert [each.at for each in liveness.soon(evidence(former, attempt))] == [20 * MS]
    reader = reading(held("c", "x", 5, 15, 880), "x")
    assert not list(liveness.soon(evidence(former, attempt, reader)))


def test_the_server_may_have_changed_the_modes_before_the_client_knows() -> None:
    def kept(at: int) -> list[object]:
        former, attempt = changed(reading(held("a", "x", 5, 10, 20), "x"), 20, held("b", "x", 6, 40, 50))
        scans = [Scan(at * MS, at * MS, (Seen("z", "another", 1, 9),))]
        return list(sharing.parts_kept(evidence(former, attempt, scans=scans, looked_at=frozenset("xz"))))

    former, _ = upgraded()
    assert former.over == 20 * MS
    assert not kept(30)
    assert not kept(45), "a writer has no part"


def test_whoever_reads_on_has_asked_earlier() -> None:
    attempts = changed(reading(held("a", "xy", 5, 10, 20), "x"), 20, reading(held("b", "xy", 5, 30, 40), "xy"))
    other = reading(held("c", "x", 7, 12, 18), "x")
    assert not list(tokens.seen(evidence(*attempts, other)))


def test_an_upgraded_lock_ends_name_by_name() -> None:
    attempt = reading(held("a", "xy", 1, 10, 20, believed=17), "y")

    def parts(at: int, left: int) -> Scan:
        return Scan(
            at * MS, at * MS, (Seen("x", "A", None, left, is_part=True), Seen("y", "A", None, left, is_part=True))
        )

    def looks(left: int) -> list[Scan]:
        return [parts(11, left), scan(100, ("x", "A", 1, 300))]

    assert found(evidence(attempt, scans=looks(80))) == {}
    assert found(evidence(attempt, scans=looks(88))) == {}, "a look may come a moment after the end"
    assert found(evidence(attempt, scans=looks(200))) == {"all or nothing": [None]}
