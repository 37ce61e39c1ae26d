"""A register that enforces fencing tokens: for each name, it refuses a token older than the newest one."""

from __future__ import annotations

from .resp import Connection

# With another argument, nothing is written.
_SCRIPT = """
local newest = redis.call("GET", KEYS[1])
local order = redis.call("INCR", "order")
if ARGV[2] then return {tonumber(newest or 0), order} end
if newest and tonumber(newest) > tonumber(ARGV[1]) then return {0, order} end
redis.call("SET", KEYS[1], ARGV[1])
return {1, order}
"""


class Register:
    """A connection to the register, on a server of its own without faults."""

    def __init__(self, address: str) -> None:
        self._connection = Connection(address)

    def write(self, name: str, token: int) -> tuple[bool, int]:
        """Write to a name's register. Return whether it was accepted, and the write's position among all writes."""
        accepted, order = self._connection("EVAL", _SCRIPT, 1, f"register:{name}", token)
        return bool(accepted), order

    def read(self, name: str, token: int) -> tuple[int, int]:
        """Return the token that was written last, 0 if there is none, and the position among all writes and reads."""
        newest, order = self._connection("EVAL", _SCRIPT, 1, f"register:{name}", token, "read")
        return newest, order

    def close(self) -> None:
        self._connection.close()
