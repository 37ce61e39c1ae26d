"""PERFORMANCE.md: what to know in three minutes, made from the tables of a record."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from ..catalogue import GROUPS
from ..grids import Grid
from ..names import ANYEVENT, ASYNCIO, CORO, GEVENT, OURS, PERL, UVLOOP, C
from ..placement import SAME_CORE
from ..recorded.comparison import CLOSE, Standing, behind_bare_socket, close_to_floor, slower, standing
from ..recorded.medians import Figures, medians
from ..recorded.missed import missed_targets
from ..recorded.record import MISSED, ROWS, TARGETS, Record
from ..report.clients import client_of
from ..report.figures import sections
from ..words import BARE_SAYS, FLOOR_SAYS, SEED_SAYS, TARGETS_SAY, rounds_text
from .markdown import bullets, table

PLOTS = "docs/plots"
WIDTH = 120
TABLES_LINK = "docs/performance-tables.md"
LOCKS_OURS = f"{OURS} script"
#: The workloads of the summary: their words, row and contestant.
WORKLOADS = (
    ("get, 36 bytes", "get:36B", OURS),
    ("set, 36 bytes", "set:36B", OURS),
    ("get, 100 KB", "get:100KB", OURS),
    ("set, 100 KB", "set:100KB", OURS),
    ("set in a quiet batch", "setq:plain", OURS),
    ("multi-get, 100 keys", "multiget:100:1", OURS),
    ("multi-get, 100 keys, 4 servers", "multiget:100:4", OURS),
    ("get, 1 thread", "threads:get:1", OURS),
    ("get, 8 threads on one client", "threads:get:8", OURS),
    ("get, 32 threads on one client", "threads:get:32", OURS),
    ("get, 1 greenlet (gevent)", "gevent:get:1", f"{OURS} {GEVENT}"),
    ("get, 16 greenlets (gevent)", "gevent:get:16", f"{OURS} {GEVENT}"),
    ("get, 16 tasks (asyncio)", "asyncio:get:16", f"{OURS} {ASYNCIO}"),
    ("get, 16 tasks (uvloop)", "uvloop:get:16", f"{OURS} {UVLOOP}"),
    ("get, 100 tasks, 30 ms away", "slow:get:64B:100", f"{OURS} {ASYNCIO}"),
    ("Perl: get, 64 bytes", "perl:get:64B", f"{OURS} {PERL}"),
    ("Perl: set, 64 bytes", "perl:set:64B", f"{OURS} {PERL}"),
    ("Perl: multi-get, 100 keys", "perl:multiget:100:1", f"{OURS} {PERL}"),
    ("Perl: 100 keys set in one call", "perl:multiset:100:1", f"{OURS} {PERL}"),
    ("Perl: get, 100 coroutines (Coro)", "perl:loops:local:get:64B:100", f"{OURS} {CORO}"),
    ("Perl: get, 100 callbacks (AnyEvent)", "perl:loops:local:get:64B:100", f"{OURS} {ANYEVENT}"),
    ("Perl: 10,000 coroutines, 100 at a time", "perl:semaphore:local:get:64B:100", f"{OURS} {CORO}"),
    ("C: get, 64 bytes", "c:get:64B", f"{OURS} {C}"),
    ("lock and unlock 1 name", "locks:pair:1", LOCKS_OURS),
    ("lock and unlock 10 names", "locks:pair:10", LOCKS_OURS),
    ("10 greenlets, each locks 10 of 19 names", "locks:mutex:10/19", f"{LOCKS_OURS} {GEVENT}"),
)
MODELS_COMPARED = (("gevent:get:16", GEVENT), ("asyncio:get:16", ASYNCIO), ("uvloop:get:16", UVLOOP))


def summary_page(record: Record) -> str:
    """Returns the page as Markdown."""
    figures = Figures(record)
    parts = [
        "# Performance",
        _head(record),
        "## Summary",
        bullets(list(_findings(record, figures))),
        _workload_table(figures),
        _close_to_floor(figures),
        _slower(record, figures),
        *_plots(record),
        _missed(record),
        _repeating(record),
    ]
    return "\n\n".join(wrapped(part) for part in parts if part) + "\n"


def wrapped(text: str) -> str:
    """Returns Markdown with its sentences in lines of WIDTH; tables, plots, titles and code stay as they are."""
    code = False
    lines: list[str] = []
    for line in text.splitlines():
        code ^= line.startswith("```")
        as_it_is = code or line.startswith(("|", "!", "#", "```"))
        indent = "  " if line.startswith("- ") else ""
        lines += [line] if as_it_is or not line else fill(line, indent)
    return "\n".join(lines)


def fill(line: str, indent: str) -> list[str]:
    """Returns a sentence in lines of WIDTH."""
    return wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _head(record: Record) -> str:
    where = "Client and server share one core." if record.placement == SAME_CORE else f"Placement {record.placement}."
    return (
        f"Measured {record.created[:10]} on {record.machine}, at most {rounds_text(record.rounds)}. {where} "
        "Absolute figures move with the machine; compare figures of one run.\n\n"
        f"{FLOOR_SAYS} {BARE_SAYS}\n\n{TARGETS_SAY}\n\n{SEED_SAYS}"
    )


def _findings(record: Record, figures: Figures) -> Iterator[str]:
    results = [line[2] for line in record.grid(TARGETS).rows]
    missed = results.count(MISSED)
    if results:
        link = f"; [{missed} are missed](#missed-targets)" if missed else ""
        yield f"**{len(results) - missed} of {len(results)} targets are met**{link}."
    small = [found for row in ("get:36B", "set:36B") if (found := standing(figures, row, OURS))]
    if small:
        shares = " and ".join(f"{found.of_floor:.2f}" for found in small if found.of_floor)
        factors = " and ".join(dict.fromkeys(_factor(found) for found in small))
        yield (
            f"**Blocking calls.** Get and set of 36 bytes reach {shares} of the floor's rate. That is {factors} times the "
            f"rate of {small[0].other}, the fastest other client."
        )
    compared = [
        f"{_factor(found)} times the rate of {client_of(found.other)} on {model}"
        for row, model in MODELS_COMPARED
        if (found := standing(figures, row, f"{OURS} {model}"))
    ]
    if compared:
        yield (
            "**Coroutines** share one connection, and their requests leave together. With 16 of them, gets run at "
            f"{_listed(compared)}."
        )
    locks = [standing(figures, f"locks:pair:{names}", LOCKS_OURS) for names in (1, 10)]
    if locks[0] and locks[1]:
        yield (
            f"**Locks.** Locking and unlocking one name runs at {_factor(locks[0])} times the rate of {locks[0].other}, "
            f"the fastest other client. With ten names it is {_factor(locks[1])} times; the others nest ten locks."
        )


def _factor(found: Standing) -> str:
    return (
        f"{found.factor:.0f}"
        if found.factor >= 10
        else f"{found.factor:.1f}"
        if found.factor >= 1.95
        else f"{found.factor:.2f}"
    )


def _listed(texts: list[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else "".join(texts)


def _workload_table(figures: Figures) -> str:
    stood = [(words, standing(figures, row, ours)) for words, row, ours in WORKLOADS]
    rows = [_workload_line(figures, words, found) for words, found in stood if found]
    if not rows:
        return ""
    header = ["workload", "Pinyon, per second", "fastest other client, per second", "factor", "of the floor", "CPU, µs"]
    note = (
        "A multi-get counts keys, a lock counts cycles of locking and unlocking. The factor is Pinyon's rate over the "
        "other's, shown and not promised; ~: the same within noise. CPU: processor time of the client's process per operation, Pinyon's and the "
        f"other's. Every row and client is in [the tables]({TABLES_LINK})."
    )
    return table(Grid("", header, rows, note))


def _workload_line(figures: Figures, words: str, found: Standing) -> list[str]:
    of_floor = "–" if found.of_floor is None else f"{found.of_floor:.2f}"
    busy = [figures.processor.get((found.row, name)) for name in (found.ours, found.other)]
    return [
        words,
        f"**{found.rate:,.0f}**",
        f"{found.other_rate:,.0f} ({client_of(found.other)})",
        f"{'~' * found.same}{_factor(found)}",
        of_floor,
        "\u00a0/\u00a0".join(f"{each:.2f}" for each in busy if each is not None) or "–",
    ]


def _close_to_floor(figures: Figures) -> str:
    """States what may be said of Pinyon and a bare socket, and nothing more."""
    rows, (timed, behind) = close_to_floor(figures), behind_bare_socket(figures)
    sentences = []
    if rows:
        kind = ", all of them blocking calls" if all((row, OURS) in figures.rates for row in rows) else ""
        sentences.append(
            f"Pinyon reaches at least {CLOSE:g} of the floor's rate in {len(rows)} rows{kind}: {_quoted(rows)}. In every "
            f"other row the floor is faster. [The tables]({TABLES_LINK}#rows) say what each row does."
        )
    if timed and not behind:
        sentences.append(
            f"In none of the {timed} rows with a bare socket in Python is that faster than Pinyon beyond noise."
        )
    elif behind:
        sentences.append(f"A bare socket in Python is faster than Pinyon in {_quoted(behind)}.")
    return "## As fast as a bare socket?\n\n" + " ".join(sentences) if sentences else ""


def _quoted(rows: list[str]) -> str:
    return ", ".join(f"`{row}`" for row in rows)


def _slower(record: Record, figures: Figures) -> str:
    lines = [
        f"{_named(found.row, _about(record))}: {found.other} {found.other_rate:,.0f} per second, {found.ours} {found.rate:,.0f}"
        for found in slower(figures)
    ]
    if not lines:
        return ""
    return f"## Where another client is faster\n\nBy more than {1 - CLOSE:.0%} and beyond noise:\n\n{bullets(lines)}"


def _plots(record: Record) -> Iterator[str]:
    for section in sections(medians(record)):
        if section.main_plots:
            images = "\n".join(f"![{_alternative(plot.title)}]({PLOTS}/{plot.key}.svg)" for plot in section.main_plots)
            yield f"## {section.title}\n\n{section.lead}\n\n{images}"


def _alternative(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")


def _missed(record: Record) -> str:
    found = missed_targets(record)
    if not found:
        return ""
    about = _about(record)
    rows = [
        [
            _named(row, about),
            target,
            f"{measured} ({spread})" if spread else measured,
            each.why if first else "as above",
        ]
        for each in found
        for first, (row, target, _, measured, spread) in zip([True] + [False] * len(each.lines), each.lines)
    ]
    grid = Grid("", ["row", "target", "measured", "why"], rows)
    return f"## Missed targets\n\nIn parentheses: the lowest and the highest round.\n\n{table(grid)}"


def _about(record: Record) -> dict[str, str]:
    return {line[0]: line[1] for line in record.grid(ROWS).rows}


def _named(row: str, about: dict[str, str]) -> str:
    """Returns a row with what it does, or a group with its title."""
    words = about.get(row) or (GROUPS[row].title if row in GROUPS else "")
    return f"`{row}` ({words})" if words else f"`{row}`"


def _repeating(record: Record) -> str:
    return (
        "## How to repeat it\n\n"
        "```\n"
        "make bench           # about twelve minutes; prints the tables and writes an HTML report\n"
        "make bench-record    # hours; rewrites this page, its plots and the tables\n"
        "```\n\n"
        "Every client runs in a process of its own. Before a row is timed, it is verified: every reply is compared with "
        "what a cache must answer. Around each timed cell, memcached's own counters must agree with the client's. The "
        "clients take turns, A B C, then C B A, so that a disturbance meets all of them. [bench/](bench/README.md) explains "
        f"the rows and the rules.\n\nThis page was made from [the tables]({TABLES_LINK}), which `{record.command}` wrote. "
        "`python -m pinyon_bench page` makes it again."
    )
