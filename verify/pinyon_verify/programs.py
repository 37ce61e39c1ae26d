"""Programs of other languages that take part, and what is missing to run them."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What each of Perl's concurrency models loads.
_PERL_MODULES = {
    "perl-threads": "threads; require Pinyon",
    "perl-coro": "EV; require Pinyon::Coro",
    "perl-anyevent": "EV; require Pinyon::AnyEvent",
}


class Missing(Exception):
    """A program cannot run here, for the reason in the message."""


def ruby(name: str) -> list[str]:
    """Return the command that runs a program of ``verify/ruby``. Raises ``Missing``."""
    if shutil.which("ruby") is None:
        raise Missing("ruby is not installed")
    return ["ruby", "-I", str(ROOT / "ruby" / "lib"), str(ROOT / "verify" / "ruby" / name)]


def perl(name: str, model: str) -> list[str]:
    """Return the command that runs a program of ``verify/perl`` in a concurrency model. Raises ``Missing``."""
    missing = _missing_in_perl(_PERL_MODULES.get(model, "Pinyon"))
    if missing:
        raise Missing(missing)
    return [*_perl(), str(ROOT / "verify" / "perl" / name)]


def _perl() -> list[str]:
    built = ROOT / "perl" / "blib"
    return ["perl", f"-I{built / 'lib'}", f"-I{built / 'arch'}"]


@functools.cache
def _missing_in_perl(modules: str) -> str:
    if shutil.which("perl") is None:
        return "perl is not installed"
    tried = subprocess.run([*_perl(), "-e", f"require {modules}"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"perl has not all that is needed: {tried.stderr.splitlines()[0]}"


def of_locks(model: str) -> list[str]:
    """Return the command that runs a client process of ``locks`` in a concurrency model. Raises ``Missing``."""
    if model.startswith("ruby"):
        return ruby("locks.rb")
    if model.startswith("perl"):
        return perl("locks.pl", "perl-threads" if model == "perl-alarm" else model)
    return [sys.executable, "-m", "pinyon_verify.locks.client"]
