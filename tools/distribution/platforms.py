"""The platforms that artefacts are built for on one machine."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Platform:
    """A processor, a system and its C library.

    Args:
        name: what `make dist PLATFORMS=...` calls it.
        triple: Rust's name of it.
        zig: zig's name of it, with the oldest C library that artefacts run on.
        compatibility: the tag of its wheels; empty where the linker decides.
        gem: RubyGems' name of it; empty where no Ruby of it can be had here, so that no precompiled gem is built.
        emulator: the program that runs its programs here; empty where the kernel does.
        debian: Debian's name of its processor; empty where Debian has none of it.
    """

    name: str
    triple: str
    zig: str
    compatibility: str
    gem: str = ""
    emulator: str = ""
    debian: str = ""

    @property
    def variable(self) -> str:
        """The triple as the names of variables have it."""
        return self.triple.replace("-", "_")

    @property
    def is_apple(self) -> bool:
        """Whether libraries are Mach-O files, and end with .dylib."""
        return "apple" in self.triple


X86_64 = Platform("x86_64", "x86_64-unknown-linux-gnu", "x86_64-linux-gnu.2.17", "manylinux2014", "x86_64-linux")
ARM64 = Platform(
    "arm64",
    "aarch64-unknown-linux-gnu",
    "aarch64-linux-gnu.2.17",
    "manylinux2014",
    "aarch64-linux",
    emulator="qemu-aarch64",
    debian="arm64",
)
MUSL = Platform("musl", "x86_64-unknown-linux-musl", "x86_64-linux-musl", "musllinux_1_2")
MACOS = Platform("macos", "aarch64-apple-darwin", "aarch64-macos", "")
FREEBSD = Platform("freebsd", "x86_64-unknown-freebsd", "x86_64-freebsd", "")

#: Those with artefacts; nothing is uploaded for FreeBSD.
PLATFORMS = {platform.name: platform for platform in (X86_64, ARM64, MUSL, MACOS)}


def chosen_platforms() -> list[Platform]:
    """Returns the platforms that the variable PLATFORMS names, or all. Raises `SystemExit` for an unknown name."""
    names = os.environ.get("PLATFORMS", "").split() or list(PLATFORMS)
    unknown = sorted(set(names) - set(PLATFORMS))
    if unknown:
        raise SystemExit(f"dist: no platform is named {unknown[0]}; there are {', '.join(PLATFORMS)}.")
    return [PLATFORMS[name] for name in names]
