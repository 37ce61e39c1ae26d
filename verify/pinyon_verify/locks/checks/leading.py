"""Candidates for a leadership: what they are told, and what they say, is one story.

That at most one leads, that tokens increase, and that another one leads soon, is checked as for all locks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ..attempts import Attempt
from ..evidence import Evidence
from ..history import MILLISECOND
from ..leaderships import Campaign
from .finding import Finding


def told(evidence: Evidence) -> Iterator[Finding]:
    """Each candidate is elected and loses in turn, with the same token, and each time with a higher one than before.

    Its callbacks never run at the same time, and the last leadership ends unless its process was killed.
    """
    for candidate, campaign in sorted(evidence.campaigns.items()):
        before, leads, newest = 0, False, 0
        for call in campaign.calls:
            said = f"{candidate} was told {call.what} with token {call.token}"
            if call.since < before:
                yield Finding("leader", call.since, f"{said} while it was told something else")
            if leads == (call.what == "elected"):
                yield Finding("leader", call.since, f"{said} when it {'led' if leads else 'did not lead'}")
            elif call.what == "lost" and call.token != newest:
                yield Finding("leader", call.since, f"{said}, but led with {newest}")
            elif call.what == "elected" and call.token <= newest:
                text = f"{said} after {newest}"
                yield Finding("leader", call.since, text, _excuse(evidence, campaign, newest, call.token))
            before, leads, newest = call.until, call.what == "elected", call.token
        if leads and not _was_killed(evidence, campaign):
            yield Finding("leader", before, f"{candidate} led with token {newest}, and was not told that it ended")


def says_so(evidence: Evidence) -> Iterator[Finding]:
    """A candidate says that it leads only with a token that it was elected with, before it has resigned, and before it is told
    that it lost.
    """
    for candidate, campaign in sorted(evidence.campaigns.items()):
        for led in campaign.led:
            attempt = campaign.attempts.get(led.token)
            said = f"{candidate} said that it leads {led.name} with token {led.token}"
            if attempt is None:
                if not _was_killed(evidence, campaign):
                    yield Finding("leader", led.sent, f"{said}, and was never elected with it")
            elif attempt.lost is not None and led.sent > attempt.lost:
                yield Finding("leader", led.sent, f"{said} {_after(led.sent, attempt.lost)} it was told that it lost")
            elif attempt.resigned is not None and led.sent > attempt.resigned:
                yield Finding("leader", led.sent, f"{said} {_after(led.sent, attempt.resigned)} it had resigned")


def ends_first(evidence: Evidence) -> Iterator[Finding]:
    """Without faults, a leader's ``on_lost`` has returned before the next one is elected."""
    if evidence.faults:
        return
    elected: dict[str, list[Attempt]] = defaultdict(list)
    for campaign in evidence.campaigns.values():
        for attempt in campaign.attempts.values():
            elected[min(attempt.names)].append(attempt)
    over = {
        (candidate, call.token): call.until
        for candidate, campaign in evidence.campaigns.items()
        for call in campaign.calls
        if call.what == "lost"
    }
    for name, attempts in sorted(elected.items()):
        attempts.sort(key=lambda attempt: attempt.token or 0)
        for earlier, later in zip(attempts, attempts[1:]):
            ended = over.get((earlier.id.rpartition(".")[0], earlier.token or 0), 0)
            if (later.granted or 0) < ended:
                text = f"{name}: {later.id} was elected {_before(later.granted or 0, ended)} on_lost of {earlier.id} was over"
                yield Finding("leader", later.granted or 0, text)


def _was_killed(evidence: Evidence, campaign: Campaign) -> bool:
    return any(fault.kind == "kill" and fault.process == campaign.process for fault in evidence.faults)


def _excuse(evidence: Evidence, campaign: Campaign, *tokens: int) -> str | None:
    attempts = [campaign.attempts[token] for token in tokens if token in campaign.attempts]
    if not attempts:
        return None
    until = max(attempt.granted or 0 for attempt in attempts)
    return evidence.forgotten(attempts[0].names, until, *attempts)


def _after(at: int, before: int) -> str:
    return f"{(at - before) / MILLISECOND:.1f} ms after"


def _before(at: int, after: int) -> str:
    return f"{(after - at) / MILLISECOND:.1f} ms before"
