"""The harness of C's clients, with a client that is a table."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import done

from pinyon_bench.c.entries import command
from pinyon_bench.c.rows import c_rows
from pinyon_bench.contestant import BENCH_FOLDER, Contestant, Entry

CLIENT = Path(__file__).parent / "c" / "table.c"
LOOP = BENCH_FOLDER / "c" / "loop.c"
ROWS = [row.name for row in c_rows(short=True)]
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target folder with the client's library."""
    folder = tmp_path_factory.mktemp("target")
    library = folder / "release" / "libpinyon-bench-table.so"
    library.parent.mkdir()
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{LOOP.parent}"]
    subprocess.run(["cc", *flags, "-o", str(library), str(CLIENT), str(LOOP)], check=True)
    return folder


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, target: Path) -> Iterator[Ask]:
    opened = []

    def ask_one(do: str, name: str, wrong: str = "", file: str = "table") -> dict[str, Any]:
        monkeypatch.setenv("CARGO_TARGET_DIR", str(target))
        monkeypatch.setenv("TABLE_WRONG", wrong)
        contestant = Contestant(Entry("table", command(file, "c"), ()), None)
        opened.append(contestant)
        row = next(row for row in c_rows(short=True) if row.name == name)
        return done(contestant.ask, do, row.spec(["nowhere:1"], 3))

    yield ask_one
    for contestant in opened:
        contestant.close()


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_verified_and_timed(ask: Ask, name: str) -> None:
    assert ask("verify", name) == {"ok": True}
    reply = ask("time", name)
    assert reply["ok"] and reply["wall"] > 0


@pytest.mark.parametrize("do", ["verify", "time"])
@pytest.mark.parametrize(
    ("name", "wrong"), [("c:set:64B", "set"), ("c:get:64B", "get"), ("c:multiget:100:1", "get_many")]
)
def test_wrong_replies_are_found_also_while_the_clock_runs(ask: Ask, do: str, name: str, wrong: str) -> None:
    reply = ask(do, name, wrong)
    assert not reply["ok"] and "WrongResult" in reply["reason"]


def test_a_client_that_is_not_compiled_says_so(ask: Ask) -> None:
    reply = ask("describe", "c:get:64B", file="none")
    assert not reply["ok"] and "cannot be loaded" in reply["reason"]
