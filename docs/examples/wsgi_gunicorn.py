"""Counts the visits of each page: gunicorn --worker-class gevent --workers 2 wsgi_gunicorn:application"""

import pinyon

# One client per process, made when the module is imported; it connects when it is first used, in the worker.
# MEMCACHE_SERVERS, or else 127.0.0.1:11211. Visitors choose the paths: encode_keys takes any.
cache = pinyon.Client(namespace="visits:", encode_keys=True)


def application(environ, start_response):
    try:
        visits = str(cache.incr(environ["PATH_INFO"], initial=1, ttl=86400))
    except pinyon.Error:
        visits = "unknown"  # the page is served all the same
    body = f"{visits}\n".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
