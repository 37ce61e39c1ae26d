"""The table of the outcomes, on the terminal and in `docs/failures.md`."""

from __future__ import annotations

from .. import markdown
from ..results import Machine
from ..tables import Table
from .clients import SETTINGS, TIMEOUT
from .measure import BACK_SECONDS, SERVERS, STOPPED_SECONDS, Outcome

HEADINGS = (
    *("client", "model", "at a time", "p50 µs", "p99 µs", "p50 stopped", "p99 stopped", "p99 ratio"),
    *("timeouts", "lost s", "others missed", "back after s"),
)


def row(outcome: Outcome) -> tuple[str, ...]:
    """Returns the cells of an outcome, under HEADINGS."""
    microseconds = (outcome.healthy_p50, outcome.healthy_p99, outcome.stopped_p50, outcome.stopped_p99)
    contender = outcome.contender
    return (
        *(contender.client, contender.model, str(contender.workers)),
        *(f"{seconds * 1e6:,.0f}" for seconds in microseconds),
        f"{outcome.stopped_p99 / outcome.healthy_p99:.2f}",
        f"{outcome.timeouts:.0f}",
        f"{outcome.lost:.2f}",
        f"{outcome.missed:.1%}",
        f"> {BACK_SECONDS - 1:.0f}" if outcome.back is None else f"{outcome.back:.2f}",
    )


def table(outcomes: list[Outcome]) -> str:
    """Returns the outcomes as a Markdown table."""
    return markdown.table(Table("", list(HEADINGS), [list(row(each)) for each in outcomes]))


def section(outcomes: list[Outcome], machine: Machine, versions: dict[str, str], rounds: int) -> str:
    """Returns the text between the marks."""
    settings = "; ".join(f"{client} {versions[client]}: {text}" for client, text in SETTINGS.items())
    return (
        f"{machine.cpu}, {machine.cores} cores, {machine.kernel}; {SERVERS} memcached, {rounds} rounds; "
        f"timeout {TIMEOUT} s, {STOPPED_SECONDS:.0f} s with one server stopped.\n\n{table(outcomes)}\n\n{settings}."
    )
