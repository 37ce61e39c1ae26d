"""``pinyon locks servers``: the servers of locks, and the Sentinels that watch them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pinyon._survey import Survey, survey
from pinyon.cli.standing import name_of_namespace, opened
from pinyon.cli.terminal import print_rows, say, space_out, text_of

if TYPE_CHECKING:
    import argparse

    from pinyon._survey import Sentinel, Server


def servers(options: argparse.Namespace) -> int:
    """Print the servers. Return 1 if the locks of the namespace cannot be held now."""
    with opened(options) as locks:
        found = survey(locks)
        namespace = name_of_namespace(locks)
    if options.json:
        print(json.dumps(_as_json(found), indent=2))
    else:
        _print(found, namespace)
    return 0 if found.is_ready else 1


def _print(found: Survey, namespace: str) -> None:
    if found.sentinels:
        rows = [(each.address, _said(each)) for each in found.sentinels]
        print_rows(("SENTINEL", f"SAYS OF {text_of(found.service or '')}"), rows)
        space_out()
    print_rows(("SERVER", "ROLE", "VERSION", "STATE"), [_row(each) for each in found.servers])
    space_out()
    say(f"namespace {namespace}: {_where(found)}")


def _said(sentinel: Sentinel) -> str:
    if sentinel.error is not None:
        return text_of(sentinel.error)
    quorum = "" if sentinel.quorum is None else f", quorum {sentinel.quorum}"
    return f"primary {sentinel.primary}, {_count(len(sentinel.others), 'other Sentinel')}{quorum}"


def _row(server: Server) -> tuple[str, str, str, str]:
    if server.error is not None:
        return server.address, "unknown", "unknown", text_of(server.error)
    states = []
    if server.votes_in is not None:
        states.append("has a vote" if server.votes_in == 0 else f"has a vote in {server.votes_in:.0f} s")
    elif server.has_locks:
        states.append("has the locks")
    if server.slots is not None:
        states.append(_count(server.slots, "slot"))
    if server.role == "replica":
        behind = "" if server.behind is None else f", {_count(server.behind, 'byte')} behind"
        states.append(f"of {server.primary}, link {'up' if server.is_linked else 'down'}{behind}")
    elif server.replicas or server.votes_in is None:
        states.append(_count(len(server.replicas), "replica"))
    return server.address, server.role or "unknown", server.version or "unknown", "; ".join(states)


def _where(found: Survey) -> str:
    if found.kind == "quorum":
        needed = len(found.servers) // 2 + 1
        votes = f"{found.votes} of {len(found.servers)} servers have a vote, and a lock needs {needed}"
        return votes if found.is_ready else f"{votes}: no lock can be held now"
    slot = "" if found.slot is None else f"slot {found.slot}, "
    if found.primary is not None:
        return f"{slot}on {found.primary}"
    if len(found.owners) > 1:
        return f"{slot}the nodes do not agree: {', '.join(found.owners)}"
    return f"{slot}no server has its locks now"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _as_json(found: Survey) -> dict[str, object]:
    return {
        **found._asdict(),
        "primary": found.primary,
        "sentinels": [each._asdict() for each in found.sentinels],
        "servers": [each._asdict() for each in found.servers],
    }
