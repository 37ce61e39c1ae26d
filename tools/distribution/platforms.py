"""The platforms that artefacts are built for on one machine, and one that the crates compile for."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Platform:
    """A processor, a system and its C library.

    Args:
        name: what `make dist PLATFORMS=...` calls it.
        triple: Rust's name of it.
        zig: zig's name of it, with the oldest C library that artefacts run on.
        wheel: a pattern of the tag at the end of its wheels' names; empty where nothing is packed.
        compatibility: the system that wheels are for; empty where the linker decides.
        gem: RubyGems' name of it; empty where no Ruby of it can be had here, so that no precompiled gem is built.
        emulator: the program that runs its programs here; empty where the kernel does.
        debian: Debian's name of its processor; empty where it is this machine's, or Debian has none of it.
    """

    name: str
    triple: str
    zig: str
    wheel: str = ""
    compatibility: str = ""
    gem: str = ""
    emulator: str = ""
    debian: str = ""

    def has_wheel(self, name: str, *, version: str = "", tag: str = "") -> bool:
        """Whether a file is a wheel of the platform, by its name; of a version and a Python such as "cp311-cp311"."""
        start = rf"pinyon-{re.escape(version) or '[^-]+'}-{re.escape(tag) or '[^-]+-[^-]+'}"
        return re.fullmatch(rf"{start}-(?:\w+\.)*{self.wheel}(?:\.\w+)*\.whl", name) is not None

    def c_library(self, version: str) -> str:
        """Returns the name of the archive of its C library, without the ending."""
        return f"pinyon-c-{version}-{self.triple}"

    @property
    def is_apple(self) -> bool:
        """Whether libraries are Mach-O files, and end with .dylib."""
        return "apple" in self.triple

    @property
    def is_musl(self) -> bool:
        """Whether Rust links programs for it statically, unless it is told not to."""
        return self.triple.endswith("-musl")

    @property
    def variable(self) -> str:
        """The triple as the names of variables have it."""
        return self.triple.replace("-", "_")


X86_64 = Platform(
    "x86_64",
    "x86_64-unknown-linux-gnu",
    "x86_64-linux-gnu.2.17",
    wheel="manylinux2014_x86_64",
    compatibility="manylinux2014",
    gem="x86_64-linux",
)
ARM64 = Platform(
    "arm64",
    "aarch64-unknown-linux-gnu",
    "aarch64-linux-gnu.2.17",
    wheel="manylinux2014_aarch64",
    compatibility="manylinux2014",
    gem="aarch64-linux",
    emulator="qemu-aarch64",
    debian="arm64",
)
MUSL = Platform(
    "musl",
    "x86_64-unknown-linux-musl",
    "x86_64-linux-musl",
    wheel="musllinux_1_2_x86_64",
    compatibility="musllinux_1_2",
)
MACOS = Platform("macos", "aarch64-apple-darwin", "aarch64-macos.11.0", wheel=r"macosx_\d+_\d+_arm64")
FREEBSD = Platform("freebsd", "x86_64-unknown-freebsd", "x86_64-freebsd")

#: Those with artefacts.
PLATFORMS = {platform.name: platform for platform in (X86_64, ARM64, MUSL, MACOS)}


def chosen_platforms() -> list[Platform]:
    """Returns the platforms that the variable PLATFORMS names, or all. Raises `SystemExit` for an unknown name."""
    names = os.environ.get("PLATFORMS", "").split() or list(PLATFORMS)
    unknown = sorted(set(names) - set(PLATFORMS))
    if unknown:
        raise SystemExit(f"dist: no platform is named {unknown[0]}; there are {', '.join(PLATFORMS)}.")
    return [PLATFORMS[name] for name in names]
