"""The slow link: a server with a round trip of 30 milliseconds.

If possible, it is a memcached in a network namespace, behind a pair of virtual interfaces that `tc netem` delays.
This needs root and the kernel's `sch_netem`. Otherwise, a process in between delays every byte.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ..contestant import program
from ..placement import Placement, pinned
from ..servers import Server, ServerError, start_server

ONE_WAY_MILLISECONDS = 15
ROUND_TRIP_MILLISECONDS = 2 * ONE_WAY_MILLISECONDS
#: The most packets that netem holds at once. Its default of 1000 drops those of large values.
NETEM_PACKETS = 100_000
#: From the range for benchmarks of networks (RFC 2544), which is never routed.
NEAR_ADDRESS, FAR_ADDRESS, ADDRESS_BITS = "198.18.94.1", "198.18.94.2", 30
COMMAND_SECONDS = 10.0
START_SECONDS = 5.0
PROXY_PROGRAM = "pinyon-delay"


class LinkError(Exception):
    """This kind of slow link is unavailable here."""


@dataclass(frozen=True)
class Link:
    """A path to a server: the address at its end, the server for direct questions, and a description."""

    how: str
    server: Server
    address: str


@contextmanager
def slow_link(server: Server, placement: Placement) -> Iterator[Link]:
    """A slow link to this server or to a new one. Raises LinkError if none can be made."""
    with ExitStack() as stack:
        try:
            link = stack.enter_context(netem_link(placement))
        except LinkError as error:
            link = stack.enter_context(proxy_link(server, placement, str(error)))
        yield link


@contextmanager
def netem_link(placement: Placement, discipline: tuple[str, ...] = ()) -> Iterator[Link]:
    """A memcached of its own in a network namespace, behind `tc netem`; raises LinkError when netem is unavailable."""
    if os.geteuid() != 0:
        raise LinkError("tc netem needs root")
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        raise LinkError(f"no {' and '.join(missing)} here")
    namespace = f"pinyon{os.getpid()}"
    with ExitStack() as stack:
        for command, undo in _netem_commands(namespace, discipline or netem_discipline()):
            if undo:
                stack.callback(_run_quietly, undo)
            _run(command)
        try:
            inside = ("ip", "netns", "exec", namespace)
            server = stack.enter_context(start_server(placement.server, host=FAR_ADDRESS, inside=inside))
        except ServerError as error:
            raise LinkError(str(error)) from None
        if not discipline:
            _require_delay(server)
        yield Link(f"tc netem between two network namespaces, {ROUND_TRIP_MILLISECONDS} ms", server, server.name)


def netem_discipline() -> tuple[str, ...]:
    """Returns the queueing discipline that delays, as tc's arguments."""
    return ("netem", "delay", f"{ONE_WAY_MILLISECONDS}ms", "limit", str(NETEM_PACKETS))


def _netem_commands(namespace: str, discipline: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The commands, each with the one that undoes it, if any."""
    near, far = f"{namespace}a", f"{namespace}b"
    words = " ".join(discipline)
    yield f"ip netns add {namespace}", f"ip netns delete {namespace}"
    yield f"ip link add {near} type veth peer name {far} netns {namespace}", f"ip link delete {near}"
    yield f"ip address add {NEAR_ADDRESS}/{ADDRESS_BITS} dev {near}", ""
    yield f"ip -n {namespace} address add {FAR_ADDRESS}/{ADDRESS_BITS} dev {far}", ""
    yield f"ip link set {near} up", ""
    yield f"ip -n {namespace} link set {far} up", ""
    yield f"tc qdisc add dev {near} root {words}", ""
    yield f"tc -n {namespace} qdisc add dev {far} root {words}", ""


def _run(command: str) -> None:
    words = command.split()
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LinkError(f"{words[0]}: {error}") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise LinkError(f"{words[0]}: {said[-1] if said else f'status {done.returncode}'}")


def _run_quietly(command: str) -> None:
    """Undoes commands that may not have run."""
    subprocess.run(command.split(), capture_output=True, timeout=COMMAND_SECONDS, check=False)


def _require_delay(server: Server) -> None:
    started = time.monotonic()
    server.version()
    milliseconds = (time.monotonic() - started) * 1000
    if milliseconds < ROUND_TRIP_MILLISECONDS * 0.9:
        raise LinkError(f"a round trip takes {milliseconds:.1f} ms")


@contextmanager
def proxy_link(server: Server, placement: Placement, why: str) -> Iterator[Link]:
    """A process between client and server that delays every byte, on the benchmark's own cores.

    Raises LinkError if the process is not built or does not start. `why`: the reason for not using netem.
    """
    with delay_proxy(server.name, ONE_WAY_MILLISECONDS, placement.benchmark) as address:
        yield Link(
            f"a delay proxy, {ROUND_TRIP_MILLISECONDS} ms, because netem is unavailable ({why})", server, address
        )


@contextmanager
def delay_proxy(target: str, milliseconds: int, cores: set[int] | None) -> Iterator[str]:
    """Runs a proxy that delays bytes by some milliseconds each way; gives its address."""
    command = [str(program(PROXY_PROGRAM)), target, str(milliseconds)]
    try:
        with pinned(cores):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise LinkError(f"{PROXY_PROGRAM} is not built: cargo build --release -p pinyon-floor") from None
    assert process.stdin is not None and process.stdout is not None
    try:
        if not select.select([process.stdout], [], [], START_SECONDS)[0]:
            raise LinkError(f"{PROXY_PROGRAM} does not start")
        address = process.stdout.readline().strip()
        if not address:
            raise LinkError(f"{PROXY_PROGRAM} ended at once")
        yield address
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
