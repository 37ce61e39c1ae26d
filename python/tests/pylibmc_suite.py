"""A plugin for pylibmc's own test run. It replaces pylibmc by Pinyon's module, adds the examples in its docstrings,
and writes down the outcome of each test.
"""

from __future__ import annotations

import ast
import doctest
import gc
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pinyon.compat import pylibmc
from pinyon.compat.pylibmc import client

#: The folder with pylibmc's sources.
SOURCES = Path(os.environ["PYLIBMC_SOURCES"])
#: The output: "passed" or what went wrong, for each test.
OUTCOMES = Path(os.environ["PYLIBMC_OUTCOMES"])

#: pylibmc's modules with examples in their docstrings.
EXAMPLES = ("__init__", "client", "pools", "test")

outcomes: dict[str, str] = {}


def stand_in() -> None:
    """Makes ``import pylibmc`` import Pinyon's module, except for pylibmc's module of tests."""
    native = ModuleType("_pylibmc")
    native.__dict__.update({**vars(pylibmc), "client": pylibmc.Client})
    sys.modules.update({"pylibmc": pylibmc, "pylibmc.client": client, "_pylibmc": native})
    specification = importlib.util.spec_from_file_location("pylibmc.test", SOURCES / "src" / "pylibmc" / "test.py")
    assert specification is not None
    assert specification.loader is not None
    module = sys.modules["pylibmc.test"] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)


def examples() -> Iterator[doctest.DocTest]:
    """The examples of each docstring, with the names of Pinyon's module."""
    for name in EXAMPLES:
        tree = ast.parse((SOURCES / "src" / "pylibmc" / f"{name}.py").read_text())
        names = {**vars(pylibmc), **vars(client), **vars(sys.modules["pylibmc.test"])}
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                continue
            text = ast.get_docstring(node) or ""
            if ">>>" in text:
                where = f"{name}.{getattr(node, 'name', 'docstring')}"
                yield doctest.DocTestParser().get_doctest(text, names, where, where, 0)


class Example(pytest.Item):
    test: doctest.DocTest

    def runtest(self) -> None:
        said: list[str] = []
        failed, _ = doctest.DocTestRunner(verbose=False).run(self.test, out=said.append)
        assert not failed, "".join(said)


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    for test in examples():
        item = Example.from_parent(session, name=f"examples/{test.name}")
        item.test = test
        items.append(item)


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        outcomes[report.nodeid] = str(report.longrepr).splitlines()[-1]


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or not report.passed:
        outcomes[report.nodeid] = "passed" if report.passed else str(report.longrepr).splitlines()[-1]


def pytest_collection_finish() -> None:
    """Freezes existing objects: its tests collect garbage hundreds of times."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    OUTCOMES.write_text(json.dumps(outcomes))


stand_in()
