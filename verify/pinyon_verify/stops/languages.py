"""What is stopped in each language, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from ..programs import ROOT, perl, ruby


@dataclass(frozen=True)
class Language:
    """A language whose callers are stopped."""

    name: str
    what: str
    #: How many of each kind are stopped in each concurrency model.
    stops: Mapping[str, int]
    #: Returns the command that runs the program in a model.
    command: Callable[[str], list[str]]
    #: Suppressions of memcheck in a model: what the language itself does.
    suppressions: Callable[[str], list[str]]
    #: The environment under memcheck.
    checked: Mapping[str, str] = field(default_factory=dict)


_RUBY, _PERL = ROOT / "verify" / "ruby", ROOT / "perl" / "xt"

#: memcheck takes a jump of the stack pointer by less than 2 MB for a call or a return. So fibers get stacks that are
#: farther apart, in bytes.
_STACKS = {"RUBY_FIBER_VM_STACK_SIZE": str(4 << 20), "RUBY_FIBER_MACHINE_STACK_SIZE": str(8 << 20)}

LANGUAGES = (
    Language(
        "ruby",
        "stop Ruby's threads and fibers at random; look for invalid memory accesses",
        {"threads": 10_000, "plain": 2_000, "async": 2_000, "eventmachine": 2_000},
        lambda model: ruby("stops.rb"),
        lambda model: [
            str(_RUBY / "memcheck.supp"),
            *([] if model == "threads" else [str(_RUBY / "memcheck-fibers.supp")]),
        ],
        _STACKS,
    ),
    Language(
        "perl",
        "interrupt Perl's programs, coroutines and callbacks at random; look for invalid memory accesses",
        {"signals": 20_000, "coro": 10_000, "anyevent": 10_000},
        partial(perl, "interruptions.pl"),
        lambda model: [str(_PERL / "valgrind.suppressions")],
        {"PERL_DESTRUCT_LEVEL": "2", "PINYON_MEMCHECK": "1"},
    ),
)
