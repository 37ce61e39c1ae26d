"""Cached values, in Redis and in memcached, that refuse late writes of an earlier holder of the lock."""

import os
import time

import pinyon

locks = pinyon.Locks(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"), namespace="shop")
cache = pinyon.Client(namespace="shop:")  # MEMCACHE_SERVERS, else 127.0.0.1:11211

STORE = """
local fence = redis.call("HGET", KEYS[1], "fence")
if fence and tonumber(fence) > tonumber(ARGV[1]) then return 0 end
redis.call("HSET", KEYS[1], "fence", ARGV[1], "value", ARGV[2])
redis.call("PEXPIRE", KEYS[1], ARGV[3])
return 1
"""


def store_in_redis(name: str, value: str, token: int, ttl: float) -> bool:
    """Return whether it was stored. The braces keep the key on the node of the locks, in a cluster too."""
    stored: int = locks.execute("EVAL", STORE, 1, "{shop}:value:" + name, token, value, int(ttl * 1000))
    return stored == 1


def store_in_memcached(name: str, value: str, token: int, ttl: float) -> bool:
    """Return whether it was stored. ``cas`` stores only if the item has not changed since ``gets``."""
    item = {"fence": token, "value": value}
    while True:
        found = cache.gets(name)
        if found is None:
            if cache.add(name, item, ttl=ttl):
                return True
            continue
        current, unchanged = found
        if current["fence"] > token:
            return False
        if cache.cas(name, item, unchanged, ttl=ttl):
            return True


# A holder is frozen for longer than its lock lasts. Meanwhile another holder computes and stores.
frozen = locks.lock("prices", ttl=0.2, renew=False).acquire()
time.sleep(0.3)
with locks.lock("prices") as held:
    print("stored:", store_in_redis("prices", "new", held.token, ttl=3600))
    print("stored:", store_in_memcached("prices", "new", held.token, ttl=3600))

print("stored late:", store_in_redis("prices", "old", frozen.token, ttl=3600))
print("stored late:", store_in_memcached("prices", "old", frozen.token, ttl=3600))
print(locks.execute("HGET", "{shop}:value:prices", "value"), cache.get("prices")["value"])
