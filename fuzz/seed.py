#!/usr/bin/env python3
"""Makes corpora to begin with from the test vectors: each reply, whole, as input of the target that reads its protocol.

An input begins with what the target's `Input` has before its bytes, as the crate `arbitrary` reads it.
"""

import hashlib
import json
import struct
from pathlib import Path

HERE = Path(__file__).parent
VECTORS = HERE.parent / "vectors"
#: The form of each of four lines by its index, for every form that there is; then no pieces.
FORMS = [bytes([form] * 4) + b"\0" for form in range(15)]
#: The limits: some, and none; then no pieces.
LIMITS = [struct.pack("<HBBB", 4096, 64, 8, boundless) + b"\0" for boundless in (0, 1)]


def main() -> None:
    for target, vectors, heads in (("replies", "memcached", FORMS), ("resp", "resp", LIMITS)):
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for vector in json.loads((VECTORS / f"{vectors}-replies.json").read_text()):
            for head in heads:
                seed = head + wire(vector)
                (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


def wire(vector: dict[str, str]) -> bytes:
    return bytes.fromhex(vector["bytes_hex"]) if "bytes_hex" in vector else vector["bytes"].encode()


if __name__ == "__main__":
    main()
