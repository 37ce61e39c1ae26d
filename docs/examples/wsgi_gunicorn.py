"""Counts the visits of each page: gunicorn --worker-class gevent --workers 2 wsgi_gunicorn:application"""

from collections.abc import Callable, Iterable
from typing import Any

import pinyon

StartResponse = Callable[[str, list[tuple[str, str]]], object]

# One client per process, made on import. It connects on first use, in the worker.
# Servers: MEMCACHE_SERVERS, else 127.0.0.1:11211. encode_keys: visitors may send any path.
cache = pinyon.Client(namespace="visits:", encode_keys=True)


def application(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    try:
        visits = str(cache.incr(environ["PATH_INFO"], initial=1, ttl=86400))
    except pinyon.Error:
        visits = "unknown"  # serve the page without the count
    body = f"{visits}\n".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
