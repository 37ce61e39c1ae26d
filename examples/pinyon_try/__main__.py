"""Plays three scenes on servers that it starts itself, and shows what happens.

Usage: python -m pinyon_try [--html FILE] [scene ...]
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pinyon.cli.terminal import say

from . import dead_server, killed_holder, picture, stampede
from .screen import Screen
from .servers import CannotStart

SCENES = {"stampede": stampede.play, "dead-server": dead_server.play, "lock": killed_holder.play}


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the scenes. Returns the exit status: 0, or 1 if a server cannot be started."""
    parser = argparse.ArgumentParser(prog="pinyon_try", description="Play three scenes on real servers.")
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write a page with a picture of each scene")
    parser.add_argument("scenes", metavar="scene", nargs="*", help=f"some of: {', '.join(SCENES)} (default: all)")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.scenes if name not in SCENES]
    if unknown:
        parser.error(f"unknown scene {unknown[0]!r}: choose from {', '.join(SCENES)}")
    # The scenes show the events. Without a handler, Python would print them once more.
    logging.getLogger("pinyon").addHandler(logging.NullHandler())
    screen = Screen()
    # The path of a Unix socket has at most 107 bytes, so not in a folder of the user's.
    with tempfile.TemporaryDirectory(prefix="pinyon-try-", dir="/tmp") as folder:
        try:
            for name in asked.scenes or SCENES:
                SCENES[name](screen, Path(folder))
        except CannotStart as error:
            print(f"pinyon_try: {error}", file=sys.stderr)
            return 1
    if asked.html:
        asked.html.write_text(picture.page(screen.scenes), encoding="utf-8")
        say("")
        say(f"A picture of this run: {asked.html}")
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
