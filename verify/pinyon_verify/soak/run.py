"""Runs the soak, one concurrency model after the other, and reports the results."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from .client import LOOK, MARGIN, WARM
from .ledger import SIZES
from .models import RUBY
from .servers import Faults, Memcached
from .worker import OPERATIONS, TIMEOUT

#: The number of servers on ports, and on Unix sockets.
TCP, UNIX = 2, 1
#: Seconds before the first fault and after the last one.
CALM = 0.3
#: Seconds that a client may take to start and to end.
AROUND = 60.0
#: By how many bytes a warm process may grow: the ledger grows, and so does the allocator.
GROWTH = 64 * 1024 * 1024
#: Sockets of a client that are not connections.
BESIDE = 16


@dataclass(frozen=True)
class Plan:
    """What to run."""

    models: list[str]
    seed: int
    #: Seconds of work for each model.
    seconds: float
    workers: int = 64
    sabotage: str = ""

    def replay(self, model: str) -> str:
        return (
            f"python -m pinyon_verify soak --model {model} --seed {self.seed} --seconds {self.seconds:g} "
            f"--workers {self.workers}"
        )


@dataclass
class Result:
    """The result of one model."""

    model: str
    findings: list[str]
    facts: dict[str, Any] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def kinds(self) -> Counter[str]:
        """The number of findings of each kind."""
        return Counter(finding.partition(":")[0] for finding in self.findings)


def program(model: str) -> list[str]:
    """Return the command that runs the workers in this concurrency model."""
    if model in RUBY:
        root = Path(__file__).parents[3]
        return ["ruby", "-I", str(root / "ruby" / "lib"), str(root / "verify" / "ruby" / "soak.rb")]
    return [sys.executable, "-m", "pinyon_verify.soak.client"]


def run(plan: Plan, model: str) -> Result:
    """Run the soak in one concurrency model."""
    with tempfile.TemporaryDirectory(prefix="ps-") as folder, contextlib.ExitStack() as stack:
        servers = [Memcached() for _ in range(TCP)]
        servers += [Memcached(Path(folder) / f"s{number}") for number in range(UNIX)]
        for server in servers:
            stack.callback(server.kill)
            server.start()
        settings: dict[str, Any] = {
            "model": model,
            "servers": [server.address for server in servers],
            "seconds": plan.seconds,
            "workers": plan.workers,
            "seed": plan.seed,
            "sabotage": plan.sabotage,
            "begun": str(Path(folder) / "begun"),
            # What Ruby's workers cannot look up here.
            "timeout": TIMEOUT,
            "margin": MARGIN,
            "look": LOOK,
            "warm": WARM,
            "sizes": SIZES,
            "operations": OPERATIONS,
        }
        client = subprocess.Popen([*program(model), json.dumps(settings)], stdout=subprocess.PIPE, text=True)
        stack.callback(_end, client)
        faults = Faults(servers, f"{plan.seed}:{model}")
        _await_begin(client, Path(settings["begun"]))
        until = time.monotonic() + plan.seconds - CALM
        time.sleep(CALM)
        while time.monotonic() < until and client.poll() is None:
            faults.one()
        try:
            said, _ = client.communicate(timeout=AROUND + MARGIN)
        except subprocess.TimeoutExpired:
            return Result(model, ["hang: the process does not end"], faults=faults.done)
    if client.returncode != 0 or not said:
        return Result(model, [f"error: the process ended with status {client.returncode}"], faults=faults.done)
    facts = json.loads(said)
    return Result(model, facts["findings"] + _leaks(facts, plan.workers), facts, faults.done)


def _leaks(facts: dict[str, Any], workers: int) -> list[str]:
    """Return descriptors and memory that the process leaked."""
    found = []
    before, after, most = (facts[name] for name in ("descriptors_before", "descriptors_after", "most_sockets"))
    if after > before:
        found.append(f"descriptors: {before} before, {after} after, which are {', '.join(facts['open'])}")
    if most > workers * (TCP + UNIX) + BESIDE:
        found.append(f"descriptors: {most} sockets at a time, for {workers} workers")
    growth = facts["memory"] - facts["warm_memory"]
    if growth > GROWTH:
        found.append(f"memory: grew by {growth >> 20} MiB")
    return found


def _await_begin(client: subprocess.Popen[str], begun: Path) -> None:
    """Wait until the workers begin, however long the client takes to start."""
    deadline = time.monotonic() + AROUND
    while not begun.exists() and client.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


def _end(client: subprocess.Popen[str]) -> None:
    if client.poll() is None:
        client.kill()
    client.wait()


def table(results: list[Result]) -> Table:
    """Return a table with a row for each model."""
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column("model")
    for title in ("operations", "hits", "failed", "faults", "slowest", "descriptors", "memory", "wrong"):
        shown.add_column(title, justify="right")
    shown.add_column("verdict")
    for result in results:
        shown.add_row(result.model, *_cells(result), "WRONG" if result.findings else "ok")
    return shown


def _cells(result: Result) -> list[str]:
    facts = result.facts
    if not facts:
        return ["-"] * 3 + [str(result.faults.total())] + ["-"] * 3 + [str(len(result.findings))]
    return [
        f"{facts['operations']:,}",
        f"{facts['hits']:,}",
        f"{sum(facts['errors'].values()):,}",
        str(sum(result.faults.values())),
        f"{facts['slowest']:.2f} s",
        f"{facts['descriptors_before']}, {facts['descriptors_after']}; {facts['most_sockets']} sockets",
        f"{facts['warm_memory'] >> 20}, {facts['memory'] >> 20} MiB",
        str(len(result.findings)),
    ]


def details(result: Result, plan: Plan, most: int = 8) -> list[str]:
    """Return in lines what was done, and what was wrong."""
    errors = ", ".join(f"{count:,} {name}" for name, count in sorted(result.facts.get("errors", {}).items()))
    faults = ", ".join(f"{count} {name}" for name, count in sorted(result.faults.items()))
    lines = [f"{result.model}: servers were {faults or 'left alone'}; failed: {errors or 'nothing'}"]
    lines += [f"  {count} x {kind}" for kind, count in sorted(result.kinds.items())]
    lines += [f"    {finding}" for finding in result.findings[:most]]
    return [*lines, f"  replay: {plan.replay(result.model)}"] if result.findings else lines


def console() -> Console:
    return Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 120)
