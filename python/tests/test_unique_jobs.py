"""One job of a kind at a time: the rules, as ``scenarios/unique_jobs.json`` has them for every language."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from servers import Redis
from waiting import PATIENT

import pinyon
from pinyon.frameworks._one_at_a_time import Conflict, OneAtATime, Run, Terms

FILE = json.loads((Path(__file__).resolve().parents[2] / "scenarios/unique_jobs.json").read_text(encoding="utf-8"))
KIND = "report:7"
LONG = {"ttl": 60.0, "timeout": 60.0, "queue_ttl": 3600.0, "retry_in": 0.1}


class Playing:
    """A scenario, in a namespace of its own."""

    def __init__(self, url: str, number: int, scenario: dict[str, Any], stack: contextlib.ExitStack) -> None:
        self.url, self.namespace, self.scenario, self.stack = url, f"jobs{number}", scenario, stack
        self.terms = Terms(**{**LONG, **scenario["terms"]})
        self.watching = self.client()
        self.claims: dict[str, str | None] = {}
        self.runs: dict[str, tuple[pinyon.Locks, Run]] = {}

    def client(self) -> pinyon.Locks:
        locks = pinyon.Locks(self.url, namespace=self.namespace, command_timeout=30, connect_timeout=30)
        self.stack.callback(locks.close)
        return locks

    def play(self) -> None:
        for number, step in enumerate(self.scenario["steps"]):
            (verb, of), *expected = step.items()
            given = getattr(self, verb)(of)
            assert [given] == [wanted for _, wanted in expected] or not expected, (
                f"step {number}: {step}, and it {given}"
            )
        nothing_left(self.url, self.namespace)

    def enqueue(self, job: str) -> str:
        try:
            self.claims[job] = OneAtATime(self.client(), self.terms).enqueue(KIND)
        except Conflict as conflict:
            return type(conflict).__name__.lower()
        except pinyon.LockTimeout:
            return "timeout"
        return "claim" if self.claims[job] else "nothing"

    def begin(self, job: str) -> str:
        locks = self.client()
        try:
            run = OneAtATime(locks, self.terms).begin(KIND, job, self.claims.get(job))
        except Conflict as conflict:
            return type(conflict).__name__.lower()
        self.runs[job] = locks, run
        return "runs"

    def end(self, job: str) -> str:
        try:
            self.runs.pop(job)[1].end()
        except pinyon.LockLost:
            return "lost"
        return "released"

    def retry(self, job: str) -> None:
        _, run = self.runs.pop(job)
        self.claims[job] = run.hand_on(self.terms.queue_ttl)
        run.end()

    def die(self, job: str) -> None:
        self.runs.pop(job)[0].close()

    def give_up(self, job: str) -> None:
        claim = self.claims.pop(job)
        assert claim is not None
        OneAtATime(self.client(), self.terms).give_up(claim)

    def force_release(self, _: bool) -> None:
        assert self.watching.force_release(KIND) == 1

    def locked(self, expected: bool) -> None:
        until(lambda: self.watching.is_locked(KIND) is expected)


def until(condition: Callable[[], object]) -> None:
    """Waits for what the server must come to, by its ttls."""
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def nothing_left(url: str, namespace: str) -> None:
    """Waits until the namespace has no key of a lock any more: what is marked as replaced ends with its time."""
    with pinyon.Locks(url, namespace=namespace, **PATIENT) as locks:

        def left() -> list[bytes]:
            found: list[bytes] = locks.execute("KEYS", f"{{{namespace}}}:*")
            return [key for key in found if not key.endswith((b":#f", b":#p")) and b":#x:" not in key]

        until(lambda: not left())


def test_the_scenarios(redis: Redis) -> None:
    def play(number: int) -> None:
        with contextlib.ExitStack() as stack:
            Playing(redis.url, number, FILE["scenarios"][number], stack).play()

    failed = {}
    with ThreadPoolExecutor(len(FILE["scenarios"])) as pool:
        played = [pool.submit(play, number) for number in range(len(FILE["scenarios"]))]
        for scenario, each in zip(FILE["scenarios"], played):
            if each.exception() is not None:
                failed[scenario["name"]] = each.exception()
    assert failed == {}


@pytest.mark.parametrize("name", FILE["refused_names"])
def test_names_that_the_rules_use_themselves_are_refused(redis: Redis, name: str) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks:
        for when in ("enqueued", "running"):
            rules = OneAtATime(locks, Terms(when, "skip", 60.0, 60.0, 60.0, 0.1))
            with pytest.raises(pinyon.UsageError, match=name):
                rules.enqueue(name)
            with pytest.raises(pinyon.UsageError, match=name):
                rules.begin(name, "first")


@pytest.mark.parametrize("name", FILE["names"])
def test_names_that_only_look_like_them_are_not(redis: Redis, name: str) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks:
        OneAtATime(locks, Terms("running", "skip", 60.0, 60.0, 60.0, 0.1)).begin(name, "first").end()


def test_a_job_that_replaces_waits_for_one_that_runs(redis: Redis) -> None:
    with (
        pinyon.Locks(redis.url, **PATIENT) as locks,
        pinyon.Locks(redis.url, **PATIENT) as others,
        ThreadPoolExecutor(1) as beside,
    ):
        rules = OneAtATime(locks, Terms("enqueued", "replace", 60.0, 60.0, 60.0, 0.1))
        run = rules.begin(KIND, "first", rules.enqueue(KIND))
        second = beside.submit(OneAtATime(others, rules.terms).enqueue, KIND)
        until(lambda: locks.waiting(KIND))
        run.end()
        claim = second.result(60)
        assert claim is not None
        rules.begin(KIND, "second", claim).end()


class Meddling:
    """Locks with which something happens after a question of ``is_locked`` was answered."""

    def __init__(self, locks: pinyon.Locks, meanwhile: Callable[[], object]) -> None:
        self.locks, self.meanwhile = locks, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self.locks, name)

    def is_locked(self, name: str) -> bool:
        answer = self.locks.is_locked(name)
        self.meanwhile()
        return answer


def test_a_job_that_begins_while_it_would_be_replaced_is_not_replaced(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks, pinyon.Locks(redis.url, **PATIENT) as others:
        rules = OneAtATime(locks, Terms("enqueued", "replace", 60.0, 0.0, 60.0, 0.1))
        claim = rules.enqueue(KIND)
        runs: list[Run] = []
        late = OneAtATime(others, rules.terms)
        late.locks = Meddling(others, lambda: runs.append(rules.begin(KIND, "first", claim)))  # type: ignore[assignment]
        with pytest.raises(pinyon.LockTimeout):
            late.enqueue(KIND)
        (run,) = runs
        run.held.check()
        run.end()


@pytest.mark.parametrize(
    "terms",
    [
        {"when": "later"},
        {"on_conflict": "raise"},
        {"when": "running", "on_conflict": "replace"},
        {"ttl": 0},
        {"queue_ttl": -1},
        {"timeout": "1"},
        {"retry_in": float("inf")},
    ],
)
def test_terms_that_make_no_sense(terms: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"when": "enqueued", "on_conflict": "skip", **LONG}
    with pytest.raises(pinyon.UsageError):
        OneAtATime(pinyon.Locks(), Terms(**{**usual, **terms}))
