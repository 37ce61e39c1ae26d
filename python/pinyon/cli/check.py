"""``pinyon check``: report whether servers are ready for use, before a program needs them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pinyon.checking import check_caches, check_locks
from pinyon.cli.terminal import say_labelled, text_of
from pinyon.cli.timeouts import connect_timeout_of
from pinyon.cli.trust import login_of, tls_of

if TYPE_CHECKING:
    import argparse

    from pinyon.checking import Finding

#: The colours of levels on a terminal.
_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}
_SCHEMES = re.compile(r"rediss?(\+cluster|\+sentinel)?://|unix://")


def check(options: argparse.Namespace) -> int:
    """Print the findings. Return 1 if one of them is an error."""
    findings = _findings(options)
    if options.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        for finding in findings:
            text = f"  {text_of(finding.server)}: {text_of(finding.message)}"
            say_labelled(f"{finding.level:<7}", text, _STYLES[finding.level])
    return 1 if any(finding.level == "error" for finding in findings) else 0


def _findings(options: argparse.Namespace) -> list[Finding]:
    tls = tls_of(options)
    urls = [server for server in options.servers if _SCHEMES.match(server)]
    servers = [server for server in options.servers if server not in urls]
    connecting = connect_timeout_of(options.timeout)
    findings: list[Finding] = []
    if servers or not urls:
        settings: dict[str, Any] = {"timeout": options.timeout, "connect_timeout": connecting, **login_of(options)}
        findings += check_caches(servers or None, ring=options.ring, tls=tls or options.tls, **settings)
    for url in urls:
        findings += check_locks(url, command_timeout=options.timeout, connect_timeout=connecting, tls=tls)
    return findings
