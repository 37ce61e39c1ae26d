"""Django's own tests of its caches, and of sessions in them, run on Pinyon.

test_django_suite.py runs this program for each version of Django. Its arguments are a folder with a source
distribution of Django, a memcached's address, and "blocking" or "asyncio". It prints the outcome of each test.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import unittest
from typing import Any
from unittest import mock

SOURCES, ADDRESS, MODEL = sys.argv[1:]
sys.path[:0] = [SOURCES, f"{SOURCES}/tests"]

import django  # noqa: E402 (which of them the path decides)
import pytest  # noqa: E402
from asgiref.sync import async_to_sync  # noqa: E402
from django.conf import settings  # noqa: E402

PATIENT = {"timeout": 20, "connect_timeout": 20}
PINYON = {"BACKEND": "pinyon.frameworks.django.PinyonCache", "LOCATION": ADDRESS, "OPTIONS": PATIENT}
#: The same, except for the methods that are not awaited.
AWAITED = {"BACKEND": "__main__.AwaitedCache", "LOCATION": ADDRESS, "OPTIONS": PATIENT}
LOCAL_MEMORY = "django.core.cache.backends.locmem.LocMemCache"

settings.configure(
    CACHES={"default": PINYON},
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["django.contrib.sessions", "cache", "sessions_tests"],
    SECRET_KEY="of sessions that only these tests have",
    USE_TZ=False,
)
django.setup()

from cache import tests, tests_async  # noqa: E402
from django.contrib.sessions.models import Session  # noqa: E402
from django.core import management, signals  # noqa: E402
from django.core.cache import cache, caches  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402
from django.db import close_old_connections, transaction  # noqa: E402
from django.test import TestCase, override_settings  # noqa: E402
from django.test.runner import DiscoverRunner  # noqa: E402
from sessions_tests import tests as sessions  # noqa: E402

import pinyon  # noqa: E402
from pinyon.frameworks.django import PinyonCache  # noqa: E402
from pinyon.frameworks.django_sessions import SessionStore, Watermark  # noqa: E402


def all_caches_on(base: dict[str, str]) -> Any:
    return override_settings(CACHES=tests.caches_setting_for_tests(base=base, exclude=tests.memcached_excluded_caches))


@all_caches_on(PINYON)
class Blocking(tests.BaseMemcachedTests, TestCase):
    base_params = PINYON
    incr_decr_type_error = pinyon.ServerError

    test_client_servers = tests.PyLibMCCacheTests.test_pylibmc_client_servers

    def test_close(self) -> None:
        """Django's test names what its own backends close; ours closes nothing."""
        signals.request_finished.disconnect(close_old_connections)
        try:
            tests.cache.set("key", "value")
            with mock.patch.object(pinyon.client.BaseClient, "close") as closing:
                signals.request_finished.send(self.__class__)
            assert not closing.called
        finally:
            signals.request_finished.connect(close_old_connections)

    def test_set_many_returns_failing_keys(self) -> None:
        """Django's test patches ``set_multi``, which our client calls ``set_many``."""
        with mock.patch.object(cache._class, "set_many", side_effect=lambda values, _: list(values)):
            assert cache.set_many({"key": "value"}) == ["key"]


class AwaitedCache(PinyonCache):
    @property
    def _cache(self) -> Any:
        raise AssertionError("a method that is awaited uses the client that blocks")


class InALoop:
    """A cache whose methods are called as in Django's tests, each run to its end in a new event loop."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def __getattr__(self, name: str) -> Any:
        backend = caches[self.alias]
        awaited = getattr(backend, f"a{name}", None)
        return async_to_sync(awaited) if awaited else getattr(backend, name)

    def __contains__(self, key: str) -> bool:
        return self.has_key(key)


class AllInALoop:
    def __getitem__(self, alias: str) -> Any:
        return InALoop(alias) if alias in caches.settings else caches[alias]


@all_caches_on(AWAITED)
class Awaited(Blocking):
    base_params = AWAITED

    def setUp(self) -> None:
        super().setUp()
        self.patch(tests, cache=InALoop("default"), caches=AllInALoop())

    def patch(self, target: Any, **names: Any) -> None:
        patch = mock.patch.multiple(target, **names)
        patch.start()
        self.addCleanup(patch.stop)

    def test_cache_write_for_model_instance_with_deferred(self) -> None:
        self.patch(AwaitedCache, _cache=PinyonCache._cache)
        super().test_cache_write_for_model_instance_with_deferred()

    def test_cache_read_for_model_instance_with_deferred(self) -> None:
        self.patch(AwaitedCache, _cache=PinyonCache._cache)
        super().test_cache_read_for_model_instance_with_deferred()

    def test_get_or_set_racing(self) -> None:
        """Django's test patches ``add``."""
        self.patch(PinyonCache, aadd=mock.AsyncMock(return_value=False))
        assert tests.cache.get_or_set("key", "default") == "default"

    def test_set_many_returns_failing_keys(self) -> None:
        self.patch(pinyon.aio.Client, set_many=mock.AsyncMock(side_effect=lambda values, _: list(values)))
        assert tests.cache.set_many({"key": "value"}) == ["key"]


@override_settings(CACHES={"default": PINYON})
class WhatADummyDoes(tests_async.AsyncDummyCacheTests):
    """Most of these tests check that nothing is kept, and apply only to caches that keep nothing."""

    def tearDown(self) -> None:
        cache.clear()


class PinyonSessionTests(sessions.SessionTestsMixin, TestCase):
    """Django's tests of every engine of sessions, on ours."""

    backend = SessionStore
    session_engine = "pinyon.frameworks.django_sessions"

    @override_settings(SESSION_CACHE_ALIAS="other", CACHES={"other": {"BACKEND": LOCAL_MEMORY}})
    def test_another_kind_of_cache_is_refused(self) -> None:
        with pytest.raises(ImproperlyConfigured, match=r"needs a PinyonCache.*SESSION_CACHE_ALIAS"):
            SessionStore("12345678").load()

    def test_a_request_that_is_late_brings_no_deleted_session_back(self) -> None:
        def delete_first(key: str, *arguments: Any) -> None:
            with mock.patch.object(PinyonCache, "set", store):
                SessionStore(session_key).delete()
            store(late._cache, key, *arguments)

        self.session["user"] = "ada"
        self.session.save()
        session_key, store = self.session.session_key, PinyonCache.set
        cache.clear()
        late = SessionStore(session_key)
        with mock.patch.object(late._cache, "set", delete_first):
            assert late["user"] == "ada"
        assert SessionStore(session_key).get("user") is None

    def test_a_copy_made_before_a_deletion_is_committed_goes_with_it(self) -> None:
        self.session["user"] = "ada"
        self.session.save()
        with self.captureOnCommitCallbacks(execute=True):
            SessionStore(self.session.session_key).delete()
            made = {"made": time.time(), "data": {"user": "ada"}}
            cache.set(SessionStore.cache_key_prefix + self.session.session_key, made)
        assert SessionStore(self.session.session_key).get("user") is None


class WatermarkTests(TestCase):
    REASON = Exception("the server is away")

    def move(self, watermark: Watermark) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            watermark.move(Session, self.REASON)

    def row(self) -> Any:
        return Session.objects.filter(session_key=Watermark.KEY).first()

    def test_every_process_learns_of_it(self) -> None:
        made, other = time.time(), Watermark()
        self.move(Watermark())
        assert other.is_due()
        other.read(Session)
        assert not other.is_due()
        assert not other.is_before(made)
        assert other.is_before(made + 1000)

    def test_it_only_goes_forward(self) -> None:
        with mock.patch("time.time", return_value=time.time() + 100):
            self.move(Watermark())
        later = self.row().expire_date
        self.move(Watermark())
        assert self.row().expire_date == later

    def test_it_is_written_once_in_a_while(self) -> None:
        watermark = Watermark()
        self.move(watermark)
        with self.assertNumQueries(0):
            self.move(watermark)
        with mock.patch("time.time", return_value=time.time() + Watermark.AHEAD + 1), self.assertNumQueries(1):
            self.move(watermark)

    def test_it_is_written_again_after_a_rollback(self) -> None:
        watermark = Watermark()
        with contextlib.suppress(ZeroDivisionError), transaction.atomic():
            watermark.move(Session, self.REASON)
            raise ZeroDivisionError
        assert self.row() is None
        watermark.move(Session, self.REASON)
        assert self.row()

    def test_no_visitor_reaches_it_and_clearsessions_keeps_it(self) -> None:
        self.move(Watermark())
        assert SessionStore(Watermark.KEY).session_key is None
        management.call_command("clearsessions")
        assert self.row()


CLASSES = {
    "blocking": [
        Blocking,
        sessions.CacheSessionTests,
        sessions.CacheDBSessionTests,
        PinyonSessionTests,
        WatermarkTests,
    ],
    "asyncio": [Awaited, WhatADummyDoes],
}


#: Many of Django's tests store a value for one second, within which a busy machine may not read it. What fails is run
#: again.
TRIES = 3


def outcomes(classes: list[type[unittest.TestCase]]) -> dict[str, Any]:
    runner = DiscoverRunner(verbosity=0, interactive=False)
    runner.setup_test_environment()
    databases = runner.setup_databases()
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(each) for each in classes)
    names = {name_of(test) for tests_of_class in suite for test in tests_of_class}
    result = unittest.TestResult()
    suite.run(result)
    skipped = {name_of(test): why for test, why in result.skipped}
    for _ in range(TRIES - 1):
        # A part of a test stands for all of it.
        unlucky = {getattr(test, "test_case", test) for test, _ in result.failures + result.errors}
        result = unittest.TestResult()
        unittest.TestSuite(type(test)(test._testMethodName) for test in unlucky).run(result)
    runner.teardown_databases(databases)
    failed = {name_of(test): why for test, why in result.failures + result.errors}
    return {"passed": sorted(names - {*failed, *skipped}), "failed": failed, "skipped": skipped}


def name_of(test: Any) -> str:
    whole = getattr(test, "test_case", test)
    return f"{type(whole).__name__}.{whole._testMethodName}"


print(json.dumps(outcomes(CLASSES[MODEL])))
