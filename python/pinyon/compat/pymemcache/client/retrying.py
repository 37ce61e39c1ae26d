"""A client that retries failed commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

_Errors = tuple[type[Exception], ...]


def _errors(name: str, given: Any) -> _Errors:
    if given is None:
        return ()
    if not isinstance(given, (tuple, set, list)):
        raise ValueError(f"{name} must be either a tuple, a set or a list.")
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in given):
        raise ValueError(f"{name} is only allowed to contain elements that are subclasses of Exception.")
    return tuple(given)


class RetryingClient:
    """Retries the failed commands of another client.

    While Pinyon has marked a server down, up to 1.5 seconds at a time, attempts on it fail immediately.

    Args:
        client: the other client.
        attempts: the largest number of attempts for a command.
        retry_delay: seconds between two attempts.
        retry_for: the errors to retry after. Without any, all errors.
        do_not_retry_for: the errors not to retry after.
    """

    def __init__(
        self,
        client: Any,
        attempts: int = 2,
        retry_delay: float = 0,
        retry_for: Iterable[type[Exception]] | None = None,
        do_not_retry_for: Iterable[type[Exception]] | None = None,
    ) -> None:
        if attempts < 1:
            raise ValueError("`attempts` argument must be at least 1. Otherwise no attempts are made.")
        self._client = client
        self._attempts = attempts
        self._retry_delay = retry_delay
        self._retry_for = _errors("retry_for", retry_for)
        self._do_not_retry_for = _errors("do_not_retry_for", do_not_retry_for)
        for kind in self._retry_for:
            if kind in self._do_not_retry_for:
                raise ValueError(f"{kind!r} is in both `retry_for` and `do_not_retry_for`; it can be in one alone.")

    def _may_pass(self, error: Exception) -> bool:
        wanted = not self._retry_for or isinstance(error, self._retry_for)
        return wanted and not isinstance(error, self._do_not_retry_for)

    def _retry(self, command: Callable[..., Any], arguments: Any, settings: Any) -> Any:
        for _ in range(self._attempts - 1):
            try:
                return command(*arguments, **settings)
            except Exception as error:
                if not self._may_pass(error):
                    raise
            time.sleep(self._retry_delay)
        return command(*arguments, **settings)

    def __getattr__(self, name: str) -> Any:
        if name == "_client":
            raise AttributeError("it has not been initialised")
        found = getattr(self._client, name)
        if not callable(found):
            return found
        return lambda *arguments, **settings: self._retry(found, arguments, settings)

    def __dir__(self) -> list[str]:
        return dir(self._client)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value, noreply=True)

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __delitem__(self, key: Any) -> None:
        self.delete(key, noreply=True)
