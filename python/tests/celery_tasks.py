"""An application of Celery whose workers run in processes of their own; the environment says where."""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery


def application(broker: str, backend: str, **config: object) -> Celery:
    """An application with the tasks of the tests."""
    app = Celery("tests", broker=broker, backend=backend, set_as_current=False)
    app.conf.update(
        {"cache_backend_options": {"timeout": 10}, "broker_transport_options": {"polling_interval": 0.02}, **config}
    )

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
    def later(number: int) -> int:
        time.sleep(0.1)
        return number

    @app.task(name="process", shared=False)
    def process() -> int:
        return os.getpid()

    return app


def on_disk(folder: Path, backend: str) -> Celery:
    """The application whose tasks are files."""
    places = dict.fromkeys(("data_folder_in", "data_folder_out", "control_folder"), str(folder))
    options = {**places, "polling_interval": 0.02}
    return application("filesystem://", backend, broker_transport_options=options)


if "CELERY_FOLDER" in os.environ:
    app = on_disk(Path(os.environ["CELERY_FOLDER"]), os.environ["CELERY_BACKEND"])
