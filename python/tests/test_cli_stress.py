"""The command ``pinyon locks stress``, as users type it, and its verdicts."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import Terminal, run
from models import drive
from servers import Redis
from waiting import wait_until

from pinyon.cli.stress.checks import disorders, overlaps
from pinyon.cli.stress.models import MODELS
from pinyon.cli.stress.plan import Complete, Event, Failure, Mismatch, Plan, Section
from pinyon.cli.stress.results import Results, Verdict
from pinyon.cli.stress.worker import Stop, Worker

#: Six processes visit each key once, with any number of tries.
SHORT = ("--forks", "6", "--keys", "3", "--sleep", "0.05", "--tries", "1000000")
#: They meet on one key, and are in its section at once unless a lock prevents it.
MEETING = ("--forks", "6", "--keys", "1", "--sleep", "1", "--tries", "1000000")


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


#: Grants locks without asking a server. The tokens increase as long as only this process issues them.
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

#: Real locks with invented tokens.
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
    """The holder stood still until its lock was over; tokens detect this."""

    class Place:
        prefix = b""

        def execute(self, command: str, *arguments: bytes) -> bytes:
            return b"%d 1" % token if command == "GET" else b"OK"

    plan = Plan("", b"", "blocking", "auto", 1, 1, 1, 1, 0.001, None, 30)
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
    wait_until(lambda: any(b":l:key:" in key for key in redis.left_behind()))
    children = Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split()
    assert len(children) == 4
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.shown
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert redis.keys() == {b"theirs"}


#: Its processes get no time until the program has gone, so they learn its end from the terminal too early.
BEGINS_LATE = """
import os, signal, time
from pinyon.cli.stress import worker
stress, run = os.getpid(), worker.run
def run_late(*arguments):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    while os.getppid() == stress:
        time.sleep(0.01)
    run(*arguments)
worker.run = run_late
"""


@pytest.mark.parametrize("program", ["", BEGINS_LATE], ids=["at work", "before they begin"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_the_processes_of_stress_end_with_it(redis: Redis, number: signal.Signals, status: int, program: str) -> None:
    patient = ("--seconds", "1000", "--timeout", "30")
    terminal = Terminal("stress", "-f", "3", "-s", "0.1", *patient, url=redis.url, program=program)
    terminal.wait_for(" ok")
    children = Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split()
    assert len(children) == 3
    os.kill(terminal.pid, number)
    assert terminal.end() == status
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


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
    plan = Plan("", b"", "blocking", "auto", 1, 1, 1, 1, 1.0, None, 30)
    results = Results()
    results.add(Failure("key:0", "LockTimeout", True))
    results.add(Complete(1, 0, 1))
    verdict = Verdict(plan, results)
    assert verdict.status == 2
    assert ("failures", "1 LockTimeout; 1 keys given up") in verdict.rows
