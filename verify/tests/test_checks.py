"""Each check finds the violation in a bad history, and nothing in a good one."""

from __future__ import annotations

import pytest
from histories import believed, evidence, fault, held, scan, step, waited, wrote

from pinyon_verify.locks.attempts import Attempt
from pinyon_verify.locks.checks import belief, check, exclusion, liveness, order, tokens, wholeness
from pinyon_verify.locks.evidence import Bounds, Evidence
from pinyon_verify.locks.history import MILLISECOND as MS


def found(history: Evidence) -> dict[str, list[str | None]]:
    """Return the excuses of all findings, by check."""
    excuses: dict[str, list[str | None]] = {}
    for finding in check(history):
        excuses.setdefault(finding.check, []).append(finding.excuse)
    return excuses


def good() -> Evidence:
    first = wrote(held("a", "xy", 1, 10, 20), "x", 1, True, 15)
    second = waited(wrote(held("b", "x", 3, 21, 30), "x", 2, True, 25), 12)
    steps = [
        step(10, "granted", "A", 1, "x"),
        step(10, "granted", "A", 1, "y"),
        step(12, "known", "B", 500),
        step(12, "queued", "B", 2, "x"),
        step(20, "unlocked", "A"),
        step(20, "dequeued", "B", 2, "x"),
        step(20, "granted", "B", 3, "x"),
        step(30, "unlocked", "B"),
    ]
    scans = [scan(15, ("x", "A", 1, 1300), ("y", "A", 1, 1300)), scan(25, ("x", "B", 3, 1300))]
    return evidence(first, second, steps=steps, scans=scans, calls={"fcall": 6, "publish": 1}, clients=2)


def test_a_good_history_passes() -> None:
    assert found(good()) == {}


def test_two_inside_at_once() -> None:
    history = evidence(held("a", "xy", 1, 10, 30), held("b", "yz", 2, 20, 40))
    assert found(history) == {"exclusion": [None], "belief": [None]}


def test_of_three_inside_at_once_each_two_are_found() -> None:
    history = evidence(held("a", "x", 1, 10, 90), held("b", "x", 2, 20, 80), held("c", "x", 3, 30, 70))
    assert len(list(exclusion.sections(history))) == 3


def test_two_inside_while_others_come_and_go() -> None:
    history = evidence(held("a", "x", 1, 10, 90), held("b", "y", 2, 20, 30), held("c", "x", 3, 80, 95))
    assert [finding.text.split()[1] for finding in exclusion.sections(history)] == ["a"]


@pytest.mark.parametrize("kind", ["stop", "kill"])
def test_a_holder_that_was_stopped_is_excused_but_not_in_its_belief(kind: str) -> None:
    history = evidence(
        held("a", "x", 1, 10, 900, believed=400, process=5),
        held("b", "x", 2, 410, 420),
        faults=[fault(kind, 50, 800, 5)],
    )
    assert found(history) == {"exclusion": ["the earlier holder was stopped"]}
    believed(history.attempts[0], 415)
    assert found(history)["belief"] == [None]


def test_another_process_stopped_is_no_excuse() -> None:
    history = evidence(
        held("a", "x", 1, 10, 900, believed=400, process=5),
        held("b", "x", 2, 410, 420),
        faults=[fault("stop", 50, 800, 6)],
    )
    assert found(history) == {"exclusion": [None]}


def test_a_deleted_lock_is_excused_for_its_names_only() -> None:
    history = evidence(
        held("a", "x", 1, 10, 30, 400), held("b", "x", 2, 20, 40), faults=[fault("delete", 15, 15, 0, "x")]
    )
    assert set(found(history)["belief"]) == {"the server lost its state"}
    history.faults = [fault("delete", 15, 15, 0, "y")]
    assert found(history)["belief"] == [None]
    history.faults = [fault("delete", 5, 5, 0, "x")]
    assert found(history)["belief"] == [None], "deleted before it was granted"


def test_a_holder_that_overstays_without_reason() -> None:
    history = evidence(held("a", "x", 1, 10, 30, believed=15), held("b", "x", 2, 20, 40))
    assert found(history) == {"exclusion": [None]}
    history.attempts[0].late.append(16 * MS)
    assert found(history) == {"exclusion": ["the earlier holder got no time to leave"]}


def test_a_holder_that_waits_for_the_register_as_its_belief_ends() -> None:
    stayed, other = held("a", "x", 1, 10, 30, believed=15), held("b", "x", 2, 20, 40)
    history = evidence(wrote(stayed, "x", 1, True, 14, answered=25), other)
    assert found(history)["exclusion"] == ["the earlier holder waited for the register"]
    stayed.writes.clear()
    history = evidence(wrote(stayed, "x", 1, True, 16, answered=25), other)
    assert found(history)["exclusion"] == [None], "it began to write when it knew better"
    stayed.writes.clear()
    history = evidence(wrote(stayed, "x", 1, True, 14, answered=19), other)
    assert found(history)["exclusion"] == [None], "it could have left in time"


def test_a_belief_beyond_what_the_server_keeps() -> None:
    history = evidence(held("a", "x", 1, 10, 20, believed=100), scans=[scan(15, ("x", "A", 1, 80))])
    assert found(history) == {"belief": [None]}
    history.scans = [scan(15, ("x", "A", 1, 85))]
    assert found(history) == {}
    history.scans = [scan(15, ("x", "A", 2, 1))]
    assert found(history) == {}, "another's lock"


def test_a_belief_in_what_was_deleted() -> None:
    history = evidence(held("a", "xy", 1, 10, 700, believed=700), faults=[fault("delete", 50, 60, 0, "x")])
    assert [finding.excuse for finding in belief.ended(history)] == [None]
    history.faults = [fault("delete", 50, 60, 0, "z")]
    assert not list(belief.ended(history))
    history.faults = [fault("flush", 350, 360)]
    assert not list(belief.ended(history)), "renewed just before"
    history.faults = [fault("flush", 5, 6)]
    assert not list(belief.ended(history)), "deleted before it was granted"


def test_one_that_was_killed_is_not_inside_any_more() -> None:
    history = evidence(held("a", "x", 1, 10, 30), held("b", "x", 2, 20, 40))
    killed = history.attempts[0]
    killed.ended = killed.release_sent = killed.released = None
    killed.killed = 15 * MS
    assert found(history) == {}


def test_tokens_that_do_not_increase_for_clients() -> None:
    history = evidence(held("a", "x", 7, 10, 20), held("b", "x", 6, 30, 40))
    assert found(history) == {"tokens": [None]}
    assert list(tokens.increase(evidence(held("a", "x", 7, 10, 20), held("b", "x", 7, 30, 40))))
    assert not list(tokens.increase(evidence(held("a", "x", 7, 10, 20), held("b", "y", 6, 30, 40))))
    unbelieving = believed(held("b", "x", 6, 30, 40), 29)
    assert not list(tokens.increase(evidence(held("a", "x", 7, 10, 20), unbelieving)))


def test_tokens_that_do_not_increase_on_the_server() -> None:
    steps = [step(10, "granted", "A", 7, "x"), step(20, "granted", "B", 7, "x")]
    assert found(evidence(steps=steps)) == {"tokens": [None]}


def test_a_register_that_takes_an_older_token() -> None:
    newer = wrote(held("a", "x", 7, 10, 20), "x", 1, True, 15)
    older = wrote(held("b", "x", 6, 30, 40, believed=30), "x", 2, True, 35)
    assert [finding.excuse for finding in tokens.register(evidence(newer, older))] == [None]


def test_a_register_that_refuses_a_holder() -> None:
    newer = wrote(held("a", "x", 7, 10, 20), "x", 1, True, 15)
    refused = wrote(held("b", "x", 6, 30, 60, believed=50), "x", 2, False, 40)
    assert [finding.excuse for finding in tokens.register(evidence(newer, refused))] == [None]
    believed(refused, 39)
    assert not list(tokens.register(evidence(newer, refused)))


def test_a_lock_held_in_part() -> None:
    whole, part = scan(15, ("x", "A", 1, 300), ("y", "A", 1, 300)), scan(16, ("x", "A", 1, 299))
    attempt = held("a", "xy", 1, 10, 20, believed=17)
    assert found(evidence(attempt, scans=[whole, part])) == {"all or nothing": [None]}
    assert found(evidence(attempt, scans=[part])) == {"all or nothing": [None]}, "the client knows its names"
    assert found(evidence(scans=[whole, part])) == {"all or nothing": [None]}, "another scan knows them"
    expiring = scan(16, ("x", "A", 1, 1))
    assert found(evidence(attempt, scans=[whole, expiring])) == {}


def test_one_granted_before_another_that_waited_longer() -> None:
    steps = [
        step(10, "known", "A", 500),
        step(10, "queued", "A", 1, "x"),
        step(11, "known", "B", 500),
        step(11, "queued", "B", 2, "x"),
        step(20, "dequeued", "B", 2, "x"),
        step(20, "granted", "B", 3, "x"),
    ]
    assert found(evidence(steps=steps)) == {"order": [None]}
    assert found(evidence(steps=steps, ordered=False)) == {}
    newcomer = [*steps[:2], step(20, "granted", "C", 3, "x")]
    assert found(evidence(steps=newcomer)) == {"order": [None]}


def test_who_is_gone_may_be_overtaken() -> None:
    expired = [step(10, "known", "A", 15), step(10, "queued", "A", 1, "x"), step(20, "granted", "B", 3, "x")]
    assert not list(order.first_come_first_served(evidence(steps=expired)))
    dropped = [
        step(10, "known", "A", 500),
        step(10, "queued", "A", 1, "x"),
        step(15, "dequeued", "A", 1, "x"),
        step(20, "granted", "B", 3, "x"),
    ]
    assert not list(order.first_come_first_served(evidence(steps=dropped)))


def test_a_waiter_that_nobody_wakes() -> None:
    history = evidence(held("a", "x", 1, 10, 20), waited(held("b", "x", 2, 700, 710), 15))
    assert found(history) == {"liveness": [None]}
    history.stalls = [(20 * MS, 600 * MS)]
    assert found(history) == {}


def test_a_waiter_behind_others_may_wait() -> None:
    others = [held(f"a{at}", "x", at, at, at + 90) for at in range(10, 1000, 100)]
    history = evidence(*others, waited(held("b", "xy", 2000, 1005, 1010), 15))
    assert not list(liveness.soon(history))
    before = waited(held("c", "y", 3000, 5000, 5001), 14)
    before.granted = before.begun = before.token = None
    before.given_up = 900 * MS
    holder = held("d", "y", 1, 5, 895)
    assert not list(liveness.soon(evidence(holder, waited(held("b", "y", 2, 905, 910), 15), before)))


def test_a_waiter_that_gives_up_was_not_woken() -> None:
    gave_up = waited(held("a", "x", 1, 900, 901), 20)
    gave_up.granted = gave_up.begun = gave_up.token = None
    gave_up.given_up = 900 * MS
    history = evidence(held("c", "x", 1, 10, 30), gave_up, waited(held("b", "x", 2, 910, 920), 800))
    assert [finding.at for finding in liveness.soon(history)] == [30 * MS]
    assert not list(liveness.soon(evidence(held("c", "x", 1, 10, 899), gave_up)))


def test_nobody_waits_for_what_a_killed_client_held() -> None:
    killed = held("a", "x", 1, 10, 20)
    killed.ended = killed.release_sent = killed.released = None
    killed.killed = 100 * MS
    assert not list(liveness.soon(evidence(killed, waited(held("b", "x", 2, 590, 595), 15))))
    assert list(liveness.soon(evidence(killed, waited(held("b", "x", 2, 610, 615), 15))))


def test_calls_beyond_two_for_each_lock() -> None:
    attempts = [held(f"a{at}", "x", at, at * 10, at * 10 + 5) for at in range(1, 51)]
    assert found(evidence(*attempts, calls={"fcall": 102, "publish": 49}, clients=2)) == {}
    assert found(evidence(*attempts, calls={"fcall": 120, "publish": 49}, clients=2)) == {"wakes": [None]}
    assert found(evidence(*attempts, calls={"evalsha": 90, "publish": 49}, clients=2)) == {"wakes": [None]}
    assert found(evidence(*attempts, calls={"fcall": 102, "publish": 51}, clients=2)) == {"wakes": [None]}


def test_something_left_behind() -> None:
    assert found(evidence(keys_left=["{verify}:#q"])) == {"nothing left": [None]}
    assert found(evidence(channels_left=["{verify}:#c:1"])) == {"nothing left": [None]}


def test_one_that_was_cancelled_and_granted() -> None:
    steps = [step(10, "unlocked", "A"), step(20, "granted", "A", 3, "x")]
    assert [finding.excuse for finding in wholeness.gone_is_gone(evidence(steps=steps))] == [None]
    assert not list(wholeness.gone_is_gone(evidence(steps=list(reversed(steps)))))
    restored = [steps[0], step(15, "reset", ""), steps[1]]
    assert [finding.excuse for finding in wholeness.gone_is_gone(evidence(steps=restored))] != [None]


def test_what_a_process_says_itself() -> None:
    assert found(evidence(violations=[(0, "a child gave back its parent's lock")])) == {"said": [None]}


@pytest.mark.parametrize(("waited_for", "found_in"), [(99, {"in time": [None]}), (100, {})])
def test_no_attempt_fails_while_servers_only_refuse(waited_for: int, found_in: dict[str, list[None]]) -> None:
    attempt = Attempt("w", 1, frozenset("a"), invoked=0, given_up=waited_for * MS, failed="Timeout: no answer")
    assert found(evidence(attempt, bounds=Bounds(refused=100 * MS))) == found_in


@pytest.mark.parametrize(("waited_for", "found_in"), [(99, {}), (100, {"in time": [None]})])
def test_a_deadlock_is_told(waited_for: int, found_in: dict[str, list[None]]) -> None:
    attempt = Attempt("w", 1, frozenset("a"), invoked=0, given_up=waited_for * MS, timed_out=True)
    assert found(evidence(attempt, bounds=Bounds(deadlocked=100 * MS))) == found_in
