"""Several interpreters in one process: the first one that imports Pinyon may use it, the others are told what to do."""

from __future__ import annotations

import sys

import pytest
from processes import what_it_prints

#: `run(interpreter, code)` returns the error of a code, or None. The interpreters share their GIL, as mod_wsgi's do.
INTERPRETERS = """
if sys.version_info >= (3, 13):
    import _interpreters
    create, destroy = (lambda: _interpreters.create("legacy")), _interpreters.destroy

    def run(interpreter, code):
        failed = _interpreters.exec(interpreter, code)
        return failed and failed.formatted
else:
    import _xxsubinterpreters
    create, destroy = (lambda: _xxsubinterpreters.create(isolated=False)), _xxsubinterpreters.destroy

    def run(interpreter, code):
        try:
            _xxsubinterpreters.run_string(interpreter, code)
        except _xxsubinterpreters.RunFailedError as failed:
            return str(failed)

def here(code):
    try:
        exec(code, {})
    except Exception as failed:
        return repr(failed)

"""

#: What an application does: an error is caught as its class says, also one that only the native half knows.
USES = """
import pinyon
try:
    pinyon.Client("127.0.0.1:1").get("a b")
except pinyon.InvalidKey:
    pass
try:
    pinyon.Client("127.0.0.1:1").get("a")
except pinyon.ConnectError:
    pass
"""

REFUSED = "WSGIApplicationGroup %{GLOBAL}"

#: Each prints the errors of `USES` in several interpreters, one after the other.
ORDERS = {
    "the main one, then another": ("print(here(USES)); print(run(create(), USES))", [None, REFUSED]),
    "another one, then the main one": ("print(run(create(), USES)); print(here(USES))", [None, REFUSED]),
    "two others": ("print(run(create(), USES)); print(run(create(), USES))", [None, REFUSED]),
    "one that tries again": (
        "print(run(create(), USES)); other = create(); print(run(other, USES)); print(run(other, USES))",
        [None, REFUSED, REFUSED],
    ),
    "the same one again, without its modules": (
        "print(here(USES)); [sys.modules.pop(name) for name in [*sys.modules] if name.startswith('pinyon')]; "
        "print(here(USES))",
        [None, None],
    ),
    "one that has ended, and 20 more": (
        "for number in range(21): interpreter = create(); print(run(interpreter, USES)); destroy(interpreter)",
        [None, *[REFUSED] * 20],
    ),
    "one that has ended, then the main one": (
        "interpreter = create(); print(run(interpreter, USES)); destroy(interpreter); print(here(USES))",
        [None, REFUSED],
    ),
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_first_interpreter_that_imports_it_is_the_only_one(order: str) -> None:
    program, expected = ORDERS[order]
    printed = what_it_prints(f"import sys\n{INTERPRETERS}\nUSES = {USES!r}\n{program}").splitlines()
    assert len(printed) == len(expected), printed
    for line, refusal in zip(printed, expected):
        assert line == "None" if refusal is None else refusal in line, printed


@pytest.mark.skipif(sys.version_info < (3, 12), reason="all interpreters of a process share its GIL")
def test_an_interpreter_with_a_gil_of_its_own_cannot_import_it() -> None:
    create = "_interpreters.create()" if sys.version_info >= (3, 13) else "_xxsubinterpreters.create(isolated=True)"
    printed = what_it_prints(f"import sys\n{INTERPRETERS}\nprint(run({create}, 'import pinyon'))")
    assert "pinyon does not work in an interpreter with a GIL of its own" in printed


#: What finalizers do while the interpreter ends: nothing can be imported any more.
FINALIZERS = """
import os
import pinyon

class Late:
    def __init__(self):
        self.os, self.error = os, pinyon.Error
        self.cache = pinyon.Client("127.0.0.1:1")
        self.locks = pinyon.Locks("redis://127.0.0.1:1", command_timeout=60, connect_timeout=60)

    def __del__(self):
        cache = self.cache
        for use in (
            lambda: cache.get("a b"), lambda: cache.get(7), lambda: cache.get("a"), lambda: cache.set_many({"a": 1}),
            lambda: cache.get_or_set("a", lambda: 1, 60), lambda: self.locks.lock("").acquire(),
        ):
            try:
                use()
            except self.error as error:
                raised = type(error).__name__
            except BaseException as error:
                raised = repr(error)
            self.os.write(1, f"{raised}\\n".encode())
        self.os.write(1, f"{len(cache.metrics())} {self.locks.metrics().acquired}\\n".encode())

late = Late()
"""


def test_what_finalizers_meet_at_the_end_of_the_program_are_errors_of_pinyon() -> None:
    raised = what_it_prints(FINALIZERS).splitlines()
    assert raised[:2] == ["InvalidKey", "UnsupportedType"], raised
    assert set(raised[2:5]) <= {"ConnectError", "ServerDown"}, raised
    assert raised[5:] == ["InvalidName", "1 0"], raised
