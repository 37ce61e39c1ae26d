"""MurmurHash3, with which pymemcache chooses a key's server."""

from __future__ import annotations

import struct

_BITS = 0xFFFFFFFF
_FIRST = 0xCC9E2D51
_SECOND = 0x1B873593


def murmur3_32(data: str, seed: int = 0) -> int:
    """Return the 32-bit hash of a text. Only the lowest byte of each character's code point counts."""
    text = data.encode("utf-32-le", "surrogatepass")[::4]
    whole = len(text) // 4
    hashed = seed & _BITS
    for block in struct.unpack_from(f"<{whole}I", text):
        block = block * _FIRST & _BITS
        hashed ^= (block << 15 | block >> 17) * _SECOND & _BITS
        hashed = (hashed << 13 | hashed >> 19) * 5 + 0xE6546B64 & _BITS
    rest = int.from_bytes(text[whole * 4 :], "little") * _FIRST & _BITS
    hashed ^= (rest << 15 | rest >> 17) * _SECOND & _BITS
    hashed ^= len(text)
    hashed ^= hashed >> 16
    hashed = hashed * 0x85EBCA6B & _BITS
    hashed ^= hashed >> 13
    hashed = hashed * 0xC2B2AE35 & _BITS
    return hashed ^ hashed >> 16
