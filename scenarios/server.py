"""The scripted faulty server: ``python3 scenarios/server.py [--memcached ADDRESS] … FILE.json …``.

Its first line is JSON with the address of each scenario; `README.md` describes the rest. It ends when its standard
input does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys

from expand import load
from listener import ScriptedServer


def main() -> None:
    options = _parser().parse_args()
    real = vars(options)
    with contextlib.ExitStack() as stack:
        servers: dict[str, ScriptedServer] = {}
        played = []
        for scenario in load(options.files):
            server = ScriptedServer(
                scenario.protocol,
                scenario.steps,
                scenario.answers,
                faulty_connections=scenario.faulty_connections,
                real=real[scenario.behind],
            )
            servers[scenario.name] = stack.enter_context(server)
            played.append({**scenario.for_clients(), "address": server.address})
        _say(played)
        for line in sys.stdin:
            word, _, name = line.strip().partition(" ")
            if word == "heal":
                servers[name].heal()
            _say(servers[name].report())


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Plays the scenarios of these files, each at an address of its own.")
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("--memcached", default="", metavar="HOST:PORT", help="the real server behind healed ones")
    parser.add_argument("--redis", default="", metavar="HOST:PORT", help="the same for scenarios of locks")
    for protocol in ("memcached", "redis"):
        text = f"the {protocol} behind those whose clients log in"
        parser.add_argument(f"--{protocol}-login", default="", metavar="HOST:PORT", help=text)
    return parser


if __name__ == "__main__":
    main()
