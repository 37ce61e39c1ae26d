"""Django's sessions in the database, with copies in a PinyonCache.

Set ``SESSION_ENGINE = "pinyon.frameworks.django_sessions"``. The engine differs from Django's ``cached_db`` in one
thing: if a session is deleted or changed while its cache server is down, the old copy there is never used again.
"""

from __future__ import annotations

import logging
import time
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.base import InvalidCacheKey
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router, transaction

import pinyon
from pinyon.frameworks.django import PinyonCache

if TYPE_CHECKING:
    from pinyon.frameworks._untyped import Untyped as DatabaseStore
else:
    from django.contrib.sessions.backends.db import SessionStore as DatabaseStore

logger: logging.Logger = logging.getLogger("django.contrib.sessions")

KEY_PREFIX = "pinyon.frameworks.django_sessions"


class Watermark:
    """A time in the table of sessions. No process uses a copy that was made before it."""

    #: The session key of its row. Django accepts no key this short from a cookie, so no visitor can reach it.
    KEY = "pinyon"
    #: Added to the time in ``expire_date``, so that ``clearsessions`` keeps the row.
    KEPT_FOR = timedelta(days=3650)
    #: How long a process relies on the time it has read, in seconds.
    FRESH = 1.0
    #: The time is at least this far ahead of the failure: the clocks of two web servers may differ so much. In seconds.
    AHEAD = 10.0

    def __init__(self) -> None:
        self._time = float("-inf")
        self._stored = float("-inf")
        self._read_at = float("-inf")

    def is_due(self) -> bool:
        """Return whether the time must be read again before a copy is used."""
        return time.monotonic() - self._read_at >= self.FRESH

    def read(self, model: Any) -> None:
        now = time.monotonic()
        rows = model.objects.using(self._database(model)).filter(session_key=self.KEY)
        for expire_date in rows.values_list("expire_date", flat=True):
            kept_until = expire_date.replace(tzinfo=timezone.utc)
            self._time = max(self._time, (kept_until - self.KEPT_FOR).timestamp())
        self._read_at = now

    def is_before(self, moment: float) -> bool:
        """Return whether the time is before this moment, so that a copy made then may be used."""
        return moment > self._time

    def move(self, model: Any, reason: Exception) -> None:
        """Move the time, so that no existing copy is used. This writes to the database once in ``AHEAD`` seconds."""
        now, database = time.time(), self._database(model)
        if self._stored >= now + self.AHEAD:
            return
        moved = now + 2 * self.AHEAD
        logger.warning("Sessions are read from the database again, not from their copies in the cache: %s", reason)
        kept_until = datetime.fromtimestamp(moved, timezone.utc) + self.KEPT_FOR
        if not settings.USE_TZ:
            kept_until = kept_until.replace(tzinfo=None)
        rows = model.objects.using(database)
        earlier = {"session_key": self.KEY, "expire_date__lt": kept_until}
        if not rows.filter(**earlier).update(expire_date=kept_until):
            rows.get_or_create(session_key=self.KEY, defaults={"session_data": "", "expire_date": kept_until})
        self._time = max(self._time, moved)
        transaction.on_commit(lambda: self._note_stored(moved), using=database)

    def _note_stored(self, moved: float) -> None:
        self._stored = max(self._stored, moved)

    @staticmethod
    def _database(model: Any) -> str:
        # A replica may not have the row yet.
        return str(router.db_for_write(model))


WATERMARK = Watermark()


class SessionStore(DatabaseStore):
    """A session in the database. Its copy in the cache ``SESSION_CACHE_ALIAS`` saves most requests the query."""

    cache_key_prefix = KEY_PREFIX

    @cached_property
    def _cache(self) -> PinyonCache:
        cache = caches[settings.SESSION_CACHE_ALIAS]
        if not isinstance(cache, PinyonCache):
            raise ImproperlyConfigured(
                f"SESSION_ENGINE {__name__!r} needs a PinyonCache, but CACHES[{settings.SESSION_CACHE_ALIAS!r}] is a "
                f"{type(cache).__name__}: name the alias of a PinyonCache in SESSION_CACHE_ALIAS"
            )
        return cache.strict()

    @property
    def cache_key(self) -> str:
        return self.cache_key_prefix + str(self._get_or_create_session_key())

    def load(self) -> Any:
        began = time.time()
        try:
            copy = self._cache.get(self.cache_key)
        except pinyon.UndecodableValue:
            copy = None
        except (pinyon.Error, InvalidCacheKey):
            return super().load()  # type: ignore[misc]
        if copy and WATERMARK.is_due():
            WATERMARK.read(self.model)
        if copy and WATERMARK.is_before(copy["made"]):
            return copy["data"]
        row = self._get_session_from_db()
        if row is None:
            return {}
        data = self.decode(row.session_data)
        self._keep(began, data, self.get_expiry_age(expiry=row.expire_date))
        return data

    async def aload(self) -> Any:
        began = time.time()
        try:
            copy = await self._cache.aget(self.cache_key)
        except pinyon.UndecodableValue:
            copy = None
        except (pinyon.Error, InvalidCacheKey):
            return await super().aload()  # type: ignore[misc]
        if copy and WATERMARK.is_due():
            await sync_to_async(WATERMARK.read)(self.model)
        if copy and WATERMARK.is_before(copy["made"]):
            return copy["data"]
        row = await self._aget_session_from_db()
        if row is None:
            return {}
        data = self.decode(row.session_data)
        await self._akeep(began, data, await self.aget_expiry_age(expiry=row.expire_date))
        return data

    def save(self, must_create: bool = False) -> None:
        if self.session_key is None:
            self.create()
            return
        began = time.time()
        super().save(must_create)  # type: ignore[misc]
        self._keep(began, self._session, self.get_expiry_age())

    async def asave(self, must_create: bool = False) -> None:
        if self.session_key is None:
            await self.acreate()
            return
        began = time.time()
        await super().asave(must_create)  # type: ignore[misc]
        await self._akeep(began, self._session, await self.aget_expiry_age())

    def delete(self, session_key: str | None = None) -> None:
        deleted = session_key or self.session_key
        if deleted is None:
            return
        super().delete(deleted)  # type: ignore[misc]
        key, database = self.cache_key_prefix + deleted, router.db_for_write(self.model)
        self._forget(key)
        if connections[database].in_atomic_block:
            # Until the commit other requests can read the row and copy it.
            transaction.on_commit(lambda: self._forget(key), using=database)

    async def adelete(self, session_key: str | None = None) -> None:
        deleted = session_key or self.session_key
        if deleted is None:
            return
        await super().adelete(deleted)  # type: ignore[misc]
        await self._aforget(self.cache_key_prefix + deleted)

    def _keep(self, made: float, data: Any, ttl: int) -> None:
        """Store a copy. Delete it again if another request has deleted the session meanwhile."""
        try:
            self._cache.set(self.cache_key, {"made": made, "data": data}, ttl)
        except (pinyon.ValueTooLarge, pinyon.ServerError, pinyon.UnsupportedType):
            self._forget(self.cache_key)
        except pinyon.Error as error:
            WATERMARK.move(self.model, error)
        else:
            if not self.exists(self.session_key):
                self._forget(self.cache_key)

    async def _akeep(self, made: float, data: Any, ttl: int) -> None:
        try:
            await self._cache.aset(self.cache_key, {"made": made, "data": data}, ttl)
        except (pinyon.ValueTooLarge, pinyon.ServerError, pinyon.UnsupportedType):
            await self._aforget(self.cache_key)
        except pinyon.Error as error:
            await sync_to_async(WATERMARK.move)(self.model, error)
        else:
            if not await self.aexists(self.session_key):
                await self._aforget(self.cache_key)

    def _forget(self, key: str) -> None:
        try:
            self._cache.delete(key)
        except InvalidCacheKey:  # Such a session has no copy.
            pass
        except pinyon.Error as error:
            WATERMARK.move(self.model, error)

    async def _aforget(self, key: str) -> None:
        try:
            await self._cache.adelete(key)
        except InvalidCacheKey:
            pass
        except pinyon.Error as error:
            await sync_to_async(WATERMARK.move)(self.model, error)
