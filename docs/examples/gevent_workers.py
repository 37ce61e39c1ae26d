"""Twenty greenlets look up a thousand users through one client."""

import gevent
import gevent.pool
import pinyon.gevent

cache = pinyon.gevent.Client(namespace="users:")  # MEMCACHE_SERVERS, or else 127.0.0.1:11211


def user(number):
    """From the cache, or else made and kept there; without the cache it takes longer, and works."""
    try:
        found = cache.get(str(number))
        if found is None:
            found = {"number": number, "name": f"user {number}"}  # from a database, say
            cache.set(str(number), found, ttl=600)
    except pinyon.Error:
        found = {"number": number, "name": f"user {number}"}
    return found


pool = gevent.pool.Pool(20)
users = pool.map(user, range(1000))
assert [user["number"] for user in users] == list(range(1000))

# A time limit for several steps together. Whichever of them is under way is abandoned, and nothing else.
with gevent.Timeout(0.5, False):
    for number in range(1000):
        cache.touch(str(number), ttl=3600)

print(len(cache.get_many([str(number) for number in range(1000)])), "users in the cache")
