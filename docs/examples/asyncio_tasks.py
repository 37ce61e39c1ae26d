"""Tasks look up a thousand users through one client."""

import asyncio

import pinyon.aio


async def user(cache, number):
    """From the cache, or else made and kept there; without the cache it takes longer, and works."""
    try:
        found = await cache.get(str(number))
        if found is None:
            found = {"number": number, "name": f"user {number}"}  # from a database, say
            await cache.set(str(number), found, ttl=600)
    except pinyon.Error:
        found = {"number": number, "name": f"user {number}"}
    return found


async def renew(cache):
    for number in range(1000):
        await cache.touch(str(number), ttl=3600)


async def main():
    async with pinyon.aio.Client(namespace="users:") as cache:  # MEMCACHE_SERVERS, or else 127.0.0.1:11211
        users = await asyncio.gather(*(user(cache, number) for number in range(1000)))
        assert [user["number"] for user in users] == list(range(1000))

        # A time limit for several steps together. Whichever of them is under way is abandoned, and nothing else.
        try:
            await asyncio.wait_for(renew(cache), 5)
        except asyncio.TimeoutError:
            print("not all were renewed in time")

        print(len(await cache.get_many([str(number) for number in range(1000)])), "users in the cache")


asyncio.run(main())
