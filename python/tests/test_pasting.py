"""The programs of the first pages can be pasted into ``python``, as those pages say."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import time

import pytest
from pages import REPOSITORY, Block, blocks
from servers import Memcached, Redis

PAGES = ("README.md", "python/README.md", "docs/install.md", "docs/five-minutes.md")
BLOCKS = [block for page in PAGES for block in blocks(REPOSITORY / page) if block.language == "python"]

#: Seconds for Python to start, and for a program to end, on a machine that does something else as well.
PATIENCE = 60.0


class Prompt:
    """Python's prompt on a terminal."""

    def __init__(self) -> None:
        # The prompt of Python 3.13 would move the cursor about. Its plain one reads what is pasted in the same way.
        environment = {**os.environ, "TERM": "dumb", "PYTHON_BASIC_REPL": "1", "PYTHONUNBUFFERED": "1"}
        self._shown = ""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, [sys.executable, "-q"], environment)
        self._wait_for(">>> ")

    def paste(self, text: str) -> str:
        """Type a text and press Enter. Return what the terminal shows until all of it was run."""
        self._shown = ""
        self._type(f"{text}\n")
        self._type("print('it', 'was', 'run')\n")
        self._wait_for("it was run")
        return self._shown.replace("\r\n", "\n")

    def close(self) -> None:
        """Leave Python."""
        self._type("raise SystemExit\n")
        os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def _type(self, text: str) -> None:
        for line in text.splitlines(keepends=True):
            os.write(self._terminal, line.encode())
            self._read(0.0)

    def _wait_for(self, text: str) -> None:
        give_up = time.monotonic() + PATIENCE
        while text not in self._shown:
            assert time.monotonic() < give_up, self._shown
            self._read(1.0)

    def _read(self, seconds: float) -> None:
        while select.select([self._terminal], [], [], seconds)[0]:
            self._shown += os.read(self._terminal, 65536).decode()
            seconds = 0.0


def pasted(source: str) -> str:
    """Paste a program into Python. Return what the terminal shows."""
    prompt = Prompt()
    try:
        return prompt.paste(source)
    finally:
        prompt.close()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_can_be_pasted_into_python(block: Block, server: Memcached, redis: Redis) -> None:
    source = block.source.replace("127.0.0.1:11211", server.address).replace("127.0.0.1:6379", redis.address)
    shown = pasted(source)
    assert not re.search(r"^(Traceback|\w*Error\b)", shown, re.MULTILINE), shown
    printed = re.findall(r"^ *print\(.*\) +# (.+?)(?: \(.*\))?$", source, re.MULTILINE)
    if block.page.name != "five-minutes.md":  # The comments of other pages are prose.
        return
    assert [text for text in printed if not re.search(f"^{re.escape(text)}$", shown, re.MULTILINE)] == [], shown


def test_a_block_that_cannot_be_pasted_is_found() -> None:
    shown = pasted("def late():\n    first = 1\n\n    print(first)\n")
    assert "IndentationError" in shown
