#!/usr/bin/env python3
"""Makes corpora to begin with: of the targets that read a protocol each reply of the test vectors, whole; of the
requests each command, and each meta command with each kind of flag; of the locks some stories on every kind of server.

An input is what the crate `arbitrary` reads as the target's `Input`.
"""

import hashlib
import itertools
import json
import re
import struct
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
VECTORS = HERE.parent / "vectors"
REQUESTS = HERE / "fuzz_targets" / "requests.rs"
LOCKS = HERE / "fuzz_targets" / "locks"
#: The form of each of four lines by its index, for every form that there is; then no pieces.
FORMS = [bytes([form] * 4) + b"\0" for form in range(15)]
#: The limits: some, and none; then no pieces.
LIMITS = [struct.pack("<HBBB", 4096, 64, 8, boundless) + b"\0" for boundless in (0, 1)]


def main() -> None:
    for target, vectors, heads in (("replies", "memcached", FORMS), ("resp", "resp", LIMITS)):
        replies = json.loads((VECTORS / f"{vectors}-replies.json").read_text())
        write(target, (head + wire(vector) for vector, head in itertools.product(replies, heads)))
    write("requests", requests())
    write("locks", stories())


def write(target: str, seeds: Iterable[bytes]) -> None:
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


def wire(vector: dict[str, str]) -> bytes:
    return bytes.fromhex(vector["bytes_hex"]) if "bytes_hex" in vector else vector["bytes"].encode()


def requests() -> Iterable[bytes]:
    asks, flags = (variants(REQUESTS, enum) for enum in ("Ask", "AnyFlag"))
    sized, unsized, number = b"\x01" + bytes(8), b"\0", bytes(8)
    arguments = [asks["Meta"] + bytes([verb]) + size for verb in range(4) for size in (sized, unsized)]
    commands = [head + b"\x01" + flag + b"hint" + number + b"\0" for head in arguments for flag in flags.values()]
    commands += [ask + number * 3 for ask in asks.values()]
    version = b"\x01" + variants(REQUESTS, "Version")["OfMeta"] + bytes([45])
    for command, quiet in itertools.product(commands, (b"\0", b"\x01")):
        # The lengths of what has one stand at the end, the first one last.
        yield version + command + b"\x12\xab" + quiet + b"\0\x01" + b"key1key2" + bytes(12) + bytes([0, 4, 4, 4])


def stories() -> Iterable[bytes]:
    """Two owners that want the same, somebody else that has it, renewals, a condition, a connection that breaks."""
    steps = variants(LOCKS / "main.rs", "Step")
    renews = variants(LOCKS / "main.rs", "Renews")
    always, closed = renews["Always"], variants(LOCKS / "platform.rs", "End")["Closed"]

    def lock(owner: int, names: int, *, waits: bool = True, reentrant: bool = False) -> bytes:
        wait = b"\x01\x96" if waits else b"\0"
        return steps["Lock"] + bytes([owner, names, 99]) + wait + always + bytes([reentrant])

    converse, release = steps["Converse"], steps["Release"] + b"\0"
    cut = steps["End"] + b"\0" + closed + converse
    passing = steps["Lively"] + b"\x01", steps["Pass"] + struct.pack("<H", 2500), steps["Lively"] + b"\0"
    parking = steps["Park"] + b"\0\x05\x32"
    contended = [lock(0, 1), lock(1, 3), converse, release, converse, release, converse]
    again = [lock(0, 1), converse, lock(0, 1, reentrant=True), lock(0, 2), lock(1, 2), converse, release, converse]
    disturbed = [steps["Disturb"] + b"\x01\x01", lock(0, 1), lock(2, 1, waits=False), converse]
    disturbed += [steps["Disturb"] + b"\x01\0", converse]
    parked = [lock(0, 1), converse, parking, lock(1, 1), converse, steps["Notify"] + b"\0", converse, release, *passing]
    broken = [lock(0, 1), converse, steps["Extend"] + b"\0\xff", lock(1, 1), cut, *passing, release, cut]
    asked = [steps["Inspect"] + b"\x03", steps["Execute"] + b"\x19", converse]
    lie = steps["Lie"]
    lies = variants(LOCKS / "say.rs", "Lie")
    nothing, taken = lies["Array"] + b"\0", steps["Disturb"] + b"\x01\x01"
    lied = [[taken, lie + bytes([place]) + nothing, lock(0, 1), converse] for place in range(24)]
    for head in itertools.product(
        variants(LOCKS / "server.rs", "Manners").values(),
        variants(LOCKS / "server.rs", "Scripts").values(),
        variants(LOCKS / "main.rs", "Handler").values(),
    ):
        for story in (contended, again, disturbed, parked, broken, asked, *lied):
            yield b"".join(head) + b"\0\0\0" + b"".join(b"\x01" + step for step in [*story, *contended])


def variants(path: Path, enum: str) -> dict[str, bytes]:
    """How the variants of an enum are chosen."""
    match = re.search(rf"enum {enum}\b.*?{{\n(.*?)\n}}", path.read_text(), re.DOTALL)
    assert match, f"{path} has no {enum}"
    names = re.findall(r"^    (\w+)", match[1], re.MULTILINE)
    return {name: struct.pack("<I", -(-(index << 32) // len(names))) for index, name in enumerate(names)}


if __name__ == "__main__":
    main()
