"""Who holds a lock, and what it says about it."""

from __future__ import annotations

import os
import pickle
import socket
from typing import Any

import pytest
from models import Model, on_asyncio
from servers import Redis
from waiting import PATIENT

import pinyon
from pinyon import aio


def test_a_holder_is_known_by_its_host_its_process_and_its_label(redis: Redis) -> None:
    with (
        pinyon.Locks(redis.url, label="web2:worker", **PATIENT) as labelled,
        pinyon.Locks(redis.url, **PATIENT) as locks,
    ):
        with labelled.lock("a"), locks.lock("b", note="bees"):
            labelled_status, status, free = locks.status("a", "b", "c")
        host = socket.gethostname().split(".")[0][:32]
        assert labelled_status[-1] == {labelled_status.holder: (host, os.getpid(), "web2:worker", None)}
        assert (labelled_status.host, labelled_status.pid) == (host, os.getpid())
        assert (status.label, status.note) == (None, "bees")
        assert (free.host, free.pid, free.label, free.note, free.owners) == (None, None, None, None, {})


def test_another_program_is_nobody(redis: Redis) -> None:
    with pinyon.Locks(redis.url, namespace="shop", **PATIENT) as locks:
        redis.ask("SET", "{shop}:l:a", "closed")
        (status,) = locks.status("a")
        assert status.owners[status.holder] == (None, None, None, None)
        with pytest.raises(pinyon.LockTimeout) as raised:
            locks.lock("a", timeout=0).acquire()
        assert (raised.value.holder, raised.value.pid) == (status.holder, None)


def test_the_error_says_who_and_why_also_when_it_is_copied(redis: Redis) -> None:
    with pinyon.Locks(redis.url, label="web2:worker", **PATIENT) as holder, pinyon.Locks(redis.url, **PATIENT) as locks:
        with holder.lock("a", note="invoice 17") as held:
            assert held.note == "invoice 17"
            with pytest.raises(
                pinyon.LockTimeout, match=r"held by web2:worker \(pid \d+\) for .* s: invoice 17$"
            ) as raised:
                locks.lock("a", timeout=0).acquire()
            (status,) = locks.status("a")
        for error in (raised.value, pickle.loads(pickle.dumps(raised.value))):
            assert (error.host, error.pid, error.label, error.note) == status.owners[status.holder]
            assert error.holder == status.holder
            assert 0 <= error.held_for < 60


def test_an_error_that_knows_nobody_says_so() -> None:
    error = pinyon.LockTimeout("busy")
    assert (error.holder, error.held_for, error.host, error.pid, error.label, error.note) == (None,) * 6


@pytest.mark.parametrize("handler", ["script", "pure"])
def test_a_note_leaves_nothing_behind(redis: Redis, handler: str) -> None:
    settings: dict[str, Any] = {"namespace": "shop", "handler": handler}
    with pinyon.Locks(redis.url, **settings) as locks, pinyon.Locks(redis.url, **settings) as others:
        with locks.lock("a", note="renewed") as held:
            assert held.extend(60)
            assert locks.status("a")[0].note == "renewed"
            assert others.try_lock("a", note="never") is None
            with pytest.raises(pinyon.LockTimeout):
                others.lock("a", timeout=2, note="never").acquire()
        with locks.permits("p", limit=2, note="permits"), locks.read("b", note="reads"):
            assert locks.status("b")[0].note == "reads"
        assert redis.keys() <= {b"{shop}:#f", b"{shop}:#p"}


def test_a_note_of_a_name_that_stays_locked_stays(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks:
        locks.lock("a", at_least=600, note="mail 42").acquire().release()
        (status,) = locks.status("a")
        assert status.note == "mail 42"
        locks.force_release("a")


def test_what_no_line_has_room_for_is_refused(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as locks:
        with pytest.raises(pinyon.UsageError, match="note has 202 bytes, and at most 200"):
            locks.lock("a", note="ä" * 101)
        with pytest.raises(pinyon.UsageError, match="note has a control character"):
            locks.lock("a", note="a\nb")
        with pytest.raises(pinyon.UnsupportedType, match="a note is str"):
            locks.lock("a", note=b"a")  # type: ignore[arg-type]
        with locks.lock("a", note="") as held:
            assert held.note is None
    with pytest.raises(pinyon.UsageError, match="label has 65 bytes"):
        pinyon.Locks(redis.url, label="x" * 65)


@on_asyncio
async def test_tasks_say_who_and_why(model: Model, redis: Redis) -> None:
    async with aio.Locks(redis.url, label="tasks", **PATIENT) as locks:
        async with locks.lock("a", note="a task's") as held:
            assert held.note == "a task's"
            (status,) = await locks.status("a")
            assert (status.label, status.note) == ("tasks", "a task's")
            ticket = await held.hand_over()
        async with locks.adopt(ticket) as adopted:
            assert adopted.note == "a task's"
