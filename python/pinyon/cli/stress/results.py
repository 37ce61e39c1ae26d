"""The results of a stress run, and the verdict."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pinyon.cli.stress import checks
from pinyon.cli.stress.plan import Broken, Complete, Event, Failure, Mismatch, Section

if TYPE_CHECKING:
    from pinyon.cli.stress.plan import Plan

#: How many violations of each kind are printed.
_SHOWN = 5


class Results:
    """The events of the processes."""

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.errors: Counter[str] = Counter()
        self.given_up: int = 0
        self.mismatches: list[Mismatch] = []
        self.complete: list[Complete] = []
        self.broken: list[Broken] = []

    def add(self, event: Event) -> None:
        """Add an event."""
        if isinstance(event, Section):
            self.sections.append(event)
        elif isinstance(event, Failure):
            self.errors[event.error] += 1
            self.given_up += event.given_up
        elif isinstance(event, Mismatch):
            self.mismatches.append(event)
        elif isinstance(event, Complete):
            self.complete.append(event)
        else:
            self.broken.append(event)

    @property
    def failures(self) -> int:
        """The number of failed sections."""
        return sum(self.errors.values())


class Verdict:
    """What the results show about the locks.

    Attributes:
        status: 0 if the test passed, 1 if it failed, 2 if it showed nothing.
        rows: each check with its result.
        violations: a line for each violation.
    """

    def __init__(self, plan: Plan, results: Results) -> None:
        mismatches = [
            f"{each.key}: process {each.process} wrote {_text(each.written)} and read {_text(each.read)}"
            for each in results.mismatches
        ]
        overlaps = checks.overlaps(results.sections)
        disorders = checks.disorders(results.sections)
        broken = [f"process {each.process}: {each.why}" for each in results.broken]
        self.violations: list[str] = [line for kind in (mismatches, overlaps, disorders, broken) for line in _few(kind)]
        #: A mismatch ends all processes.
        through = len(results.complete) == plan.forks
        self.status: int = 1
        if not self.violations:
            self.status = 0 if through and results.sections else 2
        keys = len({section.key for section in results.sections})
        failures = ", ".join(f"{count} {kind}" for kind, count in results.errors.most_common())
        self.rows: list[tuple[str, str]] = [
            ("processes", f"{len(results.complete)} of {plan.forks} complete"),
            ("sections", f"{len(results.sections)} on {keys} keys"),
            ("failures", f"{failures or 'none'}; {results.given_up} keys given up"),
            ("values", _found(mismatches, "mismatch", "what was written was read")),
            ("overlaps", _found(overlaps, "overlap", "one at a time on every key")),
            ("tokens", _found(disorders, "disorder", "strictly increasing on every key")),
        ]


def _found(violations: list[str], kind: str, otherwise: str) -> str:
    if not violations:
        return otherwise
    return f"{len(violations)} {kind}{'' if len(violations) == 1 else 'es' if kind.endswith('h') else 's'}"


def _few(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more of these"]


def _text(value: bytes | None) -> str:
    return "nothing" if value is None else value.decode("utf-8", "backslashreplace")
