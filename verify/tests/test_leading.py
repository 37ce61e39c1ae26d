"""Checks of leaders: bad histories are found, good ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_checks import found

from pinyon_verify import programs
from pinyon_verify.locks.cell import Cell
from pinyon_verify.locks.checks import exclusion, leading, liveness
from pinyon_verify.locks.evidence import Bounds, Evidence, weigh
from pinyon_verify.locks.history import MILLISECOND as MS
from pinyon_verify.locks.history import Line
from pinyon_verify.locks.settings import BUSY, MODELS, PERL, RUBY
from pinyon_verify.locks.world import World


class History:
    """What candidates record, with times in milliseconds. Each candidate is in a process of its own."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def add(self, at: float, candidate: int, event: str, number: int = 1, /, **facts: object) -> None:
        attempt = f"{candidate}.0.{number}" if event != "leads" else ""
        self.lines.append(Line(int(at * MS), candidate, event, attempt, facts))

    def asks(self, candidate: int, at: float, number: int = 1) -> History:
        self.add(at, candidate, "invoke", number, names=["n"])
        return self

    def elected(self, candidate: int, token: int, at: float, number: int = 1) -> History:
        self.add(at, candidate, "granted", number, token=token, until=int(at * MS))
        return self._called(candidate, "elected", token, at, at + 1, number)

    def leads(self, candidate: int, token: int, *times: float) -> History:
        for at in times:
            facts = {"name": "n", "token": token, "candidate": f"{candidate}.0", "answered": int((at + 1) * MS)}
            self.add(at, candidate, "leads", **facts)
        return self

    def resigns(self, candidate: int, at: float, number: int = 1) -> History:
        self.add(at, candidate, "release", number)
        self.add(at, candidate, "resigned", number)
        return self

    def lost(self, candidate: int, token: int, at: float, over: float = 0.0, number: int = 1) -> History:
        self.add(at, candidate, "lost", number)
        return self._called(candidate, "lost", token, at, over or at + 1, number)

    def _called(self, candidate: int, what: str, token: int, since: float, over: float, number: int) -> History:
        facts = {"what": what, "token": token, "since": int(since * MS), "candidate": f"{candidate}.0"}
        self.add(over, candidate, "called", number, **facts)
        return self

    def fault(self, kind: str, at: float, until: float, process: int = 0) -> History:
        self.lines.append(
            Line(int(at * MS), 9, "fault", "", {"kind": kind, "until": int(until * MS), "process": process})
        )
        return self

    @property
    def evidence(self) -> Evidence:
        found = weigh(sorted(self.lines, key=lambda line: line.at))
        found.bounds = Bounds(500 * MS, 400 * MS)
        return found


def leadership(candidate: int, token: int, at: int, number: int = 1) -> History:
    """A candidate leads for 30 milliseconds, and resigns."""
    history = History().asks(candidate, at, number).elected(candidate, token, at, number)
    history.leads(candidate, token, at + 2, at + 29)
    return history.resigns(candidate, at + 30, number).lost(candidate, token, at + 31, number=number)


def both(*histories: History) -> History:
    joined = History()
    joined.lines = [line for history in histories for line in history.lines]
    return joined


def test_leaders_in_turn() -> None:
    history = both(leadership(1, 5, 100), leadership(2, 6, 140), leadership(1, 7, 180, number=2))
    assert found(history.evidence) == {}


def test_two_lead_at_the_same_time() -> None:
    history = both(leadership(1, 5, 100), leadership(2, 6, 120)).fault("stop", 90, 200, 1)
    assert found(history.evidence) == {"exclusion": ["the earlier holder was stopped"], "belief": [None]}
    history.fault("flush", 115, 118)
    assert [each.excuse for each in exclusion.beliefs(history.evidence)] == ["the server lost its state"]


def test_whoever_was_stopped_between_two_looks_led_until_it_was_asked() -> None:
    stopped = History().asks(1, 100).elected(1, 5, 100).leads(1, 5, 102).lost(1, 5, 500)
    # It has read the clock, and goes on when another one has led for long.
    facts = {"name": "n", "token": 5, "candidate": "1.0", "answered": 500 * MS}
    stopped.add(110, 1, "leads", **facts)
    assert not list(exclusion.beliefs(both(stopped, leadership(2, 6, 300)).evidence))


def test_a_token_goes_back() -> None:
    assert "tokens" in found(both(leadership(1, 6, 100), leadership(2, 5, 140)).evidence)
    again = both(leadership(1, 6, 100), leadership(1, 6, 140, number=2))
    assert "leader" in found(again.evidence)
    again.fault("flush", 110, 190)
    assert [each.excuse for each in leading.told(again.evidence)] == ["the server lost its state"]


def test_callbacks_alternate() -> None:
    twice = leadership(1, 5, 100).asks(1, 150, 2).elected(1, 6, 150, 2).elected(1, 7, 160, 2).lost(1, 7, 170, number=2)
    assert said(twice) == ["1.0 was told elected with token 7 when it led"]
    assert said(History().asks(1, 100).lost(1, 5, 110)) == ["1.0 was told lost with token 5 when it did not lead"]
    other = History().asks(1, 100).elected(1, 5, 100).lost(1, 4, 110)
    assert said(other) == ["1.0 was told lost with token 4, but led with 5"]
    together = History().asks(1, 100).elected(1, 5, 100).lost(1, 5, 100.5)
    assert said(together) == ["1.0 was told lost with token 5 while it was told something else"]


def test_each_leadership_ends_unless_its_process_was_killed() -> None:
    history = History().asks(1, 100).elected(1, 5, 100).leads(1, 5, 110)
    assert said(history) == ["1.0 led with token 5, and was not told that it ended"]
    assert said(history.fault("kill", 120, 121, 1)) == []


def test_nobody_leads_unless_it_was_told() -> None:
    assert said(leadership(1, 5, 100).leads(1, 8, 110)) == [
        "1.0 said that it leads n with token 8, and was never elected with it"
    ]
    assert said(leadership(1, 5, 100).leads(1, 5, 140)) == [
        "1.0 said that it leads n with token 5 9.0 ms after it was told that it lost"
    ]
    assert said(History().asks(1, 1).elected(1, 5, 1).resigns(1, 9).leads(1, 5, 10).lost(1, 5, 11)) == [
        "1.0 said that it leads n with token 5 1.0 ms after it had resigned"
    ]


def test_on_lost_is_over_before_the_next_one_is_elected() -> None:
    slow = History().asks(1, 100).elected(1, 5, 100).leads(1, 5, 102).resigns(1, 110).lost(1, 5, 111, over=150)
    assert said(both(slow, leadership(2, 6, 149))) == ["n: 2.0.1 was elected 1.0 ms before on_lost of 1.0.1 was over"]
    assert said(both(slow, leadership(2, 6, 150))) == []
    assert said(both(slow, leadership(2, 6, 149)).fault("pause", 1, 2)) == [], "its lock may have ended by its ttl"


def test_another_one_leads_soon_after_a_leader_was_killed() -> None:
    def late(elected: int) -> int:
        killed = History().asks(1, 100).elected(1, 5, 100).leads(1, 5, 110).fault("kill", 119, 120, 1)
        waits = (
            History().asks(2, 90).elected(2, 6, elected).leads(2, 6, elected + 2, elected + 9).lost(2, 6, elected + 9)
        )
        return len(list(liveness.soon(both(killed, waits).evidence)))

    assert late(600) == 0
    assert late(700) == 1


def test_whoever_pauses_does_not_wait() -> None:
    history = History().asks(2, 90)
    history.add(100, 2, "failed", error="it pauses", cancelled=True)
    history.asks(2, 9000, 2).elected(2, 6, 9100, 2).lost(2, 6, 9200, number=2)
    assert not list(liveness.soon(history.evidence))


def said(history: History) -> list[str]:
    evidence = history.evidence
    checks = (leading.told, leading.says_so, leading.ends_first)
    return [finding.text for check in checks for finding in check(evidence) if finding.excuse is None]


def test_candidates_of_all_languages_lead_resign_and_give_up(tmp_path: Path) -> None:
    models = (*MODELS, *RUBY, *PERL)
    try:
        for model in models:
            programs.of_locks(model)
    except programs.Missing as missing:
        pytest.skip(str(missing))
    settings = BUSY.but(leads=True, names=2, workers=2, stay=0.05, cancels=0.3)
    missing: dict[str, set[str]] = {}
    for seed in range(1, 6):
        world = World(Cell("all", "", settings.each(*models), traced=False), seed, 3.0, tmp_path / str(seed))
        evidence = world.run()
        assert not evidence.violations
        for client in world.clients:
            missing.setdefault(client.settings.model, set(KINDS)).difference_update(done(evidence, client.pid))
        if not any(missing.values()):
            break
    assert missing == dict.fromkeys(models, set())


#: What a candidate does, apart from waiting.
KINDS = ("leads", "is told", "resigns", "gives up", "writes")


def done(evidence: Evidence, process: int) -> set[str]:
    own = [attempt for attempt in evidence.attempts if attempt.process == process]
    campaigns = [campaign for campaign in evidence.campaigns.values() if campaign.process == process]
    kinds = {
        "leads": any(campaign.led for campaign in campaigns),
        "is told": {call.what for campaign in campaigns for call in campaign.calls} == {"elected", "lost"},
        "resigns": any(attempt.resigned for attempt in own),
        "gives up": any(attempt.given_up for attempt in own),
        "writes": any(attempt.writes for attempt in own),
    }
    return {kind for kind, is_done in kinds.items() if is_done}
