"""A site whose pages are cached, for test_django_pages.py.

The environment has memcached's address, and a folder: ``arrived`` has a line for each request, ``made`` for each call
of a view, and a view ends once ``gate`` exists.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from pinyon.frameworks.django_pages import cache_page

FOLDER = Path(os.environ["PAGES_FOLDER"])
settings.configure(
    ALLOWED_HOSTS=["*"],
    CACHES={
        "default": {
            "BACKEND": "pinyon.frameworks.django.PinyonCache",
            "LOCATION": os.environ["MEMCACHE_SERVERS"],
            "OPTIONS": {"timeout": 60, "connect_timeout": 60},
        }
    },
    ROOT_URLCONF=__name__,
)
django.setup()


def note(name: str) -> None:
    """Adds a line, in one write."""
    with open(FOLDER / name, "a") as file:
        file.write("1\n")


@cache_page(600, wait=60)
def page(request: HttpRequest) -> HttpResponse:
    note("made")
    while not (FOLDER / "gate").exists():
        time.sleep(0.01)
    return HttpResponse("the page")


@cache_page(600, wait=60)
async def awaited_page(request: HttpRequest) -> HttpResponse:
    note("made")
    while not (FOLDER / "gate").exists():
        await asyncio.sleep(0.01)
    return HttpResponse("the page")


def arriving(request: HttpRequest) -> Any:
    note("arrived")
    return page(request)


async def awaited_arriving(request: HttpRequest) -> Any:
    note("arrived")
    return await awaited_page(request)


def first(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ready")


urlpatterns = [path("first", first), path("page", arriving), path("awaited", awaited_arriving)]
wsgi = get_wsgi_application()
asgi = get_asgi_application()
