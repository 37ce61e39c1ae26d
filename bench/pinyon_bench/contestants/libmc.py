"""libmc: Python over its own C++ client."""

from __future__ import annotations

import libmc

from ..calls import Calls, CannotDo, adding
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

        return Calls.of(client, "get_multi", "quit", incr_or_create=adding(client))


ADAPTER = LibmcAdapter()
