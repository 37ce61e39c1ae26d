"""A row that refuses writes of a holder that has lost its lock without knowing."""

import os
import sqlite3
import time

import pinyon

locks = pinyon.Locks(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"), namespace="bank")
database = sqlite3.connect(":memory:", isolation_level=None)
database.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER NOT NULL DEFAULT 0)")
database.execute("INSERT INTO account (id, balance) VALUES (1, 100)")


def read(id: int) -> int:
    (balance,) = database.execute("SELECT balance FROM account WHERE id = :id", {"id": id}).fetchone()
    return int(balance)


def write(id: int, balance: int, token: int) -> None:
    """Write unless a later holder has written; the database checks it in the same statement."""
    updated = database.execute(
        "UPDATE account SET balance = :balance, fence = :token WHERE id = :id AND fence <= :token",
        {"id": id, "balance": balance, "token": token},
    )
    if updated.rowcount == 0:
        raise pinyon.LockLost(f"account {id} has been written by a later holder")


# A holder reads, then is frozen for longer than its lock lasts. (A frozen process does not renew.)
frozen = locks.lock("account:1", ttl=0.2, renew=False).acquire()
seen = read(1)
time.sleep(0.3)

# Another holder acquires the lock, reads the same balance and writes. It may write several times.
with locks.lock("account:1") as held:
    write(1, read(1) - 30, held.token)
    write(1, read(1) - 5, held.token)

# The first holder continues where it was.
try:
    write(1, seen + 50, frozen.token)
except pinyon.LockLost as error:
    print("refused:", error)
print("balance:", read(1))
