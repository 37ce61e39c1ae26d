"""``pinyon locks release``: takes locks from their holders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pinyon.cli.standing import age, holder, namespace_of, noted, opened, statuses, time_left, token_of
from pinyon.cli.terminal import complain, say, text_of

if TYPE_CHECKING:
    import argparse

    from pinyon.locks import Locks, LockStatus


def release(options: argparse.Namespace) -> int:
    """Release names by force. Return 0 if all were held and are released, 1 if not, 2 if it cannot ask."""
    with opened(options) as locks:
        found = statuses(locks, list(dict.fromkeys(options.names)))
        to_release = [status for status in found if _is_meant(status, options.token, locks)]
        if not to_release:
            return 1
        if not options.yes:
            if not sys.stdin.isatty():
                complain("this is not a terminal, so there is no one to ask: add --yes to release it anyway")
                return 2
            if not _is_wanted(to_release):
                complain("nothing was released")
                return 1
        released = [_release(status, locks) for status in to_release]
    return 0 if all(released) and len(to_release) == len(found) else 1


def _is_meant(status: LockStatus, token: int | None, locks: Locks) -> bool:
    name = text_of(status.name)
    if status.holder is None:
        complain(f"{name} is not held in {namespace_of(locks)}")
    elif token is not None and status.token is None:
        complain(f"{name} is held by {holder(status)}, and only the holder knows its token: leave out --token")
    elif token is not None and status.token != token:
        complain(f"{name} is held by {holder(status)} with token {status.token}, not {token}")
    else:
        return True
    return False


def _is_wanted(held: list[LockStatus]) -> bool:
    for status in held:
        say(f"{text_of(status.name)} is held by {noted(status, status.holder or '')}")
        say(f"  token {token_of(status)}, age {age(status)}, left {time_left(status)}, waiting {len(status.waiting)}")
    try:
        answer = input(f"Release {'it' if len(held) == 1 else 'them'}? The holder may be at work. [y/N] ")
    except EOFError:
        print()
        return False
    return answer.strip().lower() in ("y", "yes")


def _release(status: LockStatus, locks: Locks) -> bool:
    """Release the locks that were shown. The token protects a lock that another holder has acquired since."""
    name = text_of(status.name)
    if not locks.force_release(status.name, token=status.token):
        complain(f"{name} has changed hands meanwhile, and was not released")
        return False
    say(f"{name} is released; it was held by {holder(status)}, token {token_of(status)}")
    return True
