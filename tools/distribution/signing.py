"""Checks what signs a library for macOS, which refuses to load one on arm64 whose bytes are not those that were signed.

The linker signs without an identity ("ad hoc"): the signature holds a hash of each page of the file before it.
"""

from __future__ import annotations

import hashlib
import struct

MAGIC_64 = 0xFEEDFACF
HEADER_SIZE = 32
LC_CODE_SIGNATURE = 0x1D
CODE_DIRECTORY = 0xFADE0C02
SHA256 = 2


def changed_pages(library: bytes) -> list[int]:
    """Returns the numbers of the pages whose hash is not the signed one. Raises `ValueError` if nothing is signed."""
    start = signature_of(library)
    directory = start + directory_in(library, start)
    words = struct.unpack_from(">9I4B", library, directory)
    hashes, slots, limit = words[4], words[7], words[8]
    size, kind, page = words[9], words[10], 1 << words[12]
    if kind != SHA256 or limit != start:
        raise ValueError("the signature is not of all that is before it")
    at = directory + hashes
    signed = [library[at + size * slot : at + size * (slot + 1)] for slot in range(slots)]
    found = [hashlib.sha256(library[first : min(first + page, limit)]).digest() for first in range(0, limit, page)]
    if len(signed) != len(found):
        raise ValueError("the signature has another number of pages")
    return [number for number, (one, other) in enumerate(zip(signed, found)) if one != other]


def signature_of(library: bytes) -> int:
    """Returns where the signature begins."""
    magic, _, _, _, commands = struct.unpack_from("<5I", library)
    if magic != MAGIC_64:
        raise ValueError("this is no library for a Mac")
    at = HEADER_SIZE
    for _ in range(commands):
        command, size, where = struct.unpack_from("<3I", library, at)
        if command == LC_CODE_SIGNATURE:
            return int(where)
        at += size
    raise ValueError("the library is not signed")


def directory_in(library: bytes, start: int) -> int:
    """Returns where the hashes' directory is, from the signature's begin."""
    (count,) = struct.unpack_from(">I", library, start + 8)
    for number in range(count):
        (where,) = struct.unpack_from(">I", library, start + 12 + 8 * number + 4)
        (magic,) = struct.unpack_from(">I", library, start + where)
        if magic == CODE_DIRECTORY:
            return int(where)
    raise ValueError("the signature has no hashes")
