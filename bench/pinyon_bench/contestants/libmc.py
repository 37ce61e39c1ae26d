"""libmc: Python over its own C++ client."""

from __future__ import annotations

from typing import Any

import libmc

from ..calls import Calls, CannotDo
from ..protocol import Kind


class LibmcAdapter:
    """Its defaults: ketama with MD5, no compression."""

    def version(self) -> str:
        return str(libmc.__version__)

    def configuration(self) -> str:
        return "ketama (MD5), comp_threshold 0"

    def connect(self, servers: list[str], kind: Kind, quiet: bool) -> Calls:
        if quiet:
            raise CannotDo("no quiet mode")
        client = libmc.Client(servers, comp_threshold=0, hash_fn=libmc.MC_HASH_MD5)

        def incr_or_create(key: str, delta: int, initial: int) -> Any:
            value = client.incr(key, delta)
            if value is not None:
                return value
            return initial if client.add(key, initial) else client.incr(key, delta)

        return Calls(
            get=client.get,
            set=client.set,
            close=client.quit,
            add=client.add,
            replace=client.replace,
            delete=client.delete,
            get_many=client.get_multi,
            incr=client.incr,
            decr=client.decr,
            incr_or_create=incr_or_create,
        )


ADAPTER = LibmcAdapter()
