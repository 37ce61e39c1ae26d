"""What each server carried out, in order, from its append-only files: also what a replica received.

``MONITOR`` has gaps at failovers, because Sentinels end the connections of servers that they promote or demote.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .observer import name_of, process_of
from .server import Server

#: How often to look for new files. A file is kept by the server for longer.
EVERY = 0.02


@dataclass(frozen=True)
class Change:
    """A name's lock after a change: the attempt that has it until a millisecond of the server's clock, or none."""

    name: str
    attempt: str = ""
    token: int = 0
    expiry: int = 0
    #: Milliseconds, if this granted the lock.
    ttl: int = 0


#: Whose lock it is: the process, and the token.
Holder = tuple[int, int]


@dataclass
class Journal:
    """One server's changes, in order."""

    changes: list[Change] = field(default_factory=list)
    #: For each holder, until when the server kept its lock at most, in milliseconds of its clock.
    kept: dict[Holder, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, change: Change) -> None:
        self.changes.append(change)
        if change.attempt:
            holder = (process_of(change.attempt), change.token)
            self.kept[holder] = max(self.kept[holder], change.expiry)


class Journals:
    """A thread that links the files of all servers into a folder, before the servers remove them."""

    def __init__(self, servers: list[Server], folder: Path) -> None:
        self._servers, self._folder = servers, folder
        self._names: dict[tuple[int, int, int], Path] = {}
        self._stopped = threading.Event()
        folder.mkdir()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> list[Journal]:
        """Return the journal of each server."""
        self._stopped.set()
        self._thread.join()
        self._collect()
        return [self._journal(index) for index in range(len(self._servers))]

    def _run(self) -> None:
        while not self._stopped.wait(EVERY):
            self._collect()

    def _collect(self) -> None:
        for index, server in enumerate(self._servers):
            for generation in range(server.generation + 1):
                folder = server.data(generation) / "appendonlydir"
                try:
                    entries = list(os.scandir(folder))
                except OSError:
                    continue
                for entry in entries:
                    if entry.name.endswith((".aof", ".incr")):
                        self._keep(index, generation, entry)

    def _keep(self, index: int, generation: int, entry: os.DirEntry[str]) -> None:
        try:
            key = (index, generation, entry.inode())
            if key not in self._names:
                os.link(entry.path, self._folder / f"{index}-{generation}-{entry.inode()}")
            self._names[key] = Path(entry.name)
        except OSError:
            pass

    def _journal(self, index: int) -> Journal:
        journal = Journal()
        files = [
            (generation, *_place(name), inode) for (of, generation, inode), name in self._names.items() if of == index
        ]
        reader = _Reader(journal)
        for generation, _, is_change, inode in sorted(files):
            if not is_change:
                reader.forget()
            reader.read(self._folder / f"{index}-{generation}-{inode}")
        return journal


def _place(name: Path) -> tuple[float, bool]:
    """The number of an append-only file, and whether it has changes to the one before."""
    words = name.name.split(".")
    number = next((int(word) for word in words if word.isdigit()), float("inf"))
    return number, "incr" in words


class _Reader:
    """Follows what the files say about locks."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._locks: dict[str, Change] = {}
        self._counters: dict[bytes, int] = {}

    def forget(self) -> None:
        self._locks, self._counters = {}, {}

    def read(self, path: Path) -> None:
        for words in commands(path.read_bytes()):
            self._follow(words[0].upper(), words[1:])

    def _follow(self, command: bytes, words: list[bytes]) -> None:
        if command == b"SET":
            self._set(words)
        elif command == b"MSETNX":
            for key, value in zip(words[::2], words[1::2]):
                self._lock(key, value, 0)
        elif command == b"INCR":
            self._counters[words[0]] = self._counters.get(words[0], 0) + 1
        elif command == b"PEXPIREAT":
            lock = self._locks.get(name_of(words[0]) or "")
            if lock:
                self._have(Change(lock.name, lock.attempt, lock.token, int(words[1])))
        elif command in (b"RESTORE", b"RESTORE-ASKING"):
            if text := _restored(words[2]):
                self._lock(words[0], text, int(words[1]))
        elif command in (b"DEL", b"UNLINK"):
            for key in words:
                if name := name_of(key):
                    self._have(Change(name))
        elif command in (b"FLUSHALL", b"FLUSHDB"):
            self.forget()

    def _set(self, words: list[bytes]) -> None:
        key, value, *options = words
        if key.endswith(b":#f"):
            self._counters[key] = int(value)
            return
        upper = [option.upper() for option in options]
        expiry = int(options[upper.index(b"PXAT") + 1]) if b"PXAT" in upper else 0
        self._lock(key, value, expiry)

    def _lock(self, key: bytes, value: bytes, expiry: int) -> None:
        name = name_of(key)
        if name is None:
            return
        attempt, *rest = value.decode().split(" ")
        counter = key[: key.index(b":l:")] + b":#f"
        # A pure client draws its token just before.
        token = int(rest[0]) if rest else self._counters.get(counter, 0)
        ttl = int(rest[1]) if len(rest) > 1 and not rest[1].startswith("@") else 0
        self._have(Change(name, attempt, token, expiry, ttl))

    def _have(self, change: Change) -> None:
        self._locks[change.name] = change
        self._journal.add(change)


def _restored(dump: bytes) -> bytes | None:
    """Return the text that a key was restored from, if it is one; a slot that moves brings its keys like this."""
    if dump[0] != 0 or dump[1] >= 128:
        return None
    if dump[1] < 64:
        return dump[2 : 2 + dump[1]]
    return dump[3 : 3 + ((dump[1] & 63) << 8 | dump[2])]


def commands(data: bytes) -> Iterator[list[bytes]]:
    """Return the commands in an append-only file, up to where it was cut off."""
    at = 0
    while at < len(data):
        end = data.find(b"\r\n", at)
        if end < 0:
            return
        if data[at : at + 1] != b"*":
            at = end + 2
            continue
        count, at = int(data[at + 1 : end]), end + 2
        words = []
        for _ in range(count):
            end = data.find(b"\r\n", at)
            if end < 0:
                return
            size = int(data[at + 1 : end])
            words.append(data[end + 2 : end + 2 + size])
            at = end + 2 + size + 2
        if at > len(data):
            return
        yield words
