"""What candidates were told, and when they believed that they led, from the lines that they recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .attempts import Attempt
from .history import Line


@dataclass(frozen=True)
class Call:
    """A callback of a candidate that has returned: ``elected`` or ``lost``."""

    what: str
    token: int
    since: int
    until: int


@dataclass(frozen=True)
class Led:
    """Between two moments, a candidate was asked whether it leads, and did, with this token."""

    name: str
    token: int
    sent: int
    answered: int


@dataclass
class Campaign:
    """One candidate: all that it was told, and that it said, in order."""

    process: int
    calls: list[Call] = field(default_factory=list)
    led: list[Led] = field(default_factory=list)
    #: Its leaderships by their tokens.
    attempts: dict[int, Attempt] = field(default_factory=dict)


def campaigns(lines: Iterable[Line], attempts: list[Attempt]) -> dict[str, Campaign]:
    """Return all candidates, and tell their attempts when they led.

    A leadership is believed in from after it was first seen to before it was last seen: what lies between is certain,
    also of a process that was stopped.
    """
    found: dict[str, Campaign] = {}
    for line in lines:
        if line.event not in ("called", "leads"):
            continue
        facts = line.facts
        campaign = found.setdefault(facts["candidate"], Campaign(line.process))
        if line.event == "called":
            campaign.calls.append(Call(facts["what"], facts["token"], facts["since"], line.at))
        else:
            campaign.led.append(Led(facts["name"], facts["token"], line.at, facts["answered"]))
    for attempt in attempts:
        campaign = found.get(attempt.id.rpartition(".")[0], Campaign(0))
        if attempt.token is not None:
            campaign.attempts[attempt.token] = attempt
    for campaign in found.values():
        campaign.calls.sort(key=lambda call: call.since)
        for led in campaign.led:
            if led.token in campaign.attempts:
                _believe(campaign.attempts[led.token], led)
    return found


def _believe(attempt: Attempt, led: Led) -> None:
    attempt.begun = led.answered if attempt.begun is None else attempt.begun
    attempt.ended = led.sent
    attempt.beliefs.append((led.sent, led.sent))
