"""A site with sessions, for test_django_sessions.py: it reads a visit from each line of input, and prints its answer.

Its arguments are the engine of its sessions, memcached's address, the options of the cache and a file for the database.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from django.http import HttpRequest, JsonResponse
from django.test import AsyncClient, Client
from django.urls import path

ENGINE, ADDRESS, OPTIONS, DATABASE = sys.argv[1:]

settings.configure(
    ALLOWED_HOSTS=["*"],
    CACHES={
        "default": {
            "BACKEND": "pinyon.frameworks.django.PinyonCache",
            "LOCATION": ADDRESS,
            "OPTIONS": json.loads(OPTIONS),
        }
    },
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE, "OPTIONS": {"timeout": 60}},
    },
    INSTALLED_APPS=["django.contrib.sessions"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="of sessions that only these tests have",
    SESSION_ENGINE=ENGINE,
    USE_TZ=True,
)
django.setup()


def visit(request: HttpRequest) -> JsonResponse:
    return JsonResponse(dict(request.session))


def change(request: HttpRequest) -> JsonResponse:
    request.session.update(request.GET.dict())
    return JsonResponse(dict(request.session))


def log_in(request: HttpRequest) -> JsonResponse:
    request.session.cycle_key()
    return change(request)


def log_out(request: HttpRequest) -> JsonResponse:
    request.session.get("user")  # As Django's own logout does, which looks who the user is.
    request.session.flush()
    return JsonResponse({})


async def awaited_visit(request: HttpRequest) -> JsonResponse:
    return JsonResponse(dict(await request.session.aitems()))


async def awaited_change(request: HttpRequest) -> JsonResponse:
    await request.session.aupdate(request.GET.dict())
    return JsonResponse(dict(await request.session.aitems()))


async def awaited_log_in(request: HttpRequest) -> JsonResponse:
    await request.session.acycle_key()
    return await awaited_change(request)


async def awaited_log_out(request: HttpRequest) -> JsonResponse:
    await request.session.aget("user")
    await request.session.aflush()
    return JsonResponse({})


VIEWS = {
    "visit": visit,
    "change": change,
    "log_in": log_in,
    "log_out": log_out,
    "awaited_visit": awaited_visit,
    "awaited_change": awaited_change,
    "awaited_log_in": awaited_log_in,
    "awaited_log_out": awaited_log_out,
}
urlpatterns = [path(name, view) for name, view in VIEWS.items()]


def answered(page: str, cookie: str | None, data: dict[str, str]) -> dict[str, Any]:
    client = AsyncClient() if page.startswith("awaited") else Client()
    if cookie:
        client.cookies[settings.SESSION_COOKIE_NAME] = cookie
    response: Any = client.get(f"/{page}", data)
    if asyncio.iscoroutine(response):
        response = asyncio.run(_awaited(response))
    set_cookie = response.cookies.get(settings.SESSION_COOKIE_NAME)
    return {"session": response.json(), "cookie": set_cookie.value if set_cookie else cookie}


async def _awaited(response: Any) -> Any:
    return await response


call_command("migrate", verbosity=0)
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    print(json.dumps(answered(**json.loads(line))), flush=True)
