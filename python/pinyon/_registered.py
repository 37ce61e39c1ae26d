"""Registers with the native half what it makes objects of, and what it calls: it imports nothing of this half."""

from __future__ import annotations

from pinyon import _credentials, _native, _telling, errors, events, metadata, metrics


def register() -> None:
    """Register all of it."""
    of_kinds: list[type[object]] = [getattr(errors, name) for name, *_ in _native.ERROR_KINDS]
    others = [errors.BatchFailure, events.Event, metadata.ItemMetadata]
    measured = [metrics.CommandMetrics, metrics.LockMetrics, metrics.NearMetrics, metrics.ServerMetrics]
    _native.register([*of_kinds, *others, *measured], run_awaitable=_credentials.run, start_telling=_telling.start)
