"""Tasks look up a thousand users through one client."""

from __future__ import annotations

import asyncio
from typing import Any

import pinyon.aio


async def user(cache: pinyon.aio.Client, number: int) -> dict[str, Any]:
    """Return a user from the cache; otherwise load and cache it. Works more slowly when the cache is down."""
    try:
        found: dict[str, Any] | None = await cache.get(str(number))
        if found is None:
            found = {"number": number, "name": f"user {number}"}  # from a database, say
            await cache.set(str(number), found, ttl=600)
    except pinyon.Error:
        found = {"number": number, "name": f"user {number}"}
    return found


async def renew(cache: pinyon.aio.Client) -> None:
    for number in range(1000):
        await cache.touch(str(number), ttl=3600)


async def main() -> None:
    async with pinyon.aio.Client(namespace="users:") as cache:  # MEMCACHE_SERVERS, else 127.0.0.1:11211
        users = await asyncio.gather(*(user(cache, number) for number in range(1000)))
        assert [user["number"] for user in users] == list(range(1000))

        # One time limit for several steps. It abandons only the step that is under way.
        try:
            await asyncio.wait_for(renew(cache), 5)
        except asyncio.TimeoutError:
            print("not all were renewed in time")

        print(len(await cache.get_many([str(number) for number in range(1000)])), "users in the cache")


asyncio.run(main())
