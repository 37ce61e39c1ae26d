"""Twenty greenlets look up a thousand users through one client."""

from __future__ import annotations

from typing import Any

import gevent
import gevent.pool
import pinyon.gevent

cache = pinyon.gevent.Client(namespace="users:")  # MEMCACHE_SERVERS, else 127.0.0.1:11211


def user(number: int) -> dict[str, Any]:
    """Return a user from the cache; otherwise load and cache it. Works more slowly when the cache is down."""
    try:
        found: dict[str, Any] | None = cache.get(str(number))
        if found is None:
            found = {"number": number, "name": f"user {number}"}  # from a database, say
            cache.set(str(number), found, ttl=600)
    except pinyon.Error:
        found = {"number": number, "name": f"user {number}"}
    return found


pool = gevent.pool.Pool(20)
users = pool.map(user, range(1000))
assert [user["number"] for user in users] == list(range(1000))

# One time limit for several steps. It abandons only the step that is under way.
with gevent.Timeout(0.5, False):
    for number in range(1000):
        cache.touch(str(number), ttl=3600)

print(len(cache.get_many([str(number) for number in range(1000)])), "users in the cache")
