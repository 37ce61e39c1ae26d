"""Cache clients for the concurrency models; their methods are awaited in all of them."""

from __future__ import annotations

import importlib
from typing import Any

from pinyon.cli.stress import models
from pinyon.cli.stress.models import Model, Tasks, Uvloop

MODELS: dict[str, type[Model]] = {**models.MODELS, Uvloop.name: Uvloop}
#: Ruby's, which ``verify/ruby/soak.rb`` runs.
RUBY = ("ruby-threads", "ruby-plain", "ruby-async", "ruby-eventmachine")


class Awaited:
    """A blocking client, or its batch, with methods that are awaited but block."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **settings: Any) -> Any:
            return getattr(self.wrapped, name)(*arguments, **settings)

        return call

    def quiet(self) -> Awaited:
        return Awaited(self.wrapped.quiet())

    def close(self) -> None:
        self.wrapped.close()

    async def __aenter__(self) -> Awaited:
        self.wrapped.__enter__()
        return self

    async def __aexit__(self, *exception: Any) -> Any:
        return self.wrapped.__exit__(*exception)


def make_client(model: Model, servers: list[str], **settings: Any) -> Any:
    """Return a client in a model, with methods that are awaited."""
    client = importlib.import_module(model.module).Client(servers, **settings)
    return client if isinstance(model, Tasks) else Awaited(client)
