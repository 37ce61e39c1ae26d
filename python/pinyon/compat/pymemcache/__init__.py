"""pymemcache 4.0's interface on top of ``pinyon.Client``: change the import, keep the code.

``docs/from-pymemcache.md`` says what is the same, what differs, and how to move to Pinyon's own interface.
"""

from pinyon.compat.pymemcache.client.base import Client, KeepaliveOpts, PooledClient
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

#: The version of pymemcache whose interface this is.
__version__ = "4.0.0"

__all__ = [
    "Client",
    "HashClient",
    "KeepaliveOpts",
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
