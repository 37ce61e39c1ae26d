"""pymemcache's clients, under the same import path as in pymemcache."""

from pinyon.compat.pymemcache.client.base import Client, PooledClient
from pinyon.compat.pymemcache.client.hash import HashClient
from pinyon.compat.pymemcache.client.retrying import RetryingClient
from pinyon.compat.pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheError,
    MemcacheIllegalInputError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
    MemcacheUnknownError,
)

__all__ = [
    "Client",
    "HashClient",
    "MemcacheClientError",
    "MemcacheError",
    "MemcacheIllegalInputError",
    "MemcacheServerError",
    "MemcacheUnexpectedCloseError",
    "MemcacheUnknownCommandError",
    "MemcacheUnknownError",
    "PooledClient",
    "RetryingClient",
]
