"""The harness of C's clients: verifies single calls from here, and times loops that run within C.

Each client is a library made of its file in `bench/c` and of `loop.c`; `client.h` and `loop.h` there describe its
functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import closing
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_void_p
from typing import Any

from ..calls import Adapter, Calls, CannotDo
from ..clock import Stopwatch
from ..contestant import program
from ..harness import described, replies
from ..protocol import Kind, RowSpec, Step, Timing, address_of, value_of
from ..wrong import WrongResult


class Bytes(Structure):
    """`bytes` in `client.h`."""

    _fields_ = [("start", c_void_p), ("size", c_size_t)]

    @staticmethod
    def of(value: bytes) -> Bytes:
        """Returns a pointer to a value, which must outlive it."""
        return Bytes(ctypes.cast(c_char_p(value), c_void_p), len(value))

    def value(self) -> bytes | None:
        """Returns a copy of what it points to; None if to nothing."""
        return None if self.start is None else ctypes.string_at(self.start, self.size)


#: For each function its result and its arguments.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "client_version": (c_char_p, []),
    "client_open": (c_void_p, [c_char_p, c_int]),
    "client_close": (None, [c_void_p]),
    "client_set": (c_int, [c_void_p, Bytes, Bytes]),
    "client_get": (Bytes, [c_void_p, Bytes]),
    "client_get_many": (c_int, [c_void_p, POINTER(Bytes), c_size_t]),
    "client_next": (c_int, [c_void_p, POINTER(Bytes), POINTER(Bytes)]),
    "repeat_set": (c_size_t, [c_void_p, Bytes, Bytes, c_size_t]),
    "repeat_get": (c_size_t, [c_void_p, Bytes, c_size_t, c_size_t]),
    "repeat_get_many": (c_size_t, [c_void_p, POINTER(Bytes), c_size_t, c_size_t, c_size_t]),
}


class Library:
    """A client's library, by the name of its file. Raises OSError if it cannot be loaded."""

    def __init__(self, name: str) -> None:
        library = ctypes.CDLL(str(program(f"libpinyon-bench-{name}.so")))
        for function, (result, arguments) in FUNCTIONS.items():
            found = getattr(library, function)
            found.restype, found.argtypes = result, arguments
            setattr(self, function, found)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"client.h and loop.h have no {name}")

    def version(self) -> str:
        """Returns the version of the client."""
        version: bytes = self.client_version()
        return version.decode()


class Client:
    """A connected client."""

    def __init__(self, library: Library, servers: list[str]) -> None:
        if len(servers) != 1:
            raise CannotDo("no several servers")
        host, port = address_of(servers[0])
        self._library = library
        self._client = library.client_open(host.encode(), port)
        if not self._client:
            raise OSError("no client was made")

    def close(self) -> None:
        """Frees the client."""
        self._library.client_close(self._client)

    def get(self, key: str) -> bytes | None:
        """Returns the value of a key."""
        name = key.encode()
        found: Bytes = self._library.client_get(self._client, Bytes.of(name))
        return found.value()

    def set(self, key: str, value: bytes) -> bool:
        """Returns whether a value was stored."""
        name = key.encode()
        return bool(self._library.client_set(self._client, Bytes.of(name), Bytes.of(value)))

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes | None]:
        """Returns the values of the keys that have one."""
        names = [key.encode() for key in keys]
        asked = _array(names)
        if not self._library.client_get_many(self._client, asked, len(names)):
            raise OSError("the keys were not read")
        found, key, value = {}, Bytes(), Bytes()
        while self._library.client_next(self._client, byref(key), byref(value)):
            found[(key.value() or b"").decode()] = value.value()
        return found

    def repeating(self, step: Step, row: RowSpec) -> Callable[[int], None]:
        """Returns a function that repeats a step so many times. It raises WrongResult if a reply was wrong."""
        operation, key = step[:2]
        names = [name.encode() for name in ([key] if isinstance(key, str) else key)]
        if operation == "set":
            value = value_of(row["kind"], row["length"], step[2])
            return self._checked(self._library.repeat_set, 1, names, Bytes.of(names[0]), Bytes.of(value))
        sizes = {each[1]: len(value_of(row["kind"], row["length"], each[2])) for each in row["prepare"]}
        size = sizes[key if operation == "get" else key[0]]
        if operation == "get":
            return self._checked(self._library.repeat_get, 1, names, Bytes.of(names[0]), size)
        if operation == "get_many":
            return self._checked(self._library.repeat_get_many, len(names), names, _array(names), len(names), size)
        raise CannotDo(f"no {operation}")

    def _checked(
        self, repeat: Callable[..., int], each: int, kept: list[bytes], *arguments: Any
    ) -> Callable[[int], None]:
        """Returns the function for a loop in C; `kept` is what its arguments point to."""

        def run(times: int) -> None:
            right = repeat(self._client, *arguments, times)
            if right != each * times:
                raise WrongResult(f"{right} of {each * times} replies for {kept[0].decode()} were right")

        return run


def _array(names: list[bytes]) -> Any:
    return (Bytes * len(names))(*(Bytes.of(name) for name in names))


class Harness:
    """Does requests with the client of a library."""

    def __init__(self, library: Library) -> None:
        self._library = library
        settings = "defaults; libmemcached with tcp_nodelay; the timed loop is in C"
        self._adapter = Adapter(library.version(), settings, self._connect)

    def _connect(self, servers: list[str], kind: Kind, quiet: bool) -> Calls:
        if quiet or kind != "bytes":
            raise CannotDo("no quiet mode" if quiet else "no objects")
        client = Client(self._library, servers)
        return Calls(get=client.get, set=client.set, get_many=client.get_many, close=client.close)

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        """Does one request. Raises CannotDo, WrongResult or OSError."""
        if request["do"] == "describe":
            return described(self._adapter)
        if request["do"] == "play":
            row = request["row"]
            return {"replies": replies(self._adapter, row)} if row["check"] else dict(self._measured(row))
        raise CannotDo(f"no request {request['do']!r}")

    def _measured(self, row: RowSpec) -> Timing:
        """Times the row's phases on one client, each step by itself."""
        with closing(Client(self._library, row["servers"])) as client:
            work = [
                (client.repeating(step, row), phase["iterations"]) for phase in row["phases"] for step in phase["steps"]
            ]
            for repeat, _ in work if row["connect"] == "outside" else ():
                repeat(row["warmup"])
            watch = Stopwatch()
            for repeat, iterations in work:
                repeat(iterations)
            return watch.elapsed()
