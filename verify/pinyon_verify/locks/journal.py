"""What each server carried out, in order, from its append-only files: also what a replica received.

``MONITOR`` has gaps at failovers, because Sentinels end the connections of servers that they promote or demote.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from .names import is_kept_for_nobody, name_of, process_of
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
    #: Whether the server took over this lock with a snapshot: its own, or that of a primary that it began to follow.
    is_taken_over: bool = False


#: Where an append-only file stands among those of its server: its number, and whether it has changes to a snapshot.
Place = tuple[float, bool]
#: Whose lock it is: the process, and the token.
Holder = tuple[int, int]
#: The token of a pure client's lock, which its value does not have, by name, attempt and expiry.
Tokens = dict[tuple[str, str, int], int]


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
        self._places: dict[tuple[int, int, int], Place] = {}
        self._stopped = threading.Event()
        folder.mkdir()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> list[Journal]:
        """Return the journal of each server."""
        self._stopped.set()
        self._thread.join()
        self._collect()
        tokens: Tokens = {}
        for index in range(len(self._servers)):
            self._journal(index, tokens)
        return [self._journal(index, tokens) for index in range(len(self._servers))]

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
                files = [entry for entry in entries if entry.name.endswith((".aof", ".incr"))]
                places = places_of([entry.name for entry in files])
                for entry in files:
                    self._keep((index, generation, entry.inode()), entry, places[entry.name])

    def _keep(self, key: tuple[int, int, int], entry: os.DirEntry[str], place: Place) -> None:
        try:
            if key not in self._places:
                os.link(entry.path, self._linked(key))
            elif _number(entry.name) is None:
                return  # what was seen when it began says more
            self._places[key] = place
        except OSError:
            pass

    def _linked(self, key: tuple[int, int, int]) -> Path:
        return self._folder / "-".join(map(str, key))

    def _journal(self, index: int, tokens: Tokens) -> Journal:
        journal = Journal()
        files = [(key[1], place, key) for key, place in self._places.items() if key[0] == index]
        reader = Reader(journal, tokens)
        for _, (_, is_change), key in sorted(files):
            reader.read(self._linked(key).read_bytes(), is_snapshot=not is_change)
        return journal


def places_of(names: list[str]) -> dict[str, Place]:
    """The places of append-only files that were found together.

    A file that is being written has no number yet, and the server may rename and remove it before the next look. It
    belongs to the changes that have no snapshot yet, or else comes after all that is there.
    """
    numbers = {name: _number(name) for name in names}
    changed = max((number or 0 for name, number in numbers.items() if _is_change(name)), default=0)
    whole = max((number or 0 for name, number in numbers.items() if not _is_change(name)), default=0)
    unfinished = changed if changed > whole else whole + 0.5
    return {name: (unfinished if number is None else number, _is_change(name)) for name, number in numbers.items()}


def _number(name: str) -> int | None:
    return next((int(word) for word in name.split(".") if word.isdigit()), None)


def _is_change(name: str) -> bool:
    return "incr" in name.split(".")


class Reader:
    """Follows what the files of a server say about locks.

    A pure client draws its token in the transaction that takes the names. Where the lock arrives without that, in a snapshot
    or with its slot, its token is known from the server that carried out the transaction: all files are read once to
    learn these tokens, and once more.
    """

    def __init__(self, journal: Journal, tokens: Tokens) -> None:
        self._journal, self._tokens = journal, tokens
        self._locks: dict[str, Change] = {}
        self._counters: dict[bytes, int] = {}
        #: The attempts of pure clients.
        self._pure: set[str] = set()
        self._in_transaction = False
        self._is_snapshot = False
        #: What was drawn in this transaction, and by which attempt, as far as it is known.
        self._drawn: tuple[int, str] | None = None

    def read(self, data: bytes, *, is_snapshot: bool) -> None:
        if is_snapshot:
            self._forget()
        self._in_transaction, self._drawn = False, None
        self._is_snapshot = is_snapshot
        for words in commands(data):
            self._follow(words[0].upper(), words[1:])

    def _forget(self) -> None:
        self._locks, self._counters = {}, {}

    def _follow(self, command: bytes, words: list[bytes]) -> None:
        if command in (b"MULTI", b"EXEC"):
            self._in_transaction, self._drawn = command == b"MULTI", None
        elif command == b"SET":
            self._set(words)
        elif command == b"MSETNX":
            for key, value in zip(words[::2], words[1::2]):
                self._lock(key, value, 0)
        elif command == b"INCR":
            token = self._counters[words[0]] = self._counters.get(words[0], 0) + 1
            self._drawn = (token, "") if self._in_transaction else None
        elif command == b"PEXPIREAT":
            lock = self._locks.get(name_of(words[0]) or "")
            if lock:
                self._expire(lock, int(words[1]))
        elif command in (b"RESTORE", b"RESTORE-ASKING"):
            if text := _restored(words[2]):
                self._lock(words[0], text, int(words[1]))
        elif command in (b"DEL", b"UNLINK"):
            for key in words:
                if name := name_of(key):
                    self._have(Change(name))
        elif command in (b"FLUSHALL", b"FLUSHDB"):
            self._forget()

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
        if is_kept_for_nobody(attempt):
            self._have(Change(name, expiry=expiry))
            return
        if not rest:
            self._pure.add(attempt)
            self._expire(Change(name, attempt), expiry)
            return
        ttl = int(rest[1]) if len(rest) > 1 and not rest[1].startswith("@") else 0
        self._have(Change(name, attempt, int(rest[0]), expiry, ttl))

    def _expire(self, lock: Change, expiry: int) -> None:
        """A lock was taken or renewed until then. A pure client that takes what it had before draws another token."""
        token = lock.token
        if lock.attempt in self._pure:
            known = (lock.name, lock.attempt, expiry)
            if self._drawn and self._drawn[1] in ("", lock.attempt):
                token = self._drawn[0]
                self._drawn = (token, lock.attempt)
            elif not token:
                token = self._tokens.get(known, 0)
            if not token:
                # In a snapshot, the expiry follows.
                self._locks[lock.name] = replace(lock, expiry=expiry)
                return
            if expiry:
                self._tokens[known] = token
        self._have(replace(lock, token=token, expiry=expiry, ttl=0))

    def _have(self, change: Change) -> None:
        if self._is_snapshot:
            change = replace(change, is_taken_over=True)
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
