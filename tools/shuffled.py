"""A plugin of pytest: tests in random order, where the environment gives a seed for it, such as ``TEST_SEED=7``."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SEED = os.environ.get("TEST_SEED")


def pytest_configure(config: pytest.Config) -> None:
    if SEED:
        config.option.loadscopereorder = False


def pytest_report_header() -> str | None:
    return f"in random order: TEST_SEED={SEED}" if SEED else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffles the files, and the tests of each: what a file sets up once is still set up once."""
    if not SEED:
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    chance, shuffled = random.Random(SEED), list(files.values())
    chance.shuffle(shuffled)
    for tests in shuffled:
        chance.shuffle(tests)
    items[:] = [item for tests in shuffled for item in tests]
