"""The commands of ``pinyon locks`` that inspect and release locks, as users type them."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Terminal, run
from pinyon_verify.ports import free_port
from servers import Redis
from waiting import PATIENT, SOON, wait_until

import pinyon
from pinyon.cli.terminal import duration, text_of


@pytest.fixture
def locks(redis: Redis) -> Iterator[pinyon.Locks]:
    with pinyon.Locks(redis.url, namespace="shop", **PATIENT) as locks:
        yield locks


@pytest.fixture
def waiter(redis: Redis) -> Iterator[str]:
    """A process that waits for the lock on ``a``. Returns its attempt."""
    source = "import sys, pinyon\npinyon.Locks(sys.argv[1], namespace='shop').lock('a', timeout=30).acquire()"
    process = subprocess.Popen([sys.executable, "-c", source, redis.url])
    yield str(process.pid)
    process.kill()
    process.wait()


def wait_until_waiting(locks: pinyon.Locks, count: int) -> None:
    wait_until(lambda: locks.waiting("a") == count)


#: Tells the timeouts of every client of locks that the command makes.
TELLS_TIMEOUTS = """
import pinyon
make = pinyon.Locks.__init__
def make_and_tell(self, *arguments, **settings):
    print("timeouts", settings["command_timeout"], settings["connect_timeout"], flush=True)
    make(self, *arguments, **settings)
pinyon.Locks.__init__ = make_and_tell
"""


@pytest.mark.parametrize(
    "verb",
    [("list",), ("show", "a"), ("release", "--yes", "a"), ("stress", "-f", "1", "-k", "1", "-s", "0.5")],
    ids=lambda verb: verb[0],
)
def test_every_verb_takes_the_timeout_of_its_clients(redis: Redis, verb: tuple[str, ...]) -> None:
    done = run(*verb, "--timeout", "30", url=redis.url, program=TELLS_TIMEOUTS)
    told = [line for line in done.stdout.splitlines() if line.startswith("timeouts")]
    assert told, done.stderr
    assert set(told) == {"timeouts 30.0 15.0"}


def test_list_prints_a_line_for_each_lock_of_the_namespace(redis: Redis, locks: pinyon.Locks) -> None:
    with (
        pinyon.Locks(redis.url, namespace="sh*p", **PATIENT) as others,
        others.lock("other"),
        locks.lock("b", "a", ttl=100) as held,
    ):
        done = run("list", "--namespace", "shop", url=redis.url)
        other = run("list", "--namespace", "sh*p", url=redis.url)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["a", "b"]
    assert [row[2] for row in rows] == [str(held.token)] * 2
    assert all(re.fullmatch(r"\d+\.\d s", row[3]) for row in rows)
    assert all(re.fullmatch(r"1 min [0-4]\d s", row[4]) for row in rows)
    assert [row[5] for row in rows] == ["0", "0"]
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split("\t")[0] for line in other.stdout.splitlines()] == ["other"]


def test_list_says_when_nothing_is_locked(redis: Redis) -> None:
    done = run("list", url=redis.url)
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing is locked in namespace pinyon on 127.0.0.1:" in done.stderr
    assert run("list", "--json", url=redis.url).stdout == "[]\n"


def test_list_finds_more_locks_than_one_question_is_about(redis: Redis, locks: pinyon.Locks) -> None:
    names = sorted(f"name:{number}" for number in range(250))
    with locks.lock(*names):
        done = run("list", "--namespace", "shop", "--json", url=redis.url)
    assert [each["name"] for each in json.loads(done.stdout)] == names


def test_names_of_several_hash_tags_are_listed_shown_and_released(redis: Redis) -> None:
    names = ["plain", "{a}:one", "{a}:two", "{b}", "x{a}"]
    with (
        pinyon.Locks(redis.url, namespace="shop", hash_tags="names", **PATIENT) as locks,
        contextlib.ExitStack() as stack,
    ):
        for name in names:
            stack.enter_context(locks.lock(name))
        tagged = ("--namespace", "shop", "--hash-tags", "names")
        done = run("list", *tagged, url=redis.url)
        assert [line.split("\t")[0] for line in done.stdout.splitlines()] == sorted(names)
        assert [
            line.split("\t")[0] for line in run("list", "--namespace", "shop", url=redis.url).stdout.splitlines()
        ] == ["plain"]
        shown = json.loads(run("show", "{b}", "plain", "{a}:one", "--json", *tagged, url=redis.url).stdout)
        assert [(each["name"], each["process"]) for each in shown] == [
            (name, os.getpid()) for name in ("{b}", "plain", "{a}:one")
        ]
        assert run("release", "{b}", "{a}:two", "--yes", *tagged, url=redis.url).returncode == 0
        assert not locks.is_locked("{b}")
        assert not locks.is_locked("{a}:two")
        assert locks.is_locked("{a}:one")
        with pytest.raises(pinyon.LockLost):
            stack.close()


def test_list_creates_nothing(redis: Redis) -> None:
    assert run("list", url=redis.url).returncode == 0
    assert run("show", "a", url=redis.url).returncode == 1
    assert redis.keys() == set()


def test_show_tells_the_holder_and_the_waiters_in_order(redis: Redis, locks: pinyon.Locks, waiter: str) -> None:
    with locks.lock("a", note="invoice 17") as held:
        wait_until_waiting(locks, 1)
        (status,) = locks.status("a")
        done = run("show", "a", "free", "--namespace", "shop", url=redis.url)
        as_json = run("show", "a", "free", "--namespace", "shop", "--json", url=redis.url)
    lines = done.stdout.splitlines()
    assert lines[0] == "a"
    assert lines[1] == f"  holder   {status.host} (pid {os.getpid()}): invoice 17"
    assert lines[2] == f"  attempt  {status.holder}"
    assert lines[3] == f"  token    {held.token}"
    assert re.fullmatch(r"  age      \d+\.\d s", lines[4])
    assert re.fullmatch(r"  left     \d+\.\d s", lines[5])
    assert lines[6] == f"  waiting  1. {status.host} (pid {waiter})"
    assert lines[7:] == ["free", "  free"]
    first, second = json.loads(as_json.stdout)
    assert (first["name"], first["holder"], first["token"]) == ("a", status.holder, held.token)
    assert (first["process"], first["waiting"]) == (os.getpid(), status.waiting)
    assert (first["host"], first["pid"], first["label"]) == (status.host, os.getpid(), None)
    assert first["owners"][status.holder]["note"] == first["note"] == "invoice 17"
    assert 0 < first["remaining"] <= SOON
    assert 0 <= first["age"] < 60
    nothing = dict.fromkeys(("holder", "token", "remaining", "age", "process", "host", "pid", "label", "note"))
    assert second == {"name": "free", "waiting": [], "readers": [], "owners": {}, **nothing}


def test_readers_are_counted_and_shown(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks, pinyon.Locks(redis.url, **PATIENT) as others:
        with locks.read("a", "b"), others.read("a"):
            (status,) = locks.status("a")
            listed, shown = run("list", url=redis.url), run("show", "a", url=redis.url)
        one = f"{status.host} (pid {os.getpid()})"
        assert [line.split("\t")[:2] for line in listed.stdout.splitlines()] == [
            ["a", "2 readers"],
            ["b", f"{one} reads"],
        ]
        lines = shown.stdout.splitlines()
        assert lines[1:3] == [f"  {'readers' if number == 1 else '':7}  {number}. {one}" for number in (1, 2)]


def test_show_of_free_names_alone_is_1(redis: Redis) -> None:
    done = run("show", "a", url=redis.url)
    assert (done.returncode, done.stdout) == (1, "a\n  free\n")


def test_release_takes_a_lock_and_says_who_had_it(redis: Redis, locks: pinyon.Locks) -> None:
    held = locks.lock("a").acquire()
    host = locks.status("a")[0].host
    done = run("release", "a", "--yes", "--namespace", "shop", url=redis.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"a is released; it was held by {host} (pid {os.getpid()}), token {held.token}\n"
    assert not locks.is_locked("a")
    assert held.release() is False


def test_release_asks_for_yes_in_a_pipe(redis: Redis, locks: pinyon.Locks) -> None:
    with locks.lock("a"):
        done = run("release", "a", "--namespace", "shop", url=redis.url)
        assert (done.returncode, done.stdout) == (2, "")
        assert "--yes" in done.stderr
        assert locks.is_locked("a")


def test_release_respects_a_token(redis: Redis, locks: pinyon.Locks) -> None:
    held = locks.lock("a").acquire()
    done = run("release", "a", "--yes", "--token", "7", "--namespace", "shop", url=redis.url)
    assert done.returncode == 1
    assert f"with token {held.token}, not 7" in done.stderr
    assert locks.is_locked("a")
    done = run("release", "a", "--yes", "--token", str(held.token), "--namespace", "shop", url=redis.url)
    assert done.returncode == 0
    assert not locks.is_locked("a")


def test_release_says_what_is_not_held_and_releases_the_rest(redis: Redis, locks: pinyon.Locks) -> None:
    locks.lock("b").acquire()
    done = run("release", "a", "b", "--yes", "--namespace", "shop", url=redis.url)
    assert done.returncode == 1
    assert "a is not held in namespace shop on 127.0.0.1:" in done.stderr
    assert done.stdout.startswith("b is released; ")


def test_release_does_not_take_it_from_the_next_holder(redis: Redis, locks: pinyon.Locks) -> None:
    held = locks.lock("a").acquire()
    terminal = Terminal("release", "a", "--namespace", "shop", url=redis.url)
    terminal.wait_for("[y/N]")
    held.release()
    with locks.lock("a") as another:
        terminal.type("y\n")
        assert terminal.end() == 1
        assert "changed hands" in terminal.shown
        another.check()
        assert locks.is_locked("a")


def test_release_takes_what_the_pure_handler_holds(redis: Redis) -> None:
    with pinyon.Locks(redis.url, namespace="shop", handler="pure", **PATIENT) as locks:
        held = locks.lock("a").acquire()
        refused = run("release", "a", "--yes", "--token", str(held.token), "--namespace", "shop", url=redis.url)
        assert refused.returncode == 1
        assert "only the holder knows its token" in refused.stderr
        done = run("release", "a", "--yes", "--namespace", "shop", url=redis.url)
        assert (done.returncode, locks.is_locked("a")) == (0, False)


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 1), ("", 1), ("\x04", 1)])
def test_release_asks_on_a_terminal(redis: Redis, locks: pinyon.Locks, answer: str, status: int) -> None:
    held = locks.lock("a").acquire()
    terminal = Terminal("release", "a", "--namespace", "shop", url=redis.url)
    terminal.wait_for("[y/N]")
    assert f"token {held.token}" in terminal.shown
    terminal.type(answer + "\n")
    assert terminal.end() == status
    assert locks.is_locked("a") is (status == 1)


def test_ctrl_c_at_the_question_releases_nothing(redis: Redis, locks: pinyon.Locks) -> None:
    with locks.lock("a"):
        terminal = Terminal("release", "a", "--namespace", "shop", url=redis.url)
        terminal.wait_for("[y/N]")
        assert terminal.interrupt_at_a_question() == 130
        assert locks.is_locked("a")


#: Lets a command run as on a machine without the package rich.
WITHOUT_RICH = "sys.modules['rich'] = sys.modules['rich.console'] = None"


@pytest.mark.parametrize("program", ["", WITHOUT_RICH], ids=["rich", "without rich"])
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_gets_a_table_that_breaks_no_field(
    redis: Redis, locks: pinyon.Locks, columns: int, program: str
) -> None:
    with locks.lock("account:1", "stock") as held:
        (status,) = locks.status("stock")
        terminal = Terminal("list", "--namespace", "shop", url=redis.url, columns=columns, program=program)
        assert terminal.end() == 0
    lines = re.sub(r"\x1b\[[\d;]*m", "", terminal.shown).splitlines()
    assert max(map(len, lines)) <= columns
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == (
        ["NAME", "account:1", "stock"] if columns > 60 else ["account:1", "stock"]
    )
    holder = f"{status.host} (pid {status.pid})"
    for field in (holder, str(held.token)):
        assert sum(field in line for line in lines) == 2, lines
    if columns > 60:
        assert {line.index("HOLDER") for line in lines[:1]} == {line.index(holder) for line in lines[1:]}
    assert ("\x1b[" in terminal.shown) == (not program)
    assert "pip install" not in terminal.shown


def test_only_a_command_that_needs_rich_asks_for_it(redis: Redis) -> None:
    terminal = Terminal("stress", "-f", "1", "-k", "1", "-s", "0.1", url=redis.url, program=WITHOUT_RICH)
    assert terminal.end() == 0
    assert "a progress bar needs the package rich: pip install rich" in terminal.shown


@pytest.mark.parametrize("room", [[], ["locks"]], ids=["pinyon", "pinyon locks"])
def test_help_asks_for_a_command(room: list[str]) -> None:
    for arguments, stream in ((["--help"], "stdout"), ([], "stderr")):
        command = [sys.executable, "-m", "pinyon", *room, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
        assert "COMMAND" in getattr(done, stream)


def test_names_are_any_bytes_and_do_not_upset_a_terminal(redis: Redis, locks: pinyon.Locks) -> None:
    name = b"\xff\x1b[31m\n"
    with locks.lock(name):
        listed = run("list", "--namespace", "shop", url=redis.url)
        (found,) = json.loads(run("list", "--namespace", "shop", "--json", url=redis.url).stdout)
        assert listed.stdout.split("\t")[0] == "\\xff\\x1b[31m\\n"
        assert os.fsencode(found["name"]) == name
        shown = run("show", os.fsdecode(name), "--namespace", "shop", url=redis.url)
        assert shown.returncode == 0


def test_a_server_that_is_not_there_is_a_clear_error() -> None:
    url = f"redis://:secret@127.0.0.1:{free_port()}"
    for verb in (["list"], ["show", "a"], ["release", "a", "--yes"], ["stress"]):
        done = run(*verb, url=url)
        assert done.returncode == 2
        assert "cannot connect" in done.stderr
        assert "--url" in done.stderr
        assert "secret" not in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", ""], "name is empty"),
        (["show", "x" * 2000], "at most 1024"),
        (["list", "--namespace", ""], "namespace is empty"),
        (["list", "--url", "http://example.org"], "begins with http"),
        (["release", "a", "--token", "x"], "whole number"),
        (["stress", "--forks", "0"], "whole number of at least 1"),
        (["stress", "--sleep", "0"], "seconds above 0"),
        (["stress", "--driver", "fibers"], "invalid choice"),
        ([], "COMMAND"),
    ],
)
def test_what_makes_no_sense_is_said(redis: Redis, arguments: list[str], message: str) -> None:
    done = run(*arguments, url=redis.url)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pipe_that_is_closed_is_no_trouble(redis: Redis, locks: pinyon.Locks) -> None:
    with locks.lock(*[f"{number}" * 300 for number in range(250)]):
        command = f"'{sys.executable}' -m pinyon locks list --namespace shop --url {redis.url} | head -n 1"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=150, check=False)
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


def test_the_script_and_the_module_are_one(redis: Redis) -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    found = re.search(r'^\[project\.scripts\]\npinyon = "([\w.]+):(\w+)"', text, re.MULTILINE)
    assert found is not None
    assert getattr(importlib.import_module(found.group(1)), found.group(2)) is pinyon.cli.main  # type: ignore[attr-defined]
    done = subprocess.run([sys.executable, "-m", "pinyon", "--version"], capture_output=True, text=True, check=False)
    assert done.stdout == f"pinyon {pinyon.__version__}\n"


def test_times_and_names_are_for_people() -> None:
    assert [duration(seconds) for seconds in (0.04, 9.96, 61, 7322)] == ["0.0 s", "10.0 s", "1 min 01 s", "2 h 02 min"]
    assert text_of("naïve\t\x1b") == "naïve\\t\\x1b"
