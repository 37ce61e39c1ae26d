"""Plays what newcomers type, in fresh folders with Debian and Alpine, and writes docs/newcomer.md with what they see.

PYTHONPATH=tools:tools/distribution python -m newcomers [debian] [container] [alpine]
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator

from newer.folders import REPOSITORY, CannotInstall

from . import alpine, containers, debian

PAGE = REPOSITORY / "docs" / "newcomer.md"
CONTAINER = REPOSITORY / "examples" / "containers" / "Dockerfile.debian"
#: Longer output is shortened to its beginning and its end.
SHOWN = 8
AT_THE_END = 4
#: What says where something comes from, or is kept for a moment, differs each time.
LEFT_OUT = re.compile(r"(?:Get|Hit|Ign):\d|Fetched \d| *Stored in directory:")
PLAYS: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "debian": debian.play,
    "container": lambda: containers.play(CONTAINER),
    "alpine": alpine.play,
}


def main() -> int:
    """Plays what is named, or all. Returns the process's exit status."""
    names = sys.argv[1:] or list(PLAYS)
    if unknown := [name for name in names if name not in PLAYS]:
        print(f"newcomers: nothing is named {unknown[0]}; there are {', '.join(PLAYS)}", file=sys.stderr)
        return 2
    try:
        for name in names:
            write(name, transcript(PLAYS[name]()))
    except CannotInstall as reason:
        print(f"newcomers: {reason}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(
            f"newcomers: {error.cmd}\n{error.output}\nnewcomers: ended with status {error.returncode}", file=sys.stderr
        )
    else:
        return 0
    return 1


def transcript(played: Iterator[tuple[str, str]]) -> str:
    """Returns what is typed and printed, as it is played; long output is shortened."""
    shown = []
    for typed, printed in played:
        part = "\n".join(filter(None, [typed, shortened(printed)]))
        print(part, flush=True)
        shown.append(part)
    return "\n".join(shown) + "\n"


def shortened(printed: str) -> str:
    """Returns output with three dots in the place of its middle, if it is long."""
    # What comes before a carriage return was overwritten on the screen.
    lines = [line.rpartition("\r")[2].rstrip() for line in printed.replace("\r\n", "\n").splitlines()]
    lines = [line for line in lines if line and not LEFT_OUT.match(line)]
    if len(lines) > SHOWN:
        lines[SHOWN - AT_THE_END : -AT_THE_END] = ["…"]
    return "\n".join(lines)


def write(name: str, text: str) -> None:
    """Puts a transcript into the page, in the place of the one before."""
    block = f"<!-- {name} -->\n```text\n{text}```\n"
    page, count = re.subn(
        rf"<!-- {name} -->\n```text\n.*?^```\n", lambda _: block, PAGE.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    assert count == 1, name
    PAGE.write_text(page)


if __name__ == "__main__":
    sys.exit(main())
