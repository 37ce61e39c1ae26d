"""First mistakes, and what is said to them: played in every concurrency model, and the page docs/first-mistakes.md.

Each line of code is evaluated with these names: ``cache``, a client with the namespace ``shop:``; ``locks``, and
``other_locks`` of another process; ``Client``, ``Locks`` and ``Lock``; ``dead``, the URL of a server that does not run; and
``stopped``, that of a server that accepts connections and answers nothing.
"""

# ruff: noqa: E501 - a message stands in one piece, as it is raised

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "first-mistakes.md"


class Mistake(NamedTuple):
    """A line of code, what it raises, and the message, in which servers, holders and times are the page's."""

    code: str
    raises: str
    message: str
    #: What is done before.
    before: str = ""


KEYS = (
    Mistake(
        'cache.get("two words")',
        "InvalidKey",
        'the key "two words" has a space at position 3, which memcached does not take: replace it, or set encode_keys',
    ),
    Mistake(
        'cache.get_many(["first", "line\\nbreak"])',
        "InvalidKey",
        'keys[1]: the key "line\\nbreak" has the control byte 0x0a at position 4, which memcached does not take: replace '
        "it, or set encode_keys",
    ),
    Mistake(
        'cache.set("k" * 250, 1)',
        "InvalidKey",
        f'the key "{"k" * 40}..." has 250 bytes and the namespace 5; memcached\'s limit for both together is 250: shorten '
        "it, or set encode_keys to send a digest instead",
    ),
    Mistake('cache.delete("")', "InvalidKey", 'the key "" is empty; memcached\'s keys have 1 to 250 bytes'),
    Mistake("cache.get(7)", "UnsupportedType", "keys are str or bytes, not int"),
    Mistake(
        r'cache.get("\ud800")',
        "InvalidKey",
        r"the key '\ud800' has a lone surrogate, which UTF-8 cannot express: replace it, or encode the text to bytes "
        "yourself",
    ),
    Mistake(
        'cache.get_many("key")',
        "UnsupportedType",
        "keys must be a list, or another iterable of keys, not one key: put it in a list",
    ),
    Mistake(
        "cache.get_many(None)", "UnsupportedType", "keys must be a list, or another iterable of keys, not NoneType"
    ),
    Mistake(
        'Client(namespace="n" * 250)',
        "InvalidKey",
        "the namespace has 250 bytes and leaves no room for keys, which have at most 250 bytes with their namespace: 249 "
        "is its limit",
    ),
    Mistake(
        'Client(namespace="n" * 180, encode_keys=True)',
        "InvalidKey",
        "the namespace has 180 bytes and leaves no room for the digest of a long key: 179 is its limit",
    ),
)

VALUES = (
    Mistake(
        'Client(max_value_size=2**24).set("k", "v" * 2**21)',
        "ValueTooLarge",
        '127.0.0.1:11211: set: the value of "k" has 2097152 bytes, more than the server stores: raise its option -I (1 MiB by '
        'default; "stats settings" has it as item_size_max), or store less; the server answered "SERVER_ERROR object too '
        'large for cache"',
    ),
    Mistake(
        'cache.set("k", "v" * 2**21)',
        "ValueTooLarge",
        '127.0.0.1:11211: set: the value of "k" has 2097152 bytes, more than the client\'s limit (max_value_size) of 1048576',
    ),
    Mistake(
        r'cache.set("k", "\ud800")',
        "UsageError",
        r"the value '\ud800' has a lone surrogate, which UTF-8 cannot express: replace it, or encode the text to bytes "
        "yourself",
    ),
    Mistake(
        r'cache.set("k", ["\ud800"])',
        "UsageError",
        r"the text '\ud800' has a lone surrogate, which UTF-8 cannot express: replace it, or encode the text to bytes "
        "yourself",
    ),
    Mistake(
        r'cache.set_many({"k": "\ud800"})',
        "UsageError",
        r"the value of 'k' cannot be stored: the value '\ud800' has a lone surrogate, which UTF-8 cannot express: replace "
        "it, or encode the text to bytes yourself",
    ),
    Mistake('cache.append("k", ["more"])', "UnsupportedType", "append and prepend take str or bytes, not list"),
    Mistake(
        'cache.cas("k", 1, None)',
        "UnsupportedType",
        "cas must be the token that gets returned with the value, not None: where gets found nothing, use add",
    ),
    Mistake('cache.incr("k", -1)', "UsageError", "delta must be from 0 to 2**64-1, not -1; to subtract, use decr"),
    Mistake('cache.incr("k", 1.5)', "UnsupportedType", "delta must be a whole number (int), not float"),
    Mistake('cache.incr("k", initial=-1)', "UsageError", "initial must be from 0 to 2**64-1, not -1"),
    Mistake(
        'cache.set("k", 1, ttl="60")', "UnsupportedType", "a ttl is seconds (int or float) or a timedelta, not str"
    ),
    Mistake(
        'cache.set("k", 1, ttl=True)',
        "UnsupportedType",
        "a ttl is seconds (int or float) or a timedelta, not bool",
    ),
    Mistake("cache.flush_all(-1)", "UsageError", "delay must be 0 to 4294967295 seconds, not -1"),
    Mistake("cache.flush_all(2**40)", "UsageError", "delay must be 0 to 4294967295 seconds, not 1099511627776"),
    Mistake(
        "Client(serializer=json)",
        "UnsupportedType",
        "serializer must be one of 'portable', 'pickle', 'json', 'raw', or an object whose dump(value) returns (bytes, "
        "flags) and whose load(bytes, flags) returns the value, not the module json",
    ),
)

SERVERS = (
    Mistake(
        "Client(11211)",
        "UnsupportedType",
        'servers must be str such as "host:port", or a list of these, not int',
    ),
    Mistake(
        'Client("127.0.0.1", 11211)',
        "UnsupportedType",
        'Client takes one argument without a name, servers: write host and port as one text, "host:port", and settings '
        "with their names",
    ),
    Mistake(
        'Client(("127.0.0.1", 11211))',
        "InvalidServers",
        'a server must be str such as "host:port", not int',
    ),
    Mistake(
        'Client({"host": "127.0.0.1"})',
        "UnsupportedType",
        'servers must be str such as "host:port", or a list of these, not dict',
    ),
    Mistake(
        'Client(host="127.0.0.1")',
        "TypeError",
        'there is no setting "host": write host and port into "servers", as "host:port"',
    ),
    Mistake('Client(prefix="shop:")', "TypeError", 'there is no setting "prefix": use "namespace"'),
    Mistake("Client(pool_size=5)", "TypeError", 'there is no setting "pool_size": use "max_connections"'),
    Mistake("Client(time_out=1)", "TypeError", 'there is no setting "time_out"; did you mean "timeout"?'),
    Mistake("Client(timeout=None)", "UnsupportedType", "timeout must be a number, not None"),
    Mistake('Client(tls="yes")', "UsageError", "tls must be True, False or a pinyon.Tls, not str"),
    Mistake(
        'Client("redis://127.0.0.1:6379")',
        "InvalidServers",
        "a server begins with redis://, which is not memcached: write memcached://host[:port], or host[:port]; locks on "
        "Redis have a client of their own",
    ),
    Mistake(
        'Client("memcached://user:secret@127.0.0.1")',
        "InvalidServers",
        "a memcached:// URL has a login in it, which could end up in logs: give it as the settings username and password",
    ),
    Mistake(
        "Locks(6379)",
        "InvalidServers",
        'url must be str such as "redis://host:port", or a list of these, not int',
    ),
    Mistake(
        'Locks(host="127.0.0.1")',
        "TypeError",
        'there is no setting "host": write host, port and database into "url", as "redis://host:port/database"',
    ),
    Mistake(
        'Locks("127.0.0.1:6379")',
        "InvalidServers",
        "the server's URL does not begin with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://; write "
        "redis://[user[:password]@]host[:port][/database], rediss:// for TLS, unix:///path[?db=database], "
        "redis+cluster://host,host,host, or redis+sentinel://host,host,host/service[/database]",
    ),
)

LOCKS = (
    Mistake(
        'locks.lock("a", ttl="10")', "UnsupportedType", "ttl must be seconds (int or float) or a timedelta, not str"
    ),
    Mistake('locks.lock("a", ttl=0)', "UsageError", "ttl must be a positive number of seconds, not 0.0"),
    Mistake("locks.lock()", "InvalidName", "a lock needs at least one name"),
    Mistake(
        'locks.lock(["a", "b"])',
        "UnsupportedType",
        "names of locks are str or bytes, not list; write several names one by one, as in lock(*names)",
    ),
    Mistake(
        "locks.lock(lambda: None)",
        "UnsupportedType",
        'names of locks are str or bytes, not function; to decorate a function, name the lock: @locks.lock("name")',
    ),
    Mistake(
        'locks.lock("a", on_lost="x")',
        "UsageError",
        "on_lost must be a function, which is called with what was held, not str",
    ),
    Mistake('Lock("a")', "UsageError", 'locks are made by their client: Locks("redis://host:port").lock("name")'),
    Mistake(
        'locks.lock("a", timeout=0.5).acquire()',
        "LockTimeout",
        '127.0.0.1:6379: the lock "a" could not be acquired within 0.5 s; held by web2 (pid 4711) for 12 s',
        before='other_locks.lock("a").acquire()',
    ),
    Mistake(
        'locks.lock("a", timeout=0).acquire()',
        "LockTimeout",
        '127.0.0.1:6379: the lock "a" could not be acquired at once; held by web2 (pid 4711) for 12 s',
        before='other_locks.lock("a").acquire()',
    ),
    Mistake(
        'locks.lock("a").acquire()',
        "AlreadyHeld",
        'you already hold the lock "a", or one of its names; to acquire it again, set reentrant and give no further names',
        before='locks.lock("a").acquire()',
    ),
    Mistake(
        'Locks(dead).lock("a", timeout=0.5).acquire()',
        "ConnectError",
        "127.0.0.1:6379: cannot connect: Connection refused (os error 111)",
    ),
    Mistake(
        'Locks(stopped).lock("a", timeout=0.5).acquire()',
        "Timeout",
        "127.0.0.1:6379: the server did not answer in time",
    ),
)

TABLES = {"Keys": KEYS, "Values": VALUES, "Servers": SERVERS, "Locks": LOCKS}

_HEAD = """\
# First mistakes and their messages

<!-- Generated from python/tests/first_mistakes.py by `make first-mistakes`. -->

This page lists mistakes that are easily made in the first hour, and what Pinyon says to each. The tests play every
line in threads, gevent, asyncio and uvloop: the error and its message are the same in all of them. In asyncio, wrong
arguments are refused by the call, before you await it.

In these lines `cache` is a client with the namespace `shop:`, and `locks` are the locks of one process while another
process holds the lock "a".
"""

_TAIL = """\
## Accepted

These look like mistakes, and work:

- `Client("memcached://cache1:11211")`, also in a list: the scheme is optional.
- `locks.lock("a", ttl=timedelta(seconds=10))`: locks take a `timedelta` for `ttl`, `timeout`, `max_hold` and
  `extend`.
- `cache.incr("visits", initial=1)` creates a counter that `get` returns as an integer.

## Not noticed by the client

- A namespace is put before each key as it is, without a separator. `Client(namespace="shop")` and
  `Client(namespace="shops")` share keys: the first one's `s:1` is the second one's `:1`. End a namespace with a
  separator: `shop:`. (The namespace of locks needs none.)
- `append` and `prepend` join bytes on the server. The client cannot see what is stored: if that is not text or bytes,
  the value cannot be read afterwards, and `get` raises `UndecodableValue`.
- A future that you keep until its result is there and never await, as in `stored = cache.set("k", 1)`, does not warn:
  noticing that would cost time in every request. The request is sent nevertheless. If it fails, asyncio logs the error
  when the future is dropped: "Reply exception was never retrieved".

## Blocks and processes

- `async with` on a client or lock for threads, and `with` on one of `pinyon.aio`, raise a `TypeError` that names the right
  block: "pinyon.Client blocks its thread: use it by `with`, not `async with`; coroutines use the classes of pinyon.aio".
- A lease of `pinyon.aio` is awaited before its block. Without `await` a `TypeError` says so: "lease() must be awaited before its
  block: write `async with await client.lease(…)`".
- A client or lock belongs to its process. `copy.copy`, `pickle` and `multiprocessing` with the start method `spawn` raise
  `Unpicklable`: "a pinyon.Client cannot be copied or pickled: share it within its process, and make another one in each
  other process". A forked child may use its parent's client. A `pinyon.Locks` of plain settings can be pickled: whoever
  loads it has locks of the same settings, the password among them, and a connection of its own.
- `get_or_set` of a client for threads does not await: a coroutine function as `make` raises `UnsupportedType`, "make returned
  a coroutine (load), which is not awaited here: give a function that returns the value, or use pinyon.aio.Client".
- A process has one interpreter that uses Pinyon. In a second one, as mod_wsgi makes for a second application, `import pinyon`
  raises an `ImportError`: see [Apache and mod_wsgi](django.md#apache-and-mod_wsgi).

## Warnings

- A forgotten `await`, as in `cache.set("k", 1)` alone, warns: `RuntimeWarning: 'pinyon.aio.Client.set' was never
  awaited`. The client looks when the result is there, or when the loop has ended without it: it warns if nothing
  refers to the future by then. The warning says where the call was in the loop's debug mode, or while `tracemalloc`
  runs. Outside a running loop Python itself warns: `coroutine 'Client.set' was never awaited`. Nothing was sent then.
- With `on_failure="miss"`, no error says that a server is down. The logger `pinyon.servers` writes one warning when a
  server is marked down, and one when it is back. Python shows them without any configuration.
- [`pinyon check`](command-line.md#pinyon-check) finds most causes of trouble before the first request.
"""


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for title, mistakes in TABLES.items():
        rows = [f"| `{_cell(each.code)}` | `{each.raises}` | {_cell(each.message)} |" for each in mistakes]
        parts.append("\n".join([f"## {title}\n", "| code | error | message |", "|---|---|---|", *rows, ""]))
    return "\n".join([*parts, _TAIL])


def normalised(message: str) -> str:
    """Return a message with the servers, holders and times of the page."""
    message = re.sub(
        r"held by \S+ \(pid [0-9]+\)( for (less than )?[0-9.]+ s)$", "held by web2 (pid 4711) for 12 s", message
    )
    message = re.sub(r"^127\.0\.0\.1:\d+(?=: set)", "127.0.0.1:11211", message)
    return re.sub(r"^127\.0\.0\.1:\d+(?=: (the|cannot))", "127.0.0.1:6379", message)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
