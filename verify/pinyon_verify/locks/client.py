"""A client process: ``python -m pinyon_verify.locks.client SETTINGS``."""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path

from . import asyncio_work, blocking_work
from .history import Recorder, wait_for_start
from .section import Worker, watch_for_stalls
from .settings import Settings


def main() -> None:
    # What clients warn of is done to them on purpose here.
    logging.getLogger("pinyon").setLevel(logging.ERROR)
    settings = Settings.load(Path(sys.argv[1]))
    recorder = Recorder(Path(settings.folder))
    recorder("ready")
    settings = settings.but(until=wait_for_start(Path(settings.folder)))
    watcher = threading.Thread(target=watch_for_stalls, args=(recorder, settings.until), daemon=True)
    watcher.start()
    workers = [Worker(settings, recorder, number) for number in range(settings.workers)]
    module = asyncio_work if settings.model == "asyncio" else blocking_work
    module.work(settings, workers)
    recorder("over")


if __name__ == "__main__":
    main()
