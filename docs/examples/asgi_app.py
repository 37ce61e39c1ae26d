"""Counts the visits of each page: uvicorn asgi_app:application"""

import pinyon.aio


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(scope, receive, send)
    elif scope["type"] == "http":
        await page(scope, send)


async def lifespan(scope, receive, send):
    await receive()  # lifespan.startup
    # MEMCACHE_SERVERS, or else 127.0.0.1:11211. Visitors choose the paths: encode_keys takes any.
    async with pinyon.aio.Client(namespace="visits:", encode_keys=True) as cache:
        scope["state"]["cache"] = cache
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
    await send({"type": "lifespan.shutdown.complete"})


async def page(scope, send):
    cache = scope["state"]["cache"]
    try:
        visits = str(await cache.incr(scope["path"], initial=1, ttl=86400))
    except pinyon.Error:
        visits = "unknown"  # the page is served all the same
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": f"{visits}\n".encode()})
