"""Names that many parts share: concurrency models, and the contestants that are special."""

from __future__ import annotations

BLOCKING, GEVENT, ASYNCIO, UVLOOP = PYTHON_MODELS = ("blocking", "gevent", "asyncio", "uvloop")
#: Ruby's: threads, the tasks of async, and fibers in EventMachine.
RUBY, ASYNC, EVENTMACHINE = RUBY_MODELS = ("ruby", "async", "eventmachine")
#: Perl's: calls that wait, coroutines of Coro, callbacks on AnyEvent, and futures that are awaited.
PERL, CORO, ANYEVENT, FUTURE = PERL_MODELS = ("perl", "coro", "anyevent", "future")
C = "c"
MODELS = (*PYTHON_MODELS, *RUBY_MODELS, *PERL_MODELS, C)

OURS = "Pinyon"
#: Pinyon with hot keys in memory, and another client that has this.
NEAR_CLIENT, HOT_CACHE = f"{OURS} near", "meta-memcache hot cache"
#: The reference client of most targets.
PEER = "pylibmc"
#: The same of targets in Ruby.
DALLI = "Dalli"
#: The same of targets in Perl.
FAST, CALLBACKS = "Cache::Memcached::Fast", "AnyEvent::Memcached"
#: The least that any client can do, and the least that Python can do.
FLOOR, BARE = "floor", "bare socket"


def contestant_name(client: str, model: str) -> str:
    """Returns the name of a client's contestant in a concurrency model. The floor is the same in all of them."""
    return client if model == BLOCKING or client == FLOOR else f"{client} {model}"


def keeps_hot_keys(contestant: str) -> bool:
    """Returns whether a contestant is a client that keeps keys in the memory of its process."""
    return contestant.startswith((NEAR_CLIENT, HOT_CACHE))


def is_other(contestant: str) -> bool:
    """Returns whether a contestant is a client other than ours."""
    return contestant != FLOOR and contestant.split()[0] != OURS


def model_of(contestant: str) -> str:
    """Returns a contestant's concurrency model."""
    last = contestant.rpartition(" ")[2]
    return last if last in MODELS else BLOCKING
