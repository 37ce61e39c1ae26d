"""Checks of readers, writers, permits, hand-overs, least times and rates: bad histories are found, good ones pass."""

from __future__ import annotations

import pytest
from histories import believed, evidence, fault, held, scan, step, waited
from test_checks import found

from pinyon_verify.locks.attempts import Attempt, Look
from pinyon_verify.locks.checks import exclusion, handing, liveness, order, rates, sharing, tokens
from pinyon_verify.locks.evidence import Evidence, Rated
from pinyon_verify.locks.history import MILLISECOND as MS
from pinyon_verify.locks.observer import Scan, Seen

POOL = "\0p"


def reading(attempt: Attempt, names: str) -> Attempt:
    attempt.read = frozenset(names)
    return attempt


def permitted(id: str, count: int, token: int, begun: int, ended: int, invoked: int = 0) -> Attempt:
    """An attempt that has permits of the pool p, and nothing else."""
    attempt = waited(held(id, "", token, begun, ended), invoked or begun)
    attempt.permits = {"p": count}
    return attempt


def limited(*attempts: Attempt, **more: object) -> Evidence:
    return evidence(*attempts, limit=2, **more)


def test_readers_are_inside_together_and_writers_are_not() -> None:
    readers = reading(held("a", "x", 5, 10, 30), "x"), reading(held("b", "x", 5, 15, 40), "x")
    assert found(evidence(held("w", "x", 5, 1, 9), *readers)) == {}
    assert found(evidence(*readers, held("w", "x", 6, 20, 50))) == {"exclusion": 2 * [None], "belief": 2 * [None]}


def test_who_reads_one_name_and_writes_another() -> None:
    first = reading(held("a", "xy", 5, 10, 30), "x")
    assert found(evidence(first, reading(held("b", "xz", 6, 15, 40), "x"))) == {}
    assert list(exclusion.sections(evidence(first, reading(held("b", "y", 6, 15, 40), "y"))))


def test_a_readers_token_is_that_of_the_last_writer_or_more() -> None:
    writer = held("w", "x", 5, 10, 20)
    assert found(evidence(writer, reading(held("a", "x", 5, 30, 40), "x"))) == {}
    assert set(found(evidence(writer, reading(held("a", "x", 4, 30, 40), "x")))) == {"tokens"}
    readers = reading(held("a", "x", 7, 30, 40), "x"), reading(held("b", "x", 6, 31, 40), "x")
    assert not list(tokens.increase(evidence(writer, *readers))), "readers may begin in another order"
    assert list(tokens.increase(evidence(*readers, held("w", "x", 7, 50, 60)))), (
        "a writer's is higher than any reader's"
    )


def test_who_asks_later_has_no_lower_token() -> None:
    first = permitted("a", 1, 9, 10, 20)
    assert not list(tokens.seen(limited(first, permitted("b", 1, 9, 30, 40))))
    assert [finding.excuse for finding in tokens.seen(limited(first, permitted("b", 1, 8, 30, 40)))] == [None]
    assert not list(tokens.seen(limited(first, permitted("b", 1, 8, 30, 40, invoked=9)))), "asked before"
    lost = limited(first, permitted("b", 1, 8, 30, 40), faults=[fault("flush", 25, 26)])
    assert [finding.excuse for finding in tokens.seen(lost)] == ["the server lost its state"]


def test_a_reader_sees_nothing_newer_than_its_token() -> None:
    reader = reading(held("a", "x", 5, 10, 40, believed=35), "x")
    reader.looks.append(Look("x", 5, 15 * MS, 16 * MS))
    assert not list(tokens.register(evidence(reader)))
    reader.looks.append(Look("x", 6, 20 * MS, 21 * MS))
    assert [finding.excuse for finding in tokens.register(evidence(reader))] == [None]
    assert not list(tokens.register(evidence(believed(reader, 20)))), "it knew better by then"


def test_never_more_permits_than_the_limit() -> None:
    one, two = permitted("a", 1, 1, 10, 30), permitted("b", 1, 1, 15, 40)
    assert found(limited(one, two)) == {}
    assert set(found(limited(one, two, permitted("c", 1, 1, 20, 25)))) == {"permits"}
    assert set(found(limited(one, permitted("c", 2, 1, 20, 25)))) == {"permits"}
    assert found(limited(one, permitted("c", 2, 1, 30, 35))) == {}


def test_permits_of_one_that_was_stopped_are_others_after_its_ttl() -> None:
    stopped = permitted("a", 2, 1, 10, 900)
    stopped.process = 5
    others = believed(stopped, 400), permitted("b", 1, 1, 410, 420)
    history = limited(*others, faults=[fault("stop", 50, 800, 5)])
    assert found(history) == {"permits": ["the earlier holder was stopped"]}
    believed(stopped, 415)
    assert None in found(history)["permits"]


def test_permits_that_the_server_gives() -> None:
    def joined(at: int, attempt: str, part: int, until: int) -> object:
        return step(at, "joined", attempt, until, POOL, part)

    two = [joined(10, "A", 1, 400), joined(10, "A", 2, 400)]
    assert not list(sharing.permits_on_server(limited(steps=two)))
    renewed = [*two, joined(200, "A", 1, 600), joined(200, "A", 2, 600)]
    assert not list(sharing.permits_on_server(limited(steps=renewed)))
    third = joined(300, "B", 1, 700)
    assert list(sharing.permits_on_server(limited(steps=[*two, third])))
    assert not list(sharing.permits_on_server(limited(steps=[*two, joined(401, "B", 1, 700)]))), "A's have ended"
    given_back = step(250, "left", "A", 0, POOL, 1)
    assert not list(sharing.permits_on_server(limited(steps=[*two, given_back, third])))
    assert not list(sharing.permits_on_server(limited(steps=[*two, step(250, "left", "", 0, POOL), third])))
    assert not list(sharing.permits_on_server(limited(steps=[*two, step(250, "reset", ""), third])))


def test_the_server_keeps_the_parts_of_those_who_believe_in_them() -> None:
    readers = reading(held("a", "x", 5, 10, 50), "x"), reading(held("b", "x", 5, 11, 60), "x")

    def seen(*attempts: str) -> Scan:
        parts = [Seen("x", attempt, None, 900, is_part=True) for attempt in attempts]
        return Scan(20 * MS, 20 * MS, (*parts, Seen("z", "another", 1, 9)))

    def kept(*attempts: str) -> list[str | None]:
        history = evidence(*readers, scans=[seen(*attempts)], looked_at=frozenset("xz"))
        return [finding.excuse for finding in sharing.parts_kept(history)]

    assert kept("c.1.0:1:1", "c.1.0:2:1") == []
    assert kept("c.1.0:1:1") == [None]
    assert kept("c.1.0:1:1", "c.2.0:2:1") == [None], "one is another process's"
    readers[1].release_sent = 15 * MS
    assert kept("c.1.0:1:1") == []


def test_all_parts_or_none() -> None:
    attempt = reading(held("a", "xy", 1, 10, 20, believed=17), "y")
    whole = Scan(15 * MS, 15 * MS, (Seen("x", "A", 1, 300), Seen("y", "A", None, 300, is_part=True)))
    part = scan(16, ("x", "A", 1, 299))
    assert found(evidence(attempt, scans=[whole])) == {}
    assert found(evidence(attempt, scans=[whole, part])) == {"all or nothing": [None]}


def waiting(attempt: str, ticket: int, name: str = "x", *, reads: bool = False) -> list[object]:
    known = [step(ticket, "known", attempt, 500), step(ticket, "queued", attempt, ticket, name)]
    return [*known, step(ticket, "reads", attempt, 0, name)] if reads else known


def test_readers_pass_readers_and_nobody_else() -> None:
    def overtaking(*steps: object) -> int:
        return len(list(order.first_come_first_served(evidence(steps=steps))))

    joined = step(20, "joined", "R", 400, "x")
    assert overtaking(*waiting("A", 1, reads=True), joined) == 0
    assert overtaking(*waiting("A", 1), joined) == 1, "a writer waits"
    assert overtaking(*waiting("A", 1), *waiting("R", 2, reads=True), joined) == 1
    assert overtaking(*waiting("R", 1, reads=True), *waiting("A", 2), joined) == 0
    assert overtaking(*waiting("A", 1, reads=True), step(20, "granted", "W", 3, "x")) == 1, "a writer passes a reader"
    assert overtaking(joined, *waiting("A", 1), step(25, "joined", "R", 600, "x")) == 0, "it was only renewed"


def test_who_wants_permits_is_not_passed_and_an_adoption_is_no_grant() -> None:
    joined = step(20, "joined", "R", 400, POOL, 1)
    assert list(order.first_come_first_served(evidence(steps=[*waiting("A", 1, POOL), joined])))
    adopted = [*waiting("A", 1), step(19, "adopts", "B"), step(20, "granted", "B", 3, "x")]
    assert not list(order.first_come_first_served(evidence(steps=adopted)))
    assert list(order.first_come_first_served(evidence(steps=[*adopted[:2], *adopted[3:]])))


def test_who_came_a_second_later_is_granted_later() -> None:
    first, later = waited(held("a", "x", 3, 3000, 3010), 10), waited(held("b", "x", 2, 2000, 2010), 1500)
    assert [finding.check for finding in order.overtaken(evidence(first, later))] == ["order"]
    assert not list(order.overtaken(evidence(first, later, ordered=False)))
    assert not list(order.overtaken(evidence(first, later, faults=[fault("stop", 500, 600, 9)])))
    own = held("c", "x", 1, 5, 1000)
    assert not list(order.overtaken(evidence(own, first, later))), "it waited in its own process until then"
    own.process = 2
    assert list(order.overtaken(evidence(own, first, later)))
    readers = reading(first, "x"), reading(later, "x")
    assert not list(order.overtaken(evidence(*readers)))


def test_whoever_gives_up_was_not_overtaken_before() -> None:
    def overtaken(given_up: int) -> int:
        first, later = Attempt("a", 1, frozenset("x"), 10 * MS), waited(held("b", "x", 2, 2000, 2010), 1500)
        first.given_up, first.timed_out = given_up * MS, True
        return len(list(order.overtaken(evidence(first, later))))

    assert overtaken(3100) == 1
    assert overtaken(2900) == 0, "perhaps it had left the queue by then"


def test_who_wants_permits_waits_while_there_are_too_few() -> None:
    holders = permitted("a", 1, 1, 10, 600), permitted("b", 1, 1, 10, 20)
    assert not list(liveness.soon(limited(*holders, permitted("c", 2, 1, 610, 620, invoked=15))))
    late = permitted("c", 1, 1, 590, 620, invoked=15)
    assert [finding.at for finding in liveness.soon(limited(*holders, late))] == [20 * MS]


def test_a_least_time() -> None:
    kept = held("a", "x", 1, 10, 12, believed=410)
    kept.at_least = 50 * MS
    assert found(evidence(kept, waited(held("b", "x", 2, 60, 70), 15))) == {}
    assert found(evidence(kept, waited(held("b", "x", 2, 59, 70), 15))) == {"at least": [None]}
    kept.kept = False
    assert found(evidence(kept, waited(held("b", "x", 2, 20, 30), 15))) == {}, "it was lost before"


def handed(attempt: Attempt, at: int, until: int) -> Attempt:
    attempt.handed, attempt.handed_until = at * MS, until * MS
    attempt.release_sent = attempt.released = attempt.kept = None
    return attempt


def adopting(attempt: Attempt, source: str) -> Attempt:
    attempt.source = source
    return attempt


def test_a_lock_that_is_handed_over() -> None:
    giver, adopter = handed(held("a", "xy", 3, 10, 20), 20, 420), adopting(held("b", "xy", 6, 30, 40), "a")
    assert found(evidence(giver, adopter)) == {}
    assert found(evidence(giver)) == {}, "nobody has used the ticket"
    again = adopting(held("c", "xy", 7, 50, 60), "a")
    assert found(evidence(giver, adopter, again))["hand-over"] == 3 * [None]
    between = held("c", "x", 5, 25, 28)
    assert found(evidence(giver, adopter, between)) == {"hand-over": [None]}
    reader = reading(held("c", "x", 3, 25, 28), "x")
    assert found(evidence(giver, adopter, reader)) == {"hand-over": [None]}
    assert found(evidence(giver, adopter, held("c", "z", 5, 25, 28))) == {}, "another name"
    assert list(handing.nobody_between(evidence(giver, adopting(held("b", "xy", 3, 30, 40), "a")))), "the same token"


def test_nobody_waits_longer_than_the_ttl_of_a_ticket() -> None:
    giver = handed(held("a", "x", 3, 10, 20), 20, 420)
    assert not list(liveness.soon(evidence(giver, waited(held("b", "x", 4, 900, 910), 30))))
    assert list(liveness.soon(evidence(giver, waited(held("b", "x", 4, 930, 940), 30))))


def rated(count: int, sent: int, answered: int) -> Rated:
    return Rated(sent * MS, answered * MS, count, limit=10, per=1.0, burst=3)


@pytest.mark.parametrize(
    ("given", "is_too_much"),
    [
        ([rated(3, 0, 1)], False),
        ([rated(3, 0, 1), rated(1, 1, 2)], True),
        ([rated(3, 0, 1), rated(1, 99, 100)], False),
        ([rated(3, 0, 1), rated(1, 1, 200)], False),
        ([rated(1, at, at + 1) for at in range(0, 1000, 100)], False),
        ([rated(3, 5000, 5001), *(rated(1, at, at + 1) for at in range(0, 1000, 50))], True),
    ],
    ids=["burst", "more", "later", "perhaps later", "at its pace", "too fast for long"],
)
def test_a_rate(given: list[Rated], is_too_much: bool) -> None:
    assert bool(list(rates.rates(evidence(rated=given)))) == is_too_much
    assert set(found(evidence(rated=given, faults=[fault("flush", 0, 9000)]))) <= {"rate"}
    assert all(each.excuse for each in rates.rates(evidence(rated=given, faults=[fault("flush", 0, 9000)])))
