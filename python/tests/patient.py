"""Runs a script or ``-m module``, as Python does, with clients that wait as long as a busy machine needs.

What users write does without timeouts, and the default is meant for machines that have time for them.
"""

from __future__ import annotations

import functools
import runpy
import sys
from typing import Any

import pinyon
import pinyon.aio


def main() -> None:
    library: Any
    for library in (pinyon, pinyon.aio):
        library.Client = functools.partial(library.Client, timeout=60, connect_timeout=60)
    del sys.argv[0]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        sys.path.insert(0, "")
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
