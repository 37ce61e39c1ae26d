"""A Celery application whose workers run in separate processes. The environment says where its servers are."""

from __future__ import annotations

import os
import time

from celery import Celery


def application(broker: str, backend: str, **config: object) -> Celery:
    """An application with the tasks of the tests."""
    app = Celery("tests", broker=broker, backend=backend, set_as_current=False)
    app.conf.update(cache_backend_options={"timeout": 10, "connect_timeout": 10}, **config)

    @app.task(name="add", shared=False)
    def add(first: int, second: int) -> int:
        return first + second

    @app.task(name="total", shared=False)
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    @app.task(name="fail", shared=False)
    def fail() -> None:
        raise ValueError("no such thing")

    @app.task(name="later", shared=False)
    def later(number: int) -> tuple[int, int]:
        time.sleep(0.1)
        return number, os.getpid()

    return app


if "CELERY_BROKER" in os.environ:
    app = application(os.environ["CELERY_BROKER"], os.environ["CELERY_BACKEND"])
