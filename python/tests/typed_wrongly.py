"""Mistakes that mypy must find. The comment on a line is the expected error."""

from __future__ import annotations

from pinyon import Client, Locks

client = Client(timeout="1")  # arg-type
client = Client("127.0.0.1", "namespace")  # misc
client.set("key", 1, ttl=None)  # arg-type
client.get(5)  # arg-type
client.incr("key", 1, 5)  # misc
number: int = client.incr("key")  # assignment
size = client.meta("key").size  # union-attr
client.unknown("key")  # attr-defined

locks = Locks("redis://127.0.0.1")
locks.lock("a", ttl="5")  # arg-type
locks.lock(5)  # arg-type
with locks.lock("a") as held:
    held.token = 5  # misc
    held.unknown()  # attr-defined
locks.try_lock("a").release()  # union-attr


@client.cached("product:{number}", ttl=60)
def product(number: int) -> str:
    return str(number)


product("5")  # arg-type
product.refresh()  # call-arg
text: int = product(5)  # assignment
client.cached("key", ttl=60, unknown=5)  # call-arg
