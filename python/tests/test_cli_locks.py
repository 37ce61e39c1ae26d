"""The command ``pinyon locks``, as it is typed."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from certificates import Authority, SecureRedis
from models import drive
from servers import Redis, free_port

import pinyon
from pinyon._native import DEFAULT_SETTINGS
from pinyon.cli.arguments import parse
from pinyon.cli.stress.checks import disorders, overlaps
from pinyon.cli.stress.models import MODELS
from pinyon.cli.stress.plan import Complete, Event, Failure, Mismatch, Plan, Section
from pinyon.cli.stress.results import Results, Verdict
from pinyon.cli.stress.worker import Stop, Worker
from pinyon.cli.terminal import duration, text_of

#: Six processes go through the keys once, however often they have to try.
SHORT = ("--forks", "6", "--keys", "3", "--sleep", "0.05", "--tries", "1000000")
#: They meet on one key, all in its section at once unless a lock keeps them out.
MEETING = ("--forks", "6", "--keys", "1", "--sleep", "1", "--tries", "1000000")


def run(*arguments: str, url: str, program: str = "") -> subprocess.CompletedProcess[str]:
    """What comes of a command line, in a pipe; ``program`` is done first."""
    source = f"import sys, pinyon.cli\n{program}\nsys.exit(pinyon.cli.main())"
    command = [sys.executable, "-c", source, "locks", *arguments]
    environment = {**os.environ, "REDIS_URL": url}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=150, check=False, stdin=subprocess.DEVNULL
    )


class Terminal:
    """A command line on a terminal of its own."""

    def __init__(self, *arguments: str, url: str, program: str = "", columns: int = 80, room: str = "locks") -> None:
        source = f"import sys, pinyon.cli\n{program}\nsys.exit(pinyon.cli.main())"
        environment = {**os.environ, "REDIS_URL": url, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "40"}
        environment.pop("NO_COLOR", None)
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, [sys.executable, "-c", source, room, *arguments], environment)
        self.shown = ""

    def wait_for(self, text: str, within: float = 60) -> None:
        give_up = time.monotonic() + within
        while text not in self.shown:
            assert time.monotonic() < give_up, self.shown
            assert self._read(), self.shown

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def interrupt_at_a_question(self) -> int:
        """Its exit status, once it has noticed Ctrl-C: Python misses one that comes just before it waits for input."""
        self.type("\x03")
        for _ in range(5):
            while select.select([self._fd], [], [], 2)[0]:
                if not self._read():
                    return self.end()
            self.type("\x03")
        raise TimeoutError(self.shown)

    def end(self) -> int:
        """Its exit status, once it has ended."""
        while self._read():
            pass
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        if not select.select([self._fd], [], [], 60)[0]:
            raise TimeoutError(self.shown)
        try:
            received = os.read(self._fd, 65536)
        except OSError:
            return False
        self.shown += received.decode()
        return bool(received)


@pytest.fixture
def locks(redis: Redis) -> Iterator[pinyon.Locks]:
    with pinyon.Locks(redis.url, namespace="shop") as locks:
        yield locks


@pytest.fixture
def waiter(redis: Redis) -> Iterator[str]:
    """A process that waits for the lock on ``a``; the attempt."""
    source = "import sys, pinyon\npinyon.Locks(sys.argv[1], namespace='shop').lock('a', timeout=30).acquire()"
    process = subprocess.Popen([sys.executable, "-c", source, redis.url])
    yield str(process.pid)
    process.kill()
    process.wait()


def wait_until_waiting(locks: pinyon.Locks, count: int) -> None:
    give_up = time.monotonic() + 60
    while locks.waiting("a") != count:
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_list_prints_a_line_for_each_lock_of_the_namespace(redis: Redis, locks: pinyon.Locks) -> None:
    with (
        pinyon.Locks(redis.url, namespace="sh*p") as others,
        others.lock("other"),
        locks.lock("b", "a", ttl=100) as held,
    ):
        done = run("list", "--namespace", "shop", url=redis.url)
        other = run("list", "--namespace", "sh*p", url=redis.url)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["a", "b"]
    assert [row[2] for row in rows] == [str(held.token)] * 2
    assert all(re.fullmatch(r"\d\.\d s", row[3]) for row in rows)
    assert all(re.fullmatch(r"1 min [34]\d s", row[4]) for row in rows)
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
    with pinyon.Locks(redis.url, namespace="shop", hash_tags="names") as locks, contextlib.ExitStack() as stack:
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
    with locks.lock("a") as held:
        wait_until_waiting(locks, 1)
        (status,) = locks.status("a")
        done = run("show", "a", "free", "--namespace", "shop", url=redis.url)
        as_json = run("show", "a", "free", "--namespace", "shop", "--json", url=redis.url)
    lines = done.stdout.splitlines()
    assert lines[0] == "a"
    assert lines[1] == f"  holder   {status.holder} (process {os.getpid()})"
    assert lines[2] == f"  token    {held.token}"
    assert re.fullmatch(r"  age      \d+\.\d s", lines[3])
    assert re.fullmatch(r"  left     \d+\.\d s", lines[4])
    assert lines[5] == f"  waiting  1. {status.waiting[0]} (process {waiter})"
    assert lines[6:] == ["free", "  free"]
    first, second = json.loads(as_json.stdout)
    assert (first["name"], first["holder"], first["token"]) == ("a", status.holder, held.token)
    assert (first["process"], first["waiting"]) == (os.getpid(), status.waiting)
    assert 0 < first["remaining"] <= 10
    assert 0 <= first["age"] < 10
    nothing = dict.fromkeys(("holder", "token", "remaining", "age", "process"))
    assert second == {"name": "free", "waiting": [], **nothing}


def test_show_of_free_names_alone_is_1(redis: Redis) -> None:
    done = run("show", "a", url=redis.url)
    assert (done.returncode, done.stdout) == (1, "a\n  free\n")


def test_release_takes_a_lock_and_says_who_had_it(redis: Redis, locks: pinyon.Locks) -> None:
    held = locks.lock("a").acquire()
    holder = locks.owner("a")
    done = run("release", "a", "--yes", "--namespace", "shop", url=redis.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"a is released; it was held by {holder} (process {os.getpid()}), token {held.token}\n"
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
    with pinyon.Locks(redis.url, namespace="shop", handler="pure") as locks:
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


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_a_table_that_fits(redis: Redis, locks: pinyon.Locks, columns: int) -> None:
    with locks.lock("a", "b" * 100) as held:
        terminal = Terminal("list", "--namespace", "shop", url=redis.url, columns=columns)
        assert terminal.end() == 0
    lines = re.sub(r"\x1b\[[\d;]*m", "", terminal.shown).splitlines()
    assert max(map(len, lines)) <= columns
    assert any(line.split()[:1] == ["NAME"] for line in lines)
    assert sum(str(held.token) in line for line in lines) == 2
    assert "\x1b[" in terminal.shown


def test_a_terminal_without_rich_gets_plain_lines_and_a_hint(redis: Redis, locks: pinyon.Locks) -> None:
    with locks.lock("a"):
        terminal = Terminal("list", "--namespace", "shop", url=redis.url, program="sys.modules['rich.console'] = None")
        assert terminal.end() == 0
    assert "pip install 'pinyon[cli]'" in terminal.shown
    assert "NAME\tHOLDER" in terminal.shown
    assert "\x1b[" not in terminal.shown


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
        (["stress", "--forks", "0"], "whole number from 1 on"),
        (["stress", "--sleep", "0"], "seconds above 0"),
        (["stress", "--driver", "fibers"], "invalid choice"),
        ([], "VERB"),
    ],
)
def test_what_makes_no_sense_is_said(redis: Redis, arguments: list[str], message: str) -> None:
    done = run(*arguments, url=redis.url)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def authority(certificates: Path) -> Authority:
    return Authority(certificates, "typed")


@pytest.fixture(scope="module")
def secure_redis(authority: Authority) -> Iterator[SecureRedis]:
    """Of another name than its address, and for those alone who show a certificate."""
    with SecureRedis(authority.issue("locks.internal"), authority) as server:
        yield server


@pytest.fixture(scope="module")
def known(authority: Authority) -> dict[str, str]:
    """What has to be said to the server that speaks TLS."""
    own = authority.issue("operator")
    files = {"ca": authority.file, "certificate": own.certificate, "key": own.key}
    return {**{name: str(file) for name, file in files.items()}, "server_name": "locks.internal"}


def typed(settings: dict[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_locks_are_looked_at_and_released_over_tls(
    secure_redis: SecureRedis, known: dict[str, str], scheme: str
) -> None:
    url, tls = f"{scheme}://{secure_redis.address}", typed(known)
    with pinyon.Locks(url, tls=pinyon.Tls(**known)) as locks:
        held = locks.lock("a").acquire()
        assert run("list", *tls, url=url).stdout.startswith("a\t")
        assert run("show", "a", *tls, url=url).stdout.startswith("a\n  holder   ")
        assert run("release", "a", "--yes", *tls, url=url).stdout.startswith("a is released; ")
        assert held.release() is False


@pytest.mark.parametrize("driver", ["blocking", "gevent", "asyncio"])
def test_stress_passes_over_tls(secure_redis: SecureRedis, known: dict[str, str], driver: str) -> None:
    before = secure_redis.keys()
    done = run("stress", *SHORT, "--driver", driver, *typed(known), url=secure_redis.url)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["PASS"]), done.stdout + done.stderr
    assert len(re.findall(r"^\[\d+\] Complete; Ok: 3, Failures: \d+$", done.stdout, re.MULTILINE)) == 6
    assert secure_redis.keys() == before


def test_a_server_may_be_trusted_unseen(secure_redis: SecureRedis, known: dict[str, str]) -> None:
    own = typed({name: known[name] for name in ("certificate", "key")})
    done = run("list", "--accept-any-certificate-which-is-dangerous", *own, url=secure_redis.url)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


#: What is said instead, None for nothing; and what comes of it.
UNTRUSTING: dict[str, tuple[dict[str, str | None], str]] = {
    "nothing is said": (
        dict.fromkeys(("ca", "certificate", "key", "server_name")),
        "the server's certificate is signed by nobody who is trusted",
    ),
    "another name": ({"server_name": "cache.internal"}, 'is not for "cache.internal" but for locks.internal'),
    "the name of the URL": ({"server_name": None}, 'is not for "127.0.0.1" but for locks.internal'),
    "no certificate": (dict.fromkeys(("certificate", "key")), "the server wants a certificate of the client's"),
    "a key alone": ({"certificate": None}, "a key is of no use without its certificate: give both"),
    "no such file": ({"ca": "/nowhere.pem"}, "ca: /nowhere.pem cannot be read: No such file or directory"),
    "no file": ({"ca": ""}, "cannot be read: No such file or directory"),
    "no name": ({"server_name": "no name"}, 'server_name "no name" is no name that a certificate can have'),
}


@pytest.mark.parametrize("verb", ["list", "stress"])
@pytest.mark.parametrize("case", UNTRUSTING)
def test_what_keeps_a_verb_from_speaking_tls_is_said(
    secure_redis: SecureRedis, known: dict[str, str], case: str, verb: str
) -> None:
    instead, says = UNTRUSTING[case]
    settings = {name: value for name, value in {**known, **instead}.items() if value is not None}
    done = run(verb, *typed(settings), url=secure_redis.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pinyon: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_speaks_no_tls_is_told_apart(redis: Redis, known: dict[str, str]) -> None:
    done = run("list", *typed(known), url=redis.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert "does it speak TLS on this port" in done.stderr


def test_every_setting_of_tls_can_be_typed() -> None:
    for verb in (["list"], ["show", "a"], ["release", "a"], ["stress"]):
        assert {*json.loads(DEFAULT_SETTINGS)["Tls"]} <= {*vars(parse(["locks", *verb]))}


def test_a_pipe_that_is_closed_is_no_trouble(redis: Redis, locks: pinyon.Locks) -> None:
    with locks.lock(*[f"{number}" * 300 for number in range(250)]):
        command = f"'{sys.executable}' -m pinyon locks list --namespace shop --url {redis.url} | head -n 1"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=20, check=False)
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


def test_the_script_and_the_module_are_one(redis: Redis) -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    found = re.search(r'^\[project\.scripts\]\npinyon = "([\w.]+):(\w+)"', text, re.MULTILINE)
    assert found is not None
    assert getattr(importlib.import_module(found.group(1)), found.group(2)) is pinyon.cli.main  # type: ignore[attr-defined]
    done = subprocess.run([sys.executable, "-m", "pinyon", "--version"], capture_output=True, text=True, check=False)
    assert done.stdout == f"pinyon {pinyon.__version__}\n"


@pytest.mark.parametrize("driver", ["blocking", "gevent", "asyncio"])
@pytest.mark.parametrize("handler", ["script", "pure"])
def test_stress_passes(redis: Redis, driver: str, handler: str) -> None:
    redis.ask("SET", "theirs", "1")
    done = run("stress", *SHORT, "--concurrency", "2", "--driver", driver, "--handler", handler, url=redis.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "PASS"
    assert len(re.findall(r"^\[\d+\] Complete; Ok: 6, Failures: \d+$", done.stdout, re.MULTILINE)) == 6
    assert "\x1b" not in done.stdout
    assert redis.keys() == {b"theirs"}


def test_stress_goes_through_the_keys_once(redis: Redis) -> None:
    done = run("stress", "-f", "2", "-k", "3", "-s", "0.2", "-t", "1000000", url=redis.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^\[\d+\] Complete; Ok: 3, ", done.stdout, re.MULTILINE)) == 2
    assert "sections   6 on 3 keys" in done.stdout


#: Hands out grants without asking anybody; the tokens increase as long as nobody else hands them out.
NO_LOCKING = """
import contextlib, itertools, pinyon
class Grant:
    def __init__(self, token): self.token = token
    def check(self): pass
tokens = itertools.count(1)
@contextlib.contextmanager
def lock(self, *names, **settings): yield Grant(next(tokens))
pinyon.Locks.lock = lock
"""

#: Locks as it should, and makes the tokens up.
SAME_TOKENS = "import pinyon.locks\npinyon.locks.Held.token = 7"


def test_stress_fails_where_a_lock_keeps_nobody_out(redis: Redis) -> None:
    done = run("stress", *MEETING, url=redis.url, program=NO_LOCKING)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "FAIL"
    assert "Value mismatch" in done.stdout
    assert re.search(r"^values     \d+ mismatch", done.stdout, re.MULTILINE)
    assert redis.keys() == set()


def test_stress_fails_where_sections_overlap_and_nobody_reads_it(redis: Redis) -> None:
    blind = "from pinyon.cli.stress.worker import Worker\nWorker.new_value = lambda self, token: b'1'"
    done = run("stress", *MEETING, url=redis.url, program=f"{NO_LOCKING}\n{blind}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^values     what was written was read$", done.stdout, re.MULTILINE)
    assert re.search(r"^overlaps   \d+ overlaps$", done.stdout, re.MULTILINE)
    assert re.search(r"key:\d: processes \d+ and \d+ were inside together for", done.stdout)


@pytest.mark.parametrize(("token", "violations"), [(6, 0), (7, 1), (8, 1)])
def test_a_value_written_under_an_earlier_lock_is_no_mismatch(token: int, violations: int) -> None:
    """Its holder got no time until its lock was over: that is what tokens are for."""

    class Place:
        prefix = b""

        def execute(self, command: str, *arguments: bytes) -> bytes:
            return b"%d 1" % token if command == "GET" else b"OK"

    plan = Plan("", b"", "blocking", "auto", 1, 1, 1, 1, 0.001, None)
    events: list[Event] = []
    worker = Worker(plan, MODELS["blocking"](), events.append)
    assert worker.draw()
    drive(worker.inside(Place(), SimpleNamespace(token=7, check=lambda: None)))
    with pytest.raises(Stop) if violations else contextlib.nullcontext():
        drive(worker.passed())
    assert sum(isinstance(event, Mismatch) for event in events) == violations


def test_stress_fails_where_tokens_do_not_increase(redis: Redis) -> None:
    done = run("stress", "-f", "3", "-k", "1", "-s", "0.5", "-t", "1000000", url=redis.url, program=SAME_TOKENS)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^overlaps   one at a time on every key$", done.stdout, re.MULTILINE)
    assert re.search(r"^tokens     \d+ disorders$", done.stdout, re.MULTILINE)


def test_stress_fails_where_a_process_dies(redis: Redis) -> None:
    dying = "import os, time\nfrom pinyon.cli.stress import worker\nworker.run = lambda *_: os._exit(3)"
    done = run("stress", *SHORT, url=redis.url, program=dying)
    assert done.returncode == 1
    assert "Broken: it ended with 3" in done.stdout


def test_ctrl_c_ends_stress_and_leaves_nothing_behind(redis: Redis) -> None:
    redis.ask("SET", "theirs", "1")
    terminal = Terminal("stress", "-f", "4", "-s", "5", url=redis.url)
    terminal.wait_for("0 ok")
    give_up = time.monotonic() + 60
    while not any(b":l:key:" in key for key in redis.left_behind()):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    children = Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split()
    assert len(children) == 4
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.shown
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert redis.keys() == {b"theirs"}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_the_processes_of_stress_end_with_it(redis: Redis, number: signal.Signals, status: int) -> None:
    terminal = Terminal("stress", "-f", "3", "-s", "0.1", "--seconds", "60", url=redis.url)
    terminal.wait_for(" ok")
    children = Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split()
    assert len(children) == 3
    os.kill(terminal.pid, number)
    assert terminal.end() == status
    give_up = time.monotonic() + 60
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < give_up
        time.sleep(0.02)


def section(start: float, end: float, token: int, key: str = "key:0", process: int = 1) -> Section:
    return Section(key, start, end, token, process)


def test_overlaps_are_found_whatever_lies_between() -> None:
    apart = [section(0, 1, 1), section(1, 2, 2), section(0.5, 1.5, 3, key="key:1")]
    assert overlaps(apart) == []
    assert overlaps([]) == []
    within = [section(0, 10, 1, process=5), section(1, 2, 2, process=6), section(3, 4, 3, process=7)]
    assert overlaps(reversed(within)) == [
        "key:0: processes 5 and 6 were inside together for 1000.000 ms",
        "key:0: processes 5 and 7 were inside together for 1000.000 ms",
    ]


def test_tokens_are_compared_in_the_order_of_the_sections_of_a_key() -> None:
    assert disorders([section(2, 3, 9), section(0, 1, 1), section(0, 1, 5, key="key:1")]) == []
    assert disorders([section(0, 1, 9, process=5), section(2, 3, 9, process=6)]) == [
        "key:0: token 9 of process 6 came after 9 of process 5"
    ]


def test_a_run_without_a_section_shows_nothing() -> None:
    plan = Plan("", b"", "blocking", "auto", 1, 1, 1, 1, 1.0, None)
    results = Results()
    results.add(Failure("key:0", "LockTimeout", True))
    results.add(Complete(1, 0, 1))
    verdict = Verdict(plan, results)
    assert verdict.status == 2
    assert ("failures", "1 LockTimeout; 1 keys given up") in verdict.rows


def test_times_and_names_are_for_people() -> None:
    assert [duration(seconds) for seconds in (0.04, 9.96, 61, 7322)] == ["0.0 s", "10.0 s", "1 min 01 s", "2 h 02 min"]
    assert text_of("naïve\t\x1b") == "naïve\\t\\x1b"
