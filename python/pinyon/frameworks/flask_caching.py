"""Flask-Caching on memcached: ``CACHE_TYPE = "pinyon.frameworks.flask_caching.PinyonCache"``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask_caching.backends.base import BaseCache

from pinyon.frameworks import cachelib

if TYPE_CHECKING:
    from flask import Flask


class PinyonCache(BaseCache, cachelib.PinyonCache):
    """A cache for Flask applications.

    The application's configuration has the servers (``CACHE_MEMCACHED_SERVERS``), the namespace (``CACHE_KEY_PREFIX``),
    the login (``CACHE_MEMCACHED_USERNAME`` and ``CACHE_MEMCACHED_PASSWORD``), and any other arguments of
    ``pinyon.Client`` (``CACHE_OPTIONS``).
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        cachelib.PinyonCache.__init__(self, *arguments, **settings)

    @classmethod
    def factory(cls, app: Flask, config: dict[str, Any], args: list[Any], kwargs: dict[str, Any]) -> PinyonCache:
        """Make a cache from an application's configuration. Flask-Caching calls this."""
        settings = {
            "servers": config["CACHE_MEMCACHED_SERVERS"],
            "key_prefix": config["CACHE_KEY_PREFIX"],
            "username": config.get("CACHE_MEMCACHED_USERNAME"),
            "password": config.get("CACHE_MEMCACHED_PASSWORD"),
        }
        return cls(*args, **{**settings, **kwargs})
