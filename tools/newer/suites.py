"""The tests that run in the folders, and what each of them runs on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .building import VENV, build_c, build_perl, build_python, build_ruby, tests_of_c
from .folders import NEWER, REPOSITORY, Folder, environment

#: What Python's tests need, beside what pip installs.
FOR_PYTHON = (
    *("python3", "python3-dev", "python3-venv", "gcc", "g++", "make", "pkg-config", "libmemcached-dev", "zlib1g-dev"),
    *("memcached", "redis-server", "valkey-server", "procps", "strace", "git", "zstd", "nutcracker", "php-cli"),
    *("php-memcached", "libcache-memcached-perl", "libcache-memcached-fast-perl", "ca-certificates", "openssl"),
)
#: What Perl's tests need, and those of the C interface.
FOR_PERL = (
    *("libcoro-perl", "libanyevent-perl", "libev-perl", "libio-async-perl", "libio-async-loop-epoll-perl"),
    *("libfuture-asyncawait-perl", "libmojolicious-perl", "libminion-perl", "libminion-backend-sqlite-perl"),
    *("libcache-memcached-perl", "libcache-memcached-fast-perl", "libmemcached-libmemcached-perl"),
    *("libanyevent-memcached-perl", "libcpanel-json-xs-perl", "libbsd-resource-perl", "libtest-leaktrace-perl"),
    *("libchi-perl", "libchi-driver-memcached-perl", "libtest-class-perl", "libtest-warn-perl"),
    *("libdancer2-perl", "libdancer-session-memcached-perl", "libcatalyst-perl", "libcatalyst-plugin-cache-perl"),
    *("libcatalyst-plugin-session-store-cache-perl", "libcatalyst-plugin-session-state-cookie-perl"),
    *("libplack-middleware-session-perl", "libcgi-session-driver-memcached-perl", "libapache-session-memcached-perl"),
    *("libperl-dev", "libtest-pod-perl", "starman"),
)
FOR_C = ("binutils", "valgrind", "luajit")
#: Ruby 3.3, Rails 7.2, Rack 3, async 1, Dalli 3.2; Python 3.13; Perl 5.40; gcc 14; memcached 1.6.38, Redis 8, Valkey 8.
NEXT = Folder(
    "trixie",
    NEWER / "trixie",
    (
        *("ruby", "ruby-dev", "rake", "ruby-minitest", "ruby-async", "ruby-eventmachine", "ruby-activesupport"),
        *("ruby-railties", "puma", "ruby-rack-session", "ruby-rack-test", "ruby-rack-attack", "ruby-dalli"),
        *("ruby-activejob", "ruby-sidekiq", "ruby-connection-pool", *FOR_PYTHON, *FOR_PERL, *FOR_C),
    ),
)
#: The release after that one, which is not finished: Python 3.14, Perl 5.42, gcc 15, memcached 1.6.45 and Valkey 9;
#: async 2 and Dalli 5.
#: Its Rails does not run on its other gems.
LATEST = Folder(
    "forky",
    NEWER / "forky",
    (
        *("ruby", "ruby-dev", "rake", "ruby-minitest", "ruby-async", "ruby-eventmachine", "ruby-dalli"),
        *("ruby-connection-pool", *FOR_PYTHON, *FOR_PERL, *FOR_C),
    ),
)
#: Seconds after which a suite is ended.
PATIENCE = 3600
#: Ruby's tests of what fibers do, and of Dalli's interface. They need no Rails.
FIBERS = (
    *("fibers", "lock_fibers", "fetch", "interrupts", "locks", "lock_scenarios", "scenarios", "redis_em_mutex"),
    *("dalli", "dalli_failures", "dalli_sharing"),
)
#: The tests of locks in each language.
RUBY_LOCKS = ("locks", "lock_fibers", "lock_scenarios", "redis_em_mutex", "compat_redlock")
LOCKS = "tests/test_lock*.py", "tests/test_cli_locks.py", "tests/test_cli_stress.py"


@dataclass(frozen=True)
class Suite:
    """Tests that run in a folder.

    Args:
        about: what they are, and what they run on.
        folder: where they run.
        inside: the checkout's folder that they run in.
        command: the shell's command.
        programs: names of programs, and the folder's own that are started in their place.
        build: builds for the folder what only this suite needs.
    """

    about: str
    folder: Folder
    inside: str
    command: str
    programs: Mapping[str, str] = field(default_factory=dict)
    build: Callable[[Folder], object] | None = None

    def run(self) -> bool:
        """Runs them and returns whether all have passed."""
        folder = REPOSITORY / self.inside
        if self.build is not None:
            self.build(self.folder)
        command = ["env", f"--chdir={folder}", "sh", "-c", f"{self._renamed()}{self.command}"]
        try:
            done = subprocess.run(
                [*self.folder.running(_built(self.folder)), *command], env=environment(), timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            print(f"newer: ended after {PATIENCE} seconds", flush=True)
            return False
        return done.returncode == 0

    def _renamed(self) -> str:
        links = "".join(f"ln -s $(command -v {program}) $named/{name} && " for name, program in self.programs.items())
        return f"named=$(mktemp -d) && {links}export PATH=$named:$PATH && " if links else ""


def suites(processes: int) -> dict[str, Suite]:
    """Returns all suites by their names. Those of Python run in so many processes."""
    pytest = f"{VENV}/bin/python -m pytest -q -n {processes} --dist loadscope"
    prove = f"prove -b -j {processes} t"
    valkey, locks = {"redis-server": "valkey-server"}, " ".join(LOCKS)
    return {
        "ruby": Suite("Ruby 3.3, Rails 7.2, Rack 3, memcached 1.6.38, Redis 8", NEXT, "ruby", "rake -q test"),
        "fibers": Suite("Ruby 3.3, async 2, Dalli 5", LATEST, "ruby", _ruby(FIBERS)),
        "python": Suite("Python 3.13, memcached 1.6.38, Redis 8", NEXT, "python", pytest),
        "valkey": Suite("Locks in Python 3.13, on Valkey 8", NEXT, "python", f"{pytest} {locks}", valkey),
        "python-latest": Suite("Python 3.14, memcached 1.6.45, Redis 8", LATEST, "python", pytest),
        "valkey-latest": Suite("Locks in Python 3.14, on Valkey 9", LATEST, "python", f"{pytest} {locks}", valkey),
        "perl": Suite("Perl 5.40, memcached 1.6.38, Redis 8", NEXT, "perl", prove),
        "perl-latest": Suite("Perl 5.42, memcached 1.6.45, Redis 8", LATEST, "perl", prove),
        "c": Suite("C with gcc 14, memcached 1.6.38, Redis 8", NEXT, "capi", _each(NEXT), build=build_c),
        "c-latest": Suite("C with gcc 15, memcached 1.6.45, Redis 8", LATEST, "capi", _each(LATEST), build=build_c),
        "ruby-valkey": Suite("Locks in Ruby 3.3, on Valkey 8", NEXT, "ruby", _ruby(RUBY_LOCKS), valkey),
    }


def _ruby(names: tuple[str, ...]) -> str:
    """Returns the command that runs the files of Ruby's tests with these names."""
    return " ".join(["ruby -w -I lib -I test", *(f"-r ./test/test_{name}.rb" for name in names), "-e ''"])


def _each(folder: Folder) -> str:
    """Returns the command that runs all tests of the C interface."""
    return f"failed=0; for test in {tests_of_c(folder)}/*; do $test -q || failed=1; done; exit $failed"


@cache
def _built(folder: Folder) -> dict[Path, Path]:
    """Installs the folder and builds Pinyon for its languages, once. Returns what is seen in the place of what."""
    folder.install()
    return {**build_ruby(folder), **build_python(folder), **build_perl(folder)}
