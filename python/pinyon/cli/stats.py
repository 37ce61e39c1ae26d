"""``pinyon stats``: statistics of memcached servers, printed once or as a table that refreshes."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from pinyon.cli.sampling import Sample, Servers, total
from pinyon.cli.tables import Line
from pinyon.cli.terminal import console_for, text_of
from pinyon.cli.timeouts import connect_timeout_of
from pinyon.cli.trust import login_of, tls_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from rich.text import Text

_GAP = "  "


class Column(NamedTuple):
    """A column of the table. A narrow terminal omits the columns with the highest rank first."""

    heading: str
    rank: int
    cell: Callable[[Sample], str]


def stats(options: argparse.Namespace) -> int:
    """Print the servers' statistics. Return 1 if a server did not answer."""
    tls = tls_of(options) or options.tls
    servers = Servers(
        options.servers,
        timeout=options.timeout,
        connect_timeout=connect_timeout_of(options.timeout),
        tls=tls,
        **login_of(options),
    )
    try:
        return _show(servers, options)
    finally:
        servers.close()


def _show(servers: Servers, options: argparse.Namespace) -> int:
    if options.json or options.once or not sys.stdout.isatty():
        samples = servers.sample()
        if options.json:
            print(json.dumps([_as_json(sample) for sample in (*samples, total(samples))], indent=2))
        else:
            print("\n".join(line.text for line in table(samples)))
        return 1 if any(sample.error for sample in samples) else 0
    try:
        _keep_up(servers, options.interval)
    except KeyboardInterrupt:
        print()
    return 0


def _keep_up(servers: Servers, interval: float) -> None:
    terminal = console_for("a table that refreshes in its place")
    if terminal is None:
        while True:
            print("\n".join(line.text for line in table(servers.sample(), shutil.get_terminal_size().columns)), "\n")
            time.sleep(interval)
    from rich.live import Live

    with Live(console=terminal, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            samples = servers.sample()
            lines = table(samples, terminal.width)
            footing = _footing(samples, interval)
            # The terminal shows Ctrl-C behind the line. In a full line that would start another, and scroll the table.
            footing = footing._replace(text=footing.text[: terminal.width - len("^C")])
            live.update(_painted([*lines, footing]), refresh=True)
            time.sleep(interval)


def _painted(lines: Sequence[Line]) -> Text:
    from rich.text import Text

    painted = Text(no_wrap=True, overflow="crop")
    for number, line in enumerate(lines):
        painted.append("\n" if number else "")
        painted.append(line.text, line.style)
    return painted


def _footing(samples: Sequence[Sample], interval: float) -> Line:
    down = sum(1 for sample in samples if sample.error)
    states = f"{len(samples) - down} up" + (f", {down} down" if down else "")
    return Line(f"{time.strftime('%H:%M:%S')}  {states}  every {interval:g} s  Ctrl-C ends", "dim")


COLUMNS = (
    Column("SERVER", 0, lambda sample: text_of(sample.server)),
    Column("VERSION", 5, lambda sample: text_of(sample.version)),
    Column("UPTIME", 4, lambda sample: _uptime(sample.uptime) if sample.uptime else ""),
    Column("HITS", 7, lambda sample: amount(sample.figures["hits"])),
    Column("MISSES", 7, lambda sample: amount(sample.figures["misses"])),
    Column("HIT %", 1, lambda sample: "-" if sample.hit_rate is None else f"{100 * sample.hit_rate:.1f}"),
    Column("GET/S", 1, lambda sample: amount(sample.rates["gets"])),
    Column("SET/S", 1, lambda sample: amount(sample.rates["sets"])),
    Column("EVICT/S", 2, lambda sample: amount(sample.rates["evictions"])),
    Column("MEMORY", 2, lambda sample: _memory(sample)),
    Column("ITEMS", 3, lambda sample: amount(sample.figures["items"])),
    Column("CONNS", 3, lambda sample: amount(sample.figures["connections"])),
    Column("IN/S", 6, lambda sample: size(sample.rates["bytes_in"])),
    Column("OUT/S", 6, lambda sample: size(sample.rates["bytes_out"])),
)


def table(samples: Sequence[Sample], width: int | None = None) -> list[Line]:
    """Return the lines of a table: a heading, each server, and the total. Without a width, show all columns."""
    rows = [sample for sample in (*samples, total(samples)) if not sample.error]
    columns = _fitting(rows, samples, width)
    widths = [_width(column, rows, samples) for column in columns]
    lines = [Line(_joined([column.heading for column in columns], widths), "bold")]
    for sample in samples:
        if sample.error:
            lines.append(Line(_cut(f"{text_of(sample.server):{widths[0]}}{_GAP}down: {sample.error}", width), "red"))
        else:
            lines.append(Line(_joined([column.cell(sample) for column in columns], widths)))
    if len(samples) > 1:
        lines.append(Line(_joined([column.cell(rows[-1]) for column in columns], widths), "bold"))
    return lines


def _fitting(rows: Sequence[Sample], samples: Sequence[Sample], width: int | None) -> list[Column]:
    columns = list(COLUMNS)
    while width is not None and len(columns) > 1:
        needed = sum(_width(column, rows, samples) for column in columns) + len(_GAP) * (len(columns) - 1)
        if needed <= width:
            break
        least = max(column.rank for column in columns)
        columns = [column for column in columns if column.rank < least]
    return columns


def _width(column: Column, rows: Sequence[Sample], samples: Sequence[Sample]) -> int:
    names = [text_of(sample.server) for sample in samples] if column is COLUMNS[0] else []
    return max(map(len, [column.heading, *names, *(column.cell(row) for row in rows)]))


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    (first, *others), (widest, *room) = cells, widths
    aligned: Iterator[str] = (f"{cell:>{width}}" for cell, width in zip(others, room))
    return _GAP.join((f"{first:{widest}}", *aligned)).rstrip()


def _cut(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= width else f"{text[: width - 1]}…"


def _memory(sample: Sample) -> str:
    used, limit = sample.figures["memory"], sample.figures["memory_limit"]
    return f"{size(used)}/{size(limit)}"


def amount(number: float) -> str:
    """Return a number in at most five characters, such as 999, 1.2k or 34M."""
    return _scaled(number, 1000, ("", "k", "M", "G", "T", "P"))


def size(number: float) -> str:
    """Return a number of bytes in at most five characters, such as 999B, 1.2K or 34M: powers of 1024."""
    return _scaled(number, 1024, ("B", "K", "M", "G", "T", "P"))


def _scaled(number: float, base: int, units: Sequence[str]) -> str:
    power = 0
    while number >= (999.5 if base == 1000 else 1023.5) and power < len(units) - 1:
        number, power = number / base, power + 1
    fraction = 0 < number < 9.95 and (power > 0 or number != int(number))
    return f"{number:.1f}{units[power]}" if fraction else f"{number:.0f}{units[power]}"


def _uptime(seconds: int) -> str:
    minutes = seconds // 60
    if minutes < 1:
        return f"{seconds}s"
    if minutes < 60:
        return f"{minutes}m"
    hours = minutes // 60
    return f"{hours}h{minutes % 60:02}m" if hours < 48 else f"{hours // 24}d{hours % 24:02}h"


def _as_json(sample: Sample) -> dict[str, Any]:
    said = dataclasses.asdict(sample)
    del said["at"]
    figures, rates = said.pop("figures"), said.pop("rates")
    error = said.pop("error")
    if error:
        return {"server": said["server"], "up": False, "error": error}
    per_second = {f"{name}_per_second": round(rate, 3) for name, rate in rates.items()}
    if sample.server == "total":
        del said["version"], said["uptime"]
    else:
        said["up"] = True
    return {**said, "hit_rate": sample.hit_rate, **figures, **per_second}
