"""Counts the visits of each page: uvicorn asgi_app:application"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pinyon.aio

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def application(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await lifespan(scope, receive, send)
    elif scope["type"] == "http":
        await page(scope, send)


async def lifespan(scope: Message, receive: Receive, send: Send) -> None:
    await receive()  # lifespan.startup
    # Servers: MEMCACHE_SERVERS, else 127.0.0.1:11211. encode_keys: visitors may send any path.
    async with pinyon.aio.Client(namespace="visits:", encode_keys=True) as cache:
        scope["state"]["cache"] = cache
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
    await send({"type": "lifespan.shutdown.complete"})


async def page(scope: Message, send: Send) -> None:
    cache = scope["state"]["cache"]
    try:
        visits = str(await cache.incr(scope["path"], initial=1, ttl=86400))
    except pinyon.Error:
        visits = "unknown"  # serve the page without the count
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": f"{visits}\n".encode()})
