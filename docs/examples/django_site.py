"""Counts the visits of each page: gunicorn --threads 8 django_site:wsgi, or uvicorn django_site:asgi"""

import os

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.cache import cache
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import re_path

settings.configure(
    ALLOWED_HOSTS=["*"],
    CACHES={
        "default": {
            "BACKEND": "pinyon.frameworks.django.PinyonCache",
            "LOCATION": os.environ.get("MEMCACHE_SERVERS", "127.0.0.1:11211"),
            "KEY_PREFIX": "visits",
            # Serve pages without the cache, too. encode_keys: visitors may send any path.
            "OPTIONS": {"on_failure": "miss", "encode_keys": True},
        }
    },
    ROOT_URLCONF=__name__,
)
django.setup()


def page(request: HttpRequest) -> HttpResponse:
    cache.add(request.path, 0, timeout=86400)
    try:
        return HttpResponse(f"{cache.incr(request.path)}\n")
    except ValueError:  # no such key: the cache is down
        return HttpResponse("unknown\n")


async def awaited_page(request: HttpRequest) -> HttpResponse:
    await cache.aadd(request.path, 0, timeout=86400)
    try:
        return HttpResponse(f"{await cache.aincr(request.path)}\n")
    except ValueError:
        return HttpResponse("unknown\n")


urlpatterns = [re_path("^awaited/", awaited_page), re_path("", page)]
wsgi = get_wsgi_application()
asgi = get_asgi_application()
