"""The process under test: all workers of one concurrency model. ``python -m pinyon_verify.soak.client SETTINGS``."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pinyon.cli.stress.models import Model

from .ledger import Ledger
from .models import MODELS, make_client
from .sabotage import SABOTAGES
from .worker import TIMEOUT, Record, Tribe, Worker

#: Seconds beyond its timeout after which an operation counts as hung; generous, for busy machines.
MARGIN = 15.0
#: Seconds between two looks at the workers.
LOOK = 0.2
#: The fraction of the time after which memory must hardly grow.
WARM = 0.3


def main() -> None:
    logging.getLogger("pinyon").setLevel(logging.CRITICAL)  # servers go down here by the dozen
    settings: dict[str, Any] = json.loads(sys.argv[1])
    model = MODELS[settings["model"]]()
    record = Record()
    _warm_up(model, settings["servers"])
    before = _descriptors()
    watch = _Watch(record, settings["seconds"])
    _soak(model, settings, record, watch)
    watch.over.set()
    gc.collect()
    print(json.dumps(_result(record, before, _descriptors(), watch)), flush=True)


def _warm_up(model: Model, servers: list[str]) -> None:
    """Descriptors that a model opens once and keeps, such as its loop's, are no leak."""

    async def use() -> None:
        client = make_client(model, servers, timeout=5)
        await client.get("warm")
        client.close()

    model.run(use())
    gc.collect()


def _soak(model: Model, settings: dict[str, Any], record: Record, watch: _Watch) -> None:
    workers: list[Worker] = []
    tribes = []
    half = settings["workers"] // 2
    until = time.monotonic() + settings["seconds"]
    for name, failover, numbers in (
        ("stay", False, range(half)),
        ("move", True, range(half, settings["workers"])),
    ):
        client = make_client(
            model, settings["servers"], timeout=TIMEOUT, connect_timeout=TIMEOUT / 2, failover=failover
        )
        if settings["sabotage"]:
            client = SABOTAGES[settings["sabotage"]].make(client)
        tribe = Tribe(name, client, Ledger(keys_stay=not failover), numbers)
        tribes.append(tribe)
        workers += [Worker(number, tribe, record, f"{settings['seed']}:{model.name}", until) for number in numbers]
    watch.workers = workers
    Path(settings["begun"]).touch()
    model.run(model.together([worker.work(model.sleep) for worker in workers]))
    for tribe in tribes:
        tribe.client.close()


class _Watch(threading.Thread):
    """Watches memory and descriptors, and ends the process when an operation hangs."""

    def __init__(self, record: Record, seconds: float) -> None:
        super().__init__(daemon=True)
        self.record = record
        self.warm_at = time.monotonic() + seconds * WARM
        self.workers: list[Worker] = []
        self.looks = Looks()
        self.over = threading.Event()
        self.most_sockets = 0
        self.warm_memory = 0
        self.start()

    def run(self) -> None:
        while not self.over.wait(LOOK):
            self.most_sockets = max(self.most_sockets, _sockets())
            if not self.warm_memory and time.monotonic() > self.warm_at:
                self.warm_memory = _memory()
            if hanging := self.looks.hanging(self.workers):
                self._end(*hanging)

    def _end(self, number: int, name: str) -> None:
        faulthandler.dump_traceback(all_threads=True)
        self.record.findings.append(f"hang: {name} of worker {number} does not return")
        print(json.dumps(_result(self.record, 0, 0, self)), flush=True)
        os._exit(0)


class Looks:
    """Finds an operation that hangs: one that is under way at every look for long.

    Looks are counted, not seconds: a process that its machine keeps from running does not look either.
    """

    #: `cas` is two operations.
    MOST = int((2 * TIMEOUT + MARGIN) / LOOK)

    def __init__(self) -> None:
        #: The operation of each worker at the last look, and at how many looks in a row it was the same.
        self._found: dict[int, tuple[object, int]] = {}

    def hanging(self, workers: list[Worker]) -> tuple[int, str] | None:
        """Look once. Return the number of a worker whose operation hangs, and the operation's name."""
        for worker in workers:
            busy = worker.busy
            before, looks = self._found.get(worker.number, (None, 0))
            looks = looks + 1 if busy is before else 1
            self._found[worker.number] = busy, looks
            if busy and looks > self.MOST:
                return worker.number, busy[0]
        return None


def _result(record: Record, before: int, after: int, watch: _Watch) -> dict[str, Any]:
    memory = _memory()
    return {
        **vars(record),
        "descriptors_before": before,
        "descriptors_after": after,
        "most_sockets": watch.most_sockets,
        "open": _open(),
        "warm_memory": watch.warm_memory or memory,
        "memory": memory,
    }


def _descriptors() -> int:
    return len(_open())


def _sockets() -> int:
    """How many connections the process has. A caller that waits for one holds both ends of a pipe instead."""
    return sum(name.startswith("socket:") for name in _open())


def _open() -> list[str]:
    """What the process's descriptors are of, such as ``socket:[4711]``. Some are closed meanwhile, as that of the folder is."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(found)


def _memory() -> int:
    """The process's memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
