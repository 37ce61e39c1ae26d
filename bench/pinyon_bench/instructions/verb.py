"""The verb `instructions`: counts, then writes the record or compares with it."""

from __future__ import annotations

import argparse
import os

from rich.console import Console
from rich.table import Table

from . import record as records
from .callgrind import CountError
from .programs import count_all
from .record import TOLERANCE, UPDATE, Change, Record


def instructions(options: argparse.Namespace, console: Console) -> None:
    """Counts all operations and writes the record; with `check`, raises CountError instead when one has grown."""
    if options.check:
        _check(records.read(records.FILE), console)
        return
    before = records.read(records.FILE) if records.FILE.exists() else Record("", {}, {})
    counted = count_all()
    records.write(counted, records.FILE)
    console.print(_table(records.changes(before, counted)))
    console.print(f"wrote {os.path.relpath(records.FILE)}")


def _check(record: Record, console: Console) -> None:
    different = records.differences(record)
    if different:
        in_part = different.keys() <= set(records.LANGUAGES)
        what = "other languages' rows are compared" if in_part else "not compared"
        console.print(f"instructions: {what}; the record was counted elsewhere: {', '.join(different.values())}.")
        console.print(f"To compare changes here, write a record of the state before them: {UPDATE}")
        if not in_part:
            return
    changes = records.changes(record, count_all(), without=different)
    console.print(_table(changes))
    gains = [str(change) for change in changes if change.gains]
    if gains:
        console.print(*gains, f"To keep it so, write the record anew: {UPDATE}", sep="\n")
    failures = [change for change in changes if change.fails]
    if failures:
        raise CountError(_complaint(record, failures))


def _complaint(record: Record, failures: list[Change]) -> str:
    lines = [
        f"instructions differ from the record of commit {record.commit}:",
        *(f"  {change}" for change in failures),
        f"No operation may grow by more than {TOLERANCE:.0%} unnoticed. Make it as cheap as it was, or write the record "
        f"anew in the same change, and say there what it is good for: {UPDATE}",
    ]
    return "\n".join(lines)


def _table(changes: list[Change]) -> Table:
    table = Table("operation", "instructions", "recorded", "change", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for change in changes:
        figures = (f"{figure:,}" if figure is not None else "–" for figure in (change.now, change.before))
        table.add_row(change.name, *figures, f"{change.growth:+.1%}" if change.before and change.now else "")
    return table
