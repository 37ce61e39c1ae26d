"""Where the server keeps a name's lock, and whose it is."""

from __future__ import annotations

from .settings import NAMESPACE

#: What begins the name of a pool where names and pools are mixed, as in the server's queue.
POOL = "\0"


def lock_key(name: str) -> str:
    """Return a name's key, or a pool's. A name with a hash tag is kept by the tag's server."""
    if name.startswith(POOL):
        return f"{{{NAMESPACE}}}:p:{name[len(POOL) :]}"
    tag = name[: name.index("}") + 1] if name.startswith("{") else ""
    return f"{tag}{{{NAMESPACE}}}:l:{name}"


def name_of(key: bytes) -> str | None:
    """Return the name whose lock is at this key."""
    _, found, name = key.decode(errors="replace").partition(f"{{{NAMESPACE}}}:l:")
    return name if found else None


def process_of(attempt: str) -> int:
    """Return the process of an attempt ``random.process.forks:owner:number``; 0 for anything else."""
    parts = attempt.split(":")[0].split(".")
    try:
        return int(parts[1], 16)
    except (IndexError, ValueError):
        return 0


def is_kept_for_nobody(attempt: str) -> bool:
    """Whether its names stay locked for the rest of their least time, although it was released: its owner is 0."""
    return attempt.split(":")[1:2] == ["0"]
