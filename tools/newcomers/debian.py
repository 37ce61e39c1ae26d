"""What a newcomer types on a fresh Debian 12: the lines of README.md, from installing packages to a lock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from newer.folders import REPOSITORY

from .place import Place

README = (REPOSITORY / "README.md").read_text()
USER, HOME = 1000, "/home/ada"
#: Git is told that this checkout is the place that the page clones.
CLONED = re.search(r"^git clone (\S+)$", (REPOSITORY / "docs" / "install.md").read_text(), re.MULTILINE)
#: Neither a folder nor a container has what starts servers when they are installed.
SERVERS = "memcached -d && redis-server --daemonize yes >/dev/null"
#: A server that has begun may not listen yet.
LISTEN = "until (echo >/dev/tcp/127.0.0.1/11211 && redis-cli ping) >/dev/null 2>&1; do sleep 0.1; done"


@dataclass(frozen=True)
class Line:
    """One line that is typed.

    Args:
        typed: the line.
        as_root: whether root types it.
        with_servers: whether it uses servers, which are started before it on a network of its own.
    """

    typed: str
    as_root: bool = False
    with_servers: bool = False


def lines() -> list[Line]:
    """Returns the lines in the order in which they are typed."""
    assert CLONED is not None
    servers, packages, environment, install = (found(pattern) for pattern in LINES)
    return [
        Line("apt-get update", as_root=True),
        Line("apt-get install -y git", as_root=True),
        Line(servers, as_root=True),
        Line(packages, as_root=True),
        Line(f"git clone {CLONED[1]} && cd pinyon"),
        Line(environment),
        Line(install),
        *(Line(f".venv/bin/python <<'END'\n{program}END", with_servers=True) for program in programs()),
    ]


def programs() -> list[str]:
    """Returns README.md's programs: one with a cache, one with a lock."""
    cache, lock = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [cache, lock]


LINES = (
    r"^sudo (apt-get install -y memcached redis-server)$",
    r"^sudo (apt-get install -y gcc .*?) +#",
    r"^(python3 -m venv \.venv)$",
    r"^(\.venv/bin/pip install \./python) +#",
)


def found(pattern: str) -> str:
    """Returns what README.md has where a pattern matches."""
    line = re.search(pattern, README, re.MULTILINE)
    assert line is not None, pattern
    return line[1]


def play() -> Iterator[tuple[str, str]]:
    """Plays the lines. Yields each with its prompt, and what it prints. Raises `CalledProcessError` if one fails."""
    place = Place("newcomer")
    assert CLONED is not None
    # Who clones a checkout of another user is asked whether it is safe.
    settings = f'[url "/checkout"]\n\tinsteadOf = {CLONED[1]}\n[safe]\n\tdirectory = *\n'
    (place.path / "changes" / "etc").mkdir()
    (place.path / "changes" / "etc" / "gitconfig").write_text(settings)
    try:
        place.run(f"useradd --create-home --uid {USER} --shell /bin/bash ada", folder="/")
        folder = HOME
        have_begun = False
        for line in lines():
            user = 0 if line.as_root else USER
            before = f"{SERVERS}; {LISTEN}; " if line.with_servers else ""
            more = {} if line.as_root else {"HOME": HOME}
            words = before + line.typed
            printed = place.run(words, folder=folder, user=user, network=not line.with_servers, more=more)
            if line.typed.endswith(" && cd pinyon"):
                folder = f"{HOME}/pinyon"
            if line.with_servers and not have_begun:
                # They end with each line, and begin again before the next, which is not shown.
                yield f"$ {SERVERS}", ""
                have_begun = True
            yield ("# " if line.as_root else "$ ") + line.typed, printed
    finally:
        place.remove()
