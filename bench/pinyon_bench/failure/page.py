"""The table of the outcomes, on the terminal and in `docs/failures.md`."""

from __future__ import annotations

from pathlib import Path

from ..results import Machine
from .clients import SETTINGS, TIMEOUT
from .measure import BACK_SECONDS, SERVERS, STOPPED_SECONDS, Outcome

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
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
    lines = [HEADINGS, ("---", "---", *["--:"] * (len(HEADINGS) - 2)), *map(row, outcomes)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def section(outcomes: list[Outcome], machine: Machine, versions: dict[str, str], rounds: int) -> str:
    """Returns the text between the marks."""
    settings = "; ".join(f"{client} {versions[client]}: {text}" for client, text in SETTINGS.items())
    return (
        f"{machine.cpu}, {machine.cores} cores, {machine.kernel}; {SERVERS} memcached, {rounds} rounds; "
        f"timeout {TIMEOUT} s, {STOPPED_SECONDS:.0f} s with one server stopped.\n\n{table(outcomes)}\n\n{settings}."
    )


def refresh(path: Path, text: str) -> None:
    """Replaces the text between the marks of a page. Raises ValueError if there are none."""
    page = path.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
