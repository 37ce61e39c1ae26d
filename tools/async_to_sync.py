"""Writes the locks for threads from those for tasks, so that both are one source. ``make signatures`` runs it.

The sources are those of `FILES`. What differs is below: patterns for code, and pairs of texts. An ``else`` after
``if True:  # ASYNC`` has the lines for threads. ``ruff`` removes unused imports, and formats. A test fails when a
written file is out of date.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "python/pinyon"
#: The files for tasks, and those that are written for threads.
FILES = {"_aio_lock.py": "_lock.py", "_aio_locks.py": "locks.py"}

#: Patterns, and what replaces them.
CODE = [
    (r"async (def|with)\b", r"\1"),
    (r"await (?:had|changed)\((.+), self\)", r"\1"),
    (r"await result_of\((\w+)\)", r"\1()"),
    (r"await ", ""),
    (r"(?m)^ *@awaited(_later)?\n", ""),
    (r'__module__ = "pinyon.aio"', '__module__ = "pinyon.locks"'),
    (r"Reply\[(\w+)\]", r"\1"),
    (r'"?(\bCallable\[\.\.\., )?Coroutine\[Any, Any, ([^\]]+)\](\])?"?', r"\1\2\3"),
    (r"from pinyon\._aio_leader import Leader", "from pinyon._leader import Leader"),
    (r"from pinyon\._aio_lock import", "from pinyon._lock import"),
    (r"from pinyon\._aio_driver import LOOPS", "from pinyon._gevent_choice import choose_for"),
    (r"(?m)^ *from pinyon\._aio_replies import .*\n", ""),
    (r"_loops = LOOPS", '_loops = choose_for("Locks")'),
    (r"from pinyon\._blocks import .*", "from pinyon._blocks import BlockingLock"),
    (r"AwaitedLock", "BlockingLock"),
    (r"ClosingAwaited", "Closing"),
    (r"OnceAwaited", "Once"),
    (r"awaited=True", "awaited=False"),
]

#: Texts in the order of the file, and what replaces them.
TEXTS = [
    (
        "The locks for asyncio and uvloop. They have the methods of ``pinyon.Locks``, awaited.",
        """Locks that processes share. A Redis or Valkey server keeps them; they can have several names, and are fair.

>>> locks = pinyon.Locks("redis://127.0.0.1:6379/0", namespace="app")
>>> with locks.lock("account:1", "account:2", ttl=10, timeout=5) as held:
...     transfer(fence=held.token)
""",
    ),
    (
        "# tools/async_to_sync.py writes locks.py, the locks for threads, from this file: run `make signatures` after "
        "a change.",
        "# tools/async_to_sync.py writes this file from _aio_locks.py: change that, and run `make signatures`.",
    ),
    (
        "What locks are made of, for asyncio and uvloop: a lock,",
        "What locks are made of, for threads and greenlets: a lock,",
    ),
    (
        "# tools/async_to_sync.py writes _lock.py, the same for threads, from this file: run `make signatures` after a "
        "change.",
        "# tools/async_to_sync.py writes this file from _aio_lock.py: change that, and run `make signatures`.",
    ),
    (" The request is sent even if the result is not awaited.", ""),
    ("A future of whether it was held", "Whether it was held"),
    ("A future of whether it is still held", "Whether it is still held"),
    ("        A task that is cancelled meanwhile does not hold the lock any more.\n\n", ""),
    (" If it returns an awaitable, that is awaited.", ""),
    ("A future of the ticket", "The ticket"),
    ("Use it in an ``with`` block, or as a decorator", "Use it in a ``with`` block, or as a decorator"),
    ("Use it in an ``with`` block, or call its ``start``", "Use it in a ``with`` block, or call its ``start``"),
    (
        " If it is a coroutine function, the\n                coroutine runs in a task of its own, which is cancelled "
        "when the leadership ends.",
        " One that works for\n                long must ask ``is_leader`` of the leader: it is not ended from outside.",
    ),
    (" It may be\n                a coroutine function.", " A thread\n                of the candidate's calls both."),
    ("An ``with`` block, or ``acquire``, takes", "A ``with`` block, or ``acquire``, takes"),
    (
        "Release all locks that the running event loop holds, whichever task has",
        "Release all locks that this process's threads hold, whichever thread has",
    ),
    ("A future of how", "How"),
    ("many tasks at once", "many threads at once"),
    (" A task that is cancelled meanwhile has used its permits.", ""),
    (
        "Another task can release it too, if only one task has",
        "Another thread can release it too, if only one thread has",
    ),
    ("Decorate a coroutine function:", "Decorate a function:"),
    (
        "which all tasks of all event loops of a process can share.",
        "which all threads of a process can share.",
    ),
    (
        "Its methods are those of ``pinyon.Locks``, awaited. Each event loop has its own connection. A task that is "
        "cancelled\n    while it waits for a lock leaves the queue.",
        "It connects on first use, and again when the connection was lost. Threads share one connection. A forked "
        "child\n    begins without the locks of its parent.",
    ),
    ("Use it in an ``with`` block, or its ``acquire``", "Use it in a ``with`` block, or call its ``acquire``"),
    (
        "or the function is not a coroutine\n                function.",
        "or the function is a coroutine\n                function or a generator.",
    ),
    (
        "Send a command on the connection of the locks, like ``pinyon.Locks.execute``.",
        "Send a command on the connection of the locks.",
    ),
    (
        "parts: the command's name and arguments.\n",
        "parts: the command's name and arguments. Commands that change the state of the connection, such as\n"
        "                ``SUBSCRIBE``, ``MULTI``, ``WATCH`` and ``SELECT``, are refused.\n",
    ),
    (
        "A future of the reply.",
        "The reply: bytes for stored values, text for statuses such as ``OK``, numbers, and lists of these.",
    ),
]

_CHOICE = re.compile(r"(?m)^( *)if True:  # ASYNC\n(?:\1 +.*\n|\n)+\1else:\n((?:\1 +.*\n|\n)+)")


def written() -> dict[Path, str]:
    """Return what each file for threads should have."""
    texts = {source: _CHOICE.sub(_for_threads, (PACKAGE / source).read_text()) for source in FILES}
    for pattern, replacement in CODE:
        found = re.compile(pattern)
        if not any(map(found.search, texts.values())):
            raise SystemExit(f"nothing in {' and '.join(FILES)} is {pattern}")
        texts = {source: found.sub(replacement, text) for source, text in texts.items()}
    for old, new in TEXTS:
        if not any(old in text for text in texts.values()):
            raise SystemExit(f"{' and '.join(FILES)} do not say: {old}")
        texts = {source: text.replace(old, new) for source, text in texts.items()}
    return {(path := PACKAGE / FILES[source]): _formatted(text, path) for source, text in texts.items()}


def _for_threads(choice: re.Match[str]) -> str:
    return re.sub(r"(?m)^    ", "", choice[2])


def _formatted(text: str, path: Path) -> str:
    for arguments in (["check", "--fix", "--select", "F401,I"], ["format"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--quiet", "--stdin-filename", str(path), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main() -> int:
    """Write the files anew."""
    for path, text in written().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
