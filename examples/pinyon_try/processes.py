"""Processes of a scene, each with a pipe to it."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

#: If a process says nothing for so long, something is wrong. In seconds.
PATIENCE = 60


@contextlib.contextmanager
def started(target: Callable[..., None], *arguments: object) -> Iterator[tuple[SpawnProcess, Connection]]:
    """Start a process, and kill it at the end of the block.

    Args:
        target: what it calls, with the arguments and its end of the pipe.
        arguments: what can be pickled.

    Yields:
        The process, and our end of the pipe.
    """
    spawned = multiprocessing.get_context("spawn")
    ours, theirs = spawned.Pipe()
    process = spawned.Process(target=target, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()
