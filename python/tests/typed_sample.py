"""The whole API, used by a typed program. mypy checks it; it never runs."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterable
from typing import Any

import pinyon.aio
import pinyon.gevent
from pinyon import (
    Batch,
    BatchError,
    BatchFailure,
    Client,
    Deadlock,
    Error,
    Held,
    ItemMetadata,
    Lease,
    Lock,
    LockLost,
    Locks,
    LockStatus,
    Made,
    Outcome,
    Serializer,
    Timeout,
    __version__,
)
from pinyon.compat import pylibmc


class Upper:
    def dump(self, value: Any) -> tuple[bytes, int]:
        return str(value).upper().encode(), 0

    def load(self, data: bytes, flags: int) -> Any:
        return data.decode()


class Cache(Client):
    def remember(self, key: str, value: str) -> Any:
        return value if self.add(key, value) else self.get(key)


serializer: Serializer = Upper()
version: str = __version__
holders: list[str] = Client("127.0.0.1").servers_of(b"key")

cache = Client(
    ["127.0.0.1:11211", "/run/memcached.sock"],
    namespace=b"app:",
    ring="dalli",
    timeout=1,
    connect_timeout=0.5,
    serializer=serializer,
    failover=False,
    on_failure="miss",
    gutter=["127.0.0.1:11212"],
    gutter_ttl=datetime.timedelta(seconds=5),
    on_event=lambda event: print(event.kind, event.server, event.error, event.duration),
    slow_after=0.1,
    max_connections=4,
    encode_keys=True,
    max_value_size=2**20,
    max_decompressed_size=2**24,
    compression=pinyon.Compression("zstd", threshold=None, level=9, dictionaries={1: b""}),
    dialect="pinyon",
    key_rule="encoded",
    default_ttl=datetime.timedelta(hours=1),
)
ring_with_points: Client = Client(ring="cache-memcached-fast-ketama:160", default_ttl=60)
shared_with_ruby: Client = Client(dialect="dalli", compression="gzip")
in_tasks_with_pylibmc: pinyon.aio.Client = pinyon.aio.Client(dialect="pylibmc", compression=True)
default_cache: Client = Client()
named: Cache = Cache("127.0.0.1", serializer="pickle", namespace="app:")
remembered: Any = named.remember("key", "value")
strict: Cache = named.using(failover=False, on_failure="raise")
strict_in_tasks: pinyon.aio.Client = pinyon.aio.Client(on_event=print).using(on_failure="miss")


def read(client: Client) -> None:
    value: Any = client.get("key")
    value = client.get(b"key", default=5)
    many: dict[str, Any] = client.get_many(["one", "two"])
    many_bytes: dict[bytes, Any] = client.get_many(key for key in (b"one", b"two"))
    pair: tuple[Any, int] | None = client.gets("key")
    pairs: dict[str, tuple[Any, int]] = client.gets_many(["one", "two"])
    if pair is not None:
        outcome: bool | None = client.cas("key", pair[0], pair[1], ttl=datetime.timedelta(hours=1))
        print(outcome)
    value = client.gat("key", 1.5)
    item: ItemMetadata | None = client.meta("key")
    if item is not None:
        numbers: tuple[int, int, int, int | None, int] = (
            item.size,
            item.flags,
            item.cas,
            item.ttl,
            item.last_access,
        )
        fetched: bool = item.fetched
        print(numbers, fetched)
    print(value, many, many_bytes, pairs)


def write(client: Client, pairs: dict[str, Any], keys: Iterable[str | bytes]) -> None:
    done: bool = client.set("key", "value") and client.set(b"key", 1, 60) and client.set("key", None, ttl=0.5)
    done = client.add("key", 1, ttl=60) and client.replace("key", 1, ttl=60)
    done = client.append("key", b"x") and client.prepend("key", "x")
    done = client.touch("key", datetime.timedelta(days=40)) and client.delete("key")
    not_stored: list[str] = client.set_many(pairs, ttl=60)
    deleted: int = client.delete_many(keys)
    number: int | None = client.incr("count")
    number = client.decr(b"count", 5, initial=0, ttl=60)
    print(done, not_stored, deleted, number)


def items(client: Client) -> bool:
    client["key"] = client[b"key"]
    del client["key"]
    return "key" in client


async def futures(client: pinyon.aio.Client, locks: pinyon.aio.Locks) -> None:
    future: asyncio.Future[Any] = client.get("key")
    stored: asyncio.Future[bool] = client.set("key", 1)
    both: tuple[Any, bool] = await asyncio.gather(future, stored)
    done, _ = await asyncio.wait([asyncio.create_task(client.get("key"))], timeout=1)
    task: asyncio.Task[int] = asyncio.create_task(client.get_or_set("key", lambda: 5, 60))
    reply: pinyon.aio.Reply[bool] = client.touch("key", 1)
    in_a_task: asyncio.Task[bool] = asyncio.create_task(reply)
    of_a_lock: asyncio.Task[int] = asyncio.create_task(locks.force_release("name"))
    print(asyncio.run_coroutine_threadsafe(client.get("key"), asyncio.get_running_loop()), await in_a_task, of_a_lock)
    print(both, done, await task, await asyncio.wait_for(client.touch("key", 1), 5), future.cancel())


async def iterated(client: Client, in_tasks: pinyon.aio.Client, failed: dict[str, Error]) -> None:
    pairs: list[tuple[str, Any]] = list(client.iter_many(["a"], chunk=5, failed=failed))
    later: list[tuple[bytes, Any]] = [pair async for pair in in_tasks.iter_many(key for key in (b"a", b"b"))]
    print(pairs, later)


def mixed(client: Client, keys: list[str | bytes]) -> dict[str | bytes, Any]:
    client.set_many(dict.fromkeys(keys, 1))
    return client.get_many(keys)


def leased(client: Client) -> None:
    number: int = client.get_or_set("key", lambda: 5, 60)
    minute = datetime.timedelta(minutes=1)
    text: str = client.get_or_set(b"key", lambda: "value", minute, stale=minute, early=1.5, lease=5, wait=0.1)
    print(number, text)

    def make() -> Made[str]:
        return Made("value", ttl=5)

    made: str = client.get_or_set("key", make, 60, jitter=0.1, on_error="stale", stale=5)
    sized: str = client.get_or_set("key", lambda: "value", lambda text: len(text))
    print(made, sized)
    lease: Lease = client.lease("key", lease=5, recache=minute)
    with lease as held:
        if held.state is Outcome.WON and not held.has_value:
            done: bool = held.fulfil(lease.value, ttl=minute) or held.give_back()
            print(done, held.key)
    stale: bool = client.delete("key", stale=minute)
    print(stale)


async def leased_in_a_loop(client: pinyon.aio.Client) -> None:
    async def make() -> int:
        return 5

    number: int = await client.get_or_set("key", make, 60)
    same: int = await client.get_or_set("key", lambda: 5, 60, stale=30)

    async def make_it() -> Made[int]:
        return Made(5, store=False)

    same = await client.get_or_set("key", make_it, lambda number: number * 2, retry_after=5)
    async with await client.lease("key", lease=5) as lease:
        done: bool = await lease.fulfil("value", ttl=60)
    print(number, same, done, lease.state is Outcome.HIT, await client.delete("key", stale=9))


def administer(client: Client) -> None:
    client.flush_all()
    client.flush_all(delay=5)
    stats: dict[str, dict[str, str]] = client.stats()
    stats = client.stats("items")
    versions: dict[str, str] = client.version()
    closed: bool = client.is_closed
    client.close()
    print(stats, versions, closed)


def batched() -> None:
    with Client() as client, client.quiet() as batch:
        opened: Batch = batch
        opened.set("key", 1, ttl=60)
        opened.add("key", 1)
        opened.replace("key", 1)
        opened.append("key", "x")
        opened.prepend("key", "x")
        opened.incr("key", 2)
        opened.decr("key")
        opened.delete("key")


def careful(client: Client) -> None:
    try:
        client.get("key")
    except BatchError as error:
        failures: list[BatchFailure] = error.failures
        print([(failure.key, failure.command, failure.reason, failure.error) for failure in failures])
    except Timeout as error:
        system: TimeoutError = error
        print(system)
    except Error as error:
        server: str | None = error.server
        sent: str = error.sent
        print(server, error.command, sent, error.partial)


locks = Locks(
    "redis://127.0.0.1:6379/0",
    namespace="app",
    ttl=10,
    timeout=5.5,
    reentrant=False,
    handler="auto",
    fairness="fifo",
    username=None,
    password=b"secret",
    heartbeat=5,
    command_timeout=2,
    connect_timeout=1,
)
greenlets_locks: Locks = pinyon.gevent.Locks("unix:///run/redis.sock")


def told(held: Held) -> None:
    print(held.token, held.token_bytes, held.names, held.is_lost)


def lock(locks: Locks, name: str | bytes) -> None:
    reusable: Lock = locks.lock(
        name, b"other", ttl=10, timeout=5, renew=True, max_hold=60, reentrant=True, on_lost=told
    )
    with reusable as held:
        left: float = held.remaining()
        held.check()
        held.on_lost(told)
        kept: bool = held.extend(30) and held.wait(5)
        ready: Any = held.wait_for(lambda: left > 1, timeout=5)
        count: int = held.notify() + held.notify(2) + held.notify_all()
        print(left, kept, ready, count)
    acquired: Held = reusable.acquire(timeout=5)
    at_once: Held | None = reusable.acquire(blocking=False)
    states: tuple[bool, bool, bool, bool] = (
        reusable.locked(),
        reusable.owned(),
        reusable.extend(5),
        reusable.release(),
    )
    print(acquired.token, at_once, states)
    taken: Held | None = locks.try_lock(name, ttl=5, renew=False)
    if taken is not None:
        given_back: bool = taken.release()
        print(given_back)
    with Locks() as others:
        statuses: list[LockStatus] = others.status(name)
        holder: str | None = statuses[0].holder or others.owner(name)
        numbers: tuple[bool, int, int] = (others.is_locked(name), others.waiting(name), others.force_release(name))
        value: Any = others.execute("SET", "k", b"v", "PX", 5, 2.5)
        print(holder, numbers, value)


@locks.synchronized("report:{user_id}", ttl=5)
def report(user_id: int) -> str:
    return str(user_id)


reported: str = report(5)


@cache.cached("product:{number}", ttl=60, stale=30, on_error="stale")
def product(number: int, language: str = "en") -> str:
    return f"{number} {language}"


class Shop:
    @cache.cached("{self}:{number}", ttl=lambda value: 5)
    def product(self, number: int) -> pinyon.Made[str]:
        return pinyon.Made(str(number))


def cached_functions(shop: Shop) -> None:
    whole: pinyon.Cached[..., str] = product
    texts: tuple[str, str, str] = (product(5), product(number=5, language="de"), product.refresh(5))
    peeked: str | None = product.peek(5)
    key: str = product.key(5)
    print(whole, texts, peeked, key, product.invalidate(5))
    of_method: tuple[str, str | None] = (shop.product(5), shop.product.peek(number=5))
    print(of_method)


@in_tasks_with_pylibmc.cached("product:{number}", ttl=60)
async def awaited_product(number: int) -> str:
    return str(number)


async def cached_coroutine_functions() -> None:
    text: str = await awaited_product(5)
    peeked: str | None = await awaited_product.peek(5)
    key: str = awaited_product.key(5)
    print(text, peeked, key, await awaited_product.invalidate(5))


async def lock_in_a_loop(name: str) -> None:
    async with pinyon.aio.Locks("redis://127.0.0.1") as locks, locks.lock(name, timeout=5) as held:
        entered: pinyon.aio.Held = held
        kept: bool = await entered.extend(30) and await held.wait(5) and await held.release()
        count: int = await held.notify() + await held.notify_all()
        statuses: list[LockStatus] = await locks.status(name)
        taken: pinyon.aio.Held | None = await locks.try_lock(name)
        numbers: tuple[bool, int, int] = (
            await locks.is_locked(name),
            await locks.waiting(name),
            await locks.force_release(name, token=5),
        )
        value: Any = await locks.execute("GET", "k")
        print(kept, count, statuses, taken, numbers, value, held.remaining())


def careful_lock(locks: Locks) -> None:
    try:
        locks.lock("a").acquire()
    except Deadlock as error:
        cycle: list[str] = error.cycle
        print(cycle)
    except (LockLost, pinyon.AlreadyHeld, pinyon.LockTimeout) as error:
        print(error)


class Forgiving(pylibmc.Client):
    def deserialize(self, bytestring: bytes, flags: int) -> Any:
        try:
            return super().deserialize(bytestring, flags)
        except ValueError:
            raise pylibmc.CacheMiss from None


def moved(servers: list[str]) -> dict[str, int]:
    mc = Forgiving(servers, binary=True, behaviors={"cas": True, "hash": "md5"})
    mc.behaviors["ketama"] = True
    failed: list[Any] = mc.set_multi({"a": 1, b"b": 2}, time=60, key_prefix="p:")
    stored: bool = mc.set("c", failed, 60, min_compress_len=1000) and mc.cas("c", 1, mc.gets("c")[1] or 0)
    pool = pylibmc.ClientPool(mc, 4)
    try:
        with pool.reserve(block=True) as lent, pylibmc.ThreadMappedPool(lent.clone()).reserve() as mapped:
            return {"count": mapped.incr("count"), "stored": int(stored), **mapped.get_multi(["a"], key_prefix="p:")}
    except (pylibmc.NotFound, pylibmc.Error) as error:
        return {"retcode": error.retcode or 0}
