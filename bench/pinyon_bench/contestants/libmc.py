"""libmc: Python over its own C++ client, with its defaults: ketama with MD5, no compression."""

from __future__ import annotations

import libmc

from ..calls import Adapter, Calls, CannotDo, adding
from ..protocol import Kind


def connect(servers: list[str], kind: Kind, quiet: bool) -> Calls:
    if quiet:
        raise CannotDo("no quiet mode")
    client = libmc.Client(servers, comp_threshold=0, hash_fn=libmc.MC_HASH_MD5)
    return Calls.of(client, "get_multi", "quit", incr_or_create=adding(client))


ADAPTER = Adapter(str(libmc.__version__), "ketama (MD5), comp_threshold 0", connect)
