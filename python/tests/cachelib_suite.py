"""Tells cachelib's own tests about Pinyon's cache. test_flask.py runs them in a separate folder."""

from __future__ import annotations

from typing import Any

import pytest
from clear import ClearTests
from common import CommonTests
from delete_many_with_prefix import DeleteManyWithPrefixTests
from has import HasTests

from pinyon.frameworks.cachelib import PinyonCache


@pytest.fixture(autouse=True)
def _factory(request: pytest.FixtureRequest, key_prefix: str | None) -> None:
    def make(self: object, **settings: Any) -> PinyonCache:
        cache = PinyonCache(**{"key_prefix": key_prefix, "timeout": 10, "connect_timeout": 10, **settings})
        cache.clear()
        return cache

    request.cls.cache_factory = make


class TestPinyonCache(CommonTests, ClearTests, HasTests, DeleteManyWithPrefixTests):
    pass
