"""A program that tests in other languages run beside theirs: ``python beside_others.py MEMCACHED [URL NAMESPACE]``.

Each line that it reads is a command:

``fetch KEY``
    ``get_or_set``; prints the items of the list. Where it has to make the value, it prints ``making``, and makes it
    when it gets another line.
``race KEY``
    The same, but it makes the value at once. Prints ``made`` or ``found``, and the items.
``store KEY``, ``read KEY``
    Stores the page, which has a value of every portable type; prints whether it reads the same.
``tag KEY TAG``, ``invalidate TAG KEY …``
    Stores 1 with a tag; prints the values, then invalidates the tag.
``queue NAME ID``
    Acquires a lock in a thread, with a connection and so a place in the queue of its own, and releases it at once.
    Prints ``ID TOKEN``.
``hold NAME``
    Acquires a lock, prints ``holding``, and releases it when it gets another line.
``hand NAME``, ``adopt TICKET``
    Acquires a lock, hands it over, and prints the ticket. Adopts a lock, prints its token, and releases it when it gets
    another line.
"""

from __future__ import annotations

import sys
import threading
import time

import pinyon

GENEROUS = 60
#: Seconds that making takes in a race.
MAKING = 0.003
PAGE = {
    "text": "größer ✓",
    "bytes": b"\x00\xff",
    "number": -5,
    "large": 2**60,
    "float": 2.5,
    "yes": True,
    "no": False,
    "none": None,
    "list": [1, "two", [3.5, {}]],
    "map": {"empty": [], "text": ""},
}
printing = threading.Lock()


def say(*words: object) -> None:
    with printing:
        print(*words, flush=True)


def make() -> list[str]:
    say("making")
    sys.stdin.readline()
    return ["made in Python"]


def race(cache: pinyon.Client, key: str) -> None:
    made = []

    def make_at_once() -> list[str]:
        made.append(key)
        time.sleep(MAKING)
        return ["made in Python"]

    found = cache.get_or_set(key, make_at_once, 60, wait=GENEROUS)
    say("made" if made else "found", *found)


def tagged(memcached: str, command: str, word: str, *words: str) -> None:
    generous = {"timeout": GENEROUS, "connect_timeout": GENEROUS}
    with pinyon.Client(memcached, generation_ttl=0, **generous) as cache:
        if command == "tag":
            cache.set(word, 1, tags=words)
            return say("stored")
        before = [cache.get(key) for key in words]
        cache.invalidate_tags(word)
        return say(*before)


def locks_of(url: str, namespace: str) -> pinyon.Locks:
    """Locks whose waiters do not poll: without a wake-up, they stay asleep."""
    generous = {"ttl": 600, "heartbeat": 600, "command_timeout": GENEROUS, "connect_timeout": GENEROUS}
    return pinyon.Locks(url, namespace=namespace, **generous)


def queue(locks: pinyon.Locks, name: str, number: str) -> None:
    with locks.lock(name, timeout=GENEROUS) as held:
        say(number, held.token)


def hold(locks: pinyon.Locks, name: str) -> None:
    with locks.lock(name, timeout=GENEROUS):
        say("holding")
        sys.stdin.readline()


def hand_over(locks: pinyon.Locks, name: str) -> None:
    with locks.lock(name, timeout=GENEROUS) as held:
        say(held.hand_over())


def adopt(locks: pinyon.Locks, ticket: str) -> None:
    with locks.adopt(ticket) as held:
        say(held.token)
        sys.stdin.readline()


def main(memcached: str, url: str = "redis://127.0.0.1:6379", namespace: str = "pinyon") -> None:
    cache = pinyon.Client(memcached, timeout=GENEROUS, connect_timeout=GENEROUS)
    while line := sys.stdin.readline().split():
        command, *words = line
        if command == "fetch":
            say(*cache.get_or_set(words[0], make, 60, wait=GENEROUS))
        elif command == "race":
            race(cache, words[0])
        elif command == "store":
            say(cache.set(words[0], PAGE))
        elif command == "read":
            say(cache.get(words[0]) == PAGE)
        elif command in ("tag", "invalidate"):
            tagged(memcached, command, *words)
        elif command == "queue":
            threading.Thread(target=queue, args=(locks_of(url, namespace), *words), daemon=True).start()
        elif command in ("hold", "hand", "adopt"):
            {"hold": hold, "hand": hand_over, "adopt": adopt}[command](locks_of(url, namespace), words[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
