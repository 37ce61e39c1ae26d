"""MurmurHash3, as pymemcache places keys by it."""

from __future__ import annotations

_BITS = 0xFFFFFFFF


def murmur3_32(data: str, seed: int = 0) -> int:
    """Return the 32-bit hash of a text, each of whose characters counts as its lowest byte.

    Only the last of four characters is not cut down to a byte, which is what pymemcache does.
    """
    hashed = seed
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        first, second, third, fourth = map(ord, data[start : start + 4])
        block = (first & 0xFF) | (second & 0xFF) << 8 | (third & 0xFF) << 16 | fourth << 24
        hashed ^= _mixed(block)
        hashed = (_rotated(hashed, 13) * 5 + 0xE6546B64) & _BITS
    rest = 0
    for place, character in enumerate(data[whole:]):
        rest |= (ord(character) & 0xFF) << 8 * place
    if rest or whole != len(data):
        hashed ^= _mixed(rest)
    hashed ^= len(data)
    hashed ^= hashed >> 16
    hashed = hashed * 0x85EBCA6B & _BITS
    hashed ^= hashed >> 13
    hashed = hashed * 0xC2B2AE35 & _BITS
    return hashed ^ hashed >> 16


def _mixed(block: int) -> int:
    return _rotated(block * 0xCC9E2D51 & _BITS, 15) * 0x1B873593 & _BITS


def _rotated(number: int, places: int) -> int:
    return (number << places | number >> 32 - places) & _BITS
