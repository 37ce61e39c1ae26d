"""``pinyon locks list`` and ``pinyon locks show``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pinyon.cli.standing import (
    age,
    holder,
    locked_names,
    namespace_of,
    noted,
    opened,
    readers,
    statuses,
    time_left,
    token_of,
)
from pinyon.cli.terminal import complain, print_rows, say, text_of

if TYPE_CHECKING:
    import argparse

    from pinyon.locks import LockStatus


def list_all(options: argparse.Namespace) -> int:
    """Print the locked names of a namespace. Return 0."""
    with opened(options) as locks:
        found = [status for status in statuses(locks, locked_names(locks)) if status.holder is not None]
        if options.json:
            _print_json(found)
        elif found:
            rows = [
                (
                    text_of(each.name),
                    readers(each) or holder(each),
                    token_of(each),
                    age(each),
                    time_left(each),
                    str(len(each.waiting)),
                    text_of(each.note or ""),
                )
                for each in found
            ]
            columns = ("NAME", "HOLDER", "TOKEN", "AGE", "LEFT", "WAITING", "NOTE")
            print_rows(columns, rows, right=columns[2:6])
        else:
            complain(f"nothing is locked in {namespace_of(locks)}")
    return 0


def show(options: argparse.Namespace) -> int:
    """Print who holds each name, since when and until when, and who waits. Return 1 if all names are free."""
    with opened(options) as locks:
        found = statuses(locks, options.names)
    if options.json:
        _print_json(found)
    else:
        for status in found:
            _print_one(status)
    return 0 if any(status.holder is not None for status in found) else 1


def _print_one(status: LockStatus) -> None:
    say(text_of(status.name), style="bold")
    if status.holder is None:
        say("  free")
    elif status.readers:
        for number, attempt in enumerate(status.readers, 1):
            say(f"  {'readers' if number == 1 else '':7}  {number}. {noted(status, attempt)}")
        say(f"  left     {time_left(status)}")
    else:
        say(f"  holder   {noted(status, status.holder)}")
        say(f"  attempt  {text_of(status.holder)}")
        say(f"  token    {token_of(status)}")
        say(f"  age      {age(status)}")
        say(f"  left     {time_left(status)}")
    for number, attempt in enumerate(status.waiting, 1):
        say(f"  {'waiting' if number == 1 else '':7}  {number}. {noted(status, attempt)}")


def _print_json(found: list[LockStatus]) -> None:
    print(json.dumps([_as_json(status) for status in found], indent=2))


def _as_json(status: LockStatus) -> dict[str, Any]:
    name = status.name if isinstance(status.name, str) else status.name.decode("utf-8", "surrogateescape")
    owners = {attempt: who._asdict() for attempt, who in status.owners.items()}
    of_holder = {field: getattr(status, field) for field in ("host", "pid", "label", "note")}
    return {**status._asdict(), "name": name, "owners": owners, **of_holder, "process": status.pid}
