"""A client process: ``python -m pinyon_verify.locks.client SETTINGS``."""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path

from .history import Recorder, wait_for_start
from .settings import Settings
from .share import watch_for_stalls
from .work import work
from .wrong_leaders import WRONG


def main() -> None:
    # Clients warn of things that are done to them on purpose here.
    logging.getLogger("pinyon").setLevel(logging.ERROR)
    settings = Settings.load(Path(sys.argv[1]))
    if settings.wrong:
        WRONG[settings.wrong]()
    recorder = Recorder(Path(settings.folder))
    recorder("ready")
    wait_for_start(Path(settings.folder))
    watcher = threading.Thread(target=watch_for_stalls, args=(recorder, Path(settings.folder)), daemon=True)
    watcher.start()
    work(settings, recorder)
    recorder("over")


if __name__ == "__main__":
    main()
