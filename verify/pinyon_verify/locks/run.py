"""Runs cells, each in a folder of its own, and reports the results."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..programs import Missing
from .cell import Cell
from .checks import Finding, check
from .checks.liveness import gaps
from .clock import Skipped
from .evidence import Evidence
from .history import SECOND
from .world import World


@dataclass
class Result:
    """The result of one cell."""

    cell: Cell
    seed: int
    seconds: float
    findings: list[Finding]
    skipped: str = ""
    acquisitions: int = 0
    given_up: int = 0
    faults: int = 0
    longest_gap: float = 0.0
    stalled: float = 0.0
    #: Microseconds of a script: the mean, and the slowest.
    mean_script: float = 0.0
    slowest_script: int = 0
    #: The folder with everything that was recorded, if it was kept.
    folder: str = ""

    @property
    def violations(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.excuse is None]

    @property
    def excused(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.excuse is not None]

    @property
    def replay(self) -> str:
        return f"python -m pinyon_verify locks --cell {self.cell.name} --seed {self.seed} --seconds {self.seconds:g}"


def run(cell: Cell, seed: int, seconds: float, keep: bool = False) -> Result:
    """Run one cell; `keep` its folder, which is always kept when something is wrong."""
    folder = Path(tempfile.mkdtemp(prefix="pv-"))
    world = World(cell, seed, seconds, folder)
    try:
        evidence = world.run()
    except (Skipped, Missing) as skipped:
        shutil.rmtree(folder)
        return Result(cell, seed, seconds, [], skipped=str(skipped))
    result = _result(world, evidence, check(evidence))
    if result.acquisitions == 0 and cell.scenario is None:
        result.findings.append(Finding("work", 0, "nobody was granted anything"))
    if result.violations or keep:
        result.folder = str(folder)
        longest = max(gaps(evidence), key=lambda gap: gap[2] - gap[1], default=None)
        (folder / "findings").write_text("".join(f"{each}\n" for each in [*result.findings, ("longest gap", longest)]))
    else:
        shutil.rmtree(folder)
    return result


def _result(world: World, evidence: Evidence, findings: list[Finding]) -> Result:
    attempts = evidence.attempts
    cuts = world.folder / "cuts"
    return Result(
        world.cell,
        world.seed,
        world.seconds,
        findings,
        acquisitions=sum(attempt.granted is not None for attempt in attempts),
        given_up=sum(attempt.given_up is not None for attempt in attempts),
        faults=sum(fault.kind != "cut" for fault in evidence.faults)
        + (len(cuts.read_text().splitlines()) if cuts.exists() else 0),
        longest_gap=max((until - since for _, since, until in gaps(evidence)), default=0) / SECOND,
        stalled=sum(until - since for since, until in evidence.stalls) / SECOND,
        mean_script=world.mean_script,
        slowest_script=world.slowest_script,
    )


def line(result: Result) -> str:
    """Return one line about a cell."""
    if result.skipped:
        return f"{result.cell.name:<18} skipped: {result.skipped}"
    verdict = "VIOLATED" if result.violations else "ok"
    return (
        f"{result.cell.name:<18} {result.acquisitions:>7} {result.given_up:>7} {result.faults:>6} "
        f"{result.longest_gap * 1000:>7.0f} ms {result.stalled:>6.1f} s {result.mean_script:>5.0f} {result.slowest_script:>7} us "
        f"{len(result.excused):>7} {len(result.violations):>5}  {verdict}"
    )


HEADING = (
    f"{'cell':<18} {'granted':>7} {'gave up':>7} {'faults':>6} {'gap':>10} {'stalls':>8} {'script: mean, slowest':>16} "
    f"{'excused':>7} {'wrong':>5}  verdict"
)


def details(result: Result, most: int = 8) -> list[str]:
    """Return the violations, and the excused ones with their excuses."""
    excuses = Counter((finding.check, finding.excuse) for finding in result.excused)
    lines = [f"    excused {count:>4} x {check}: {excuse}" for (check, excuse), count in sorted(excuses.items())]
    kinds = Counter(finding.check for finding in result.violations)
    lines += [f"    wrong   {count:>4} x {kind}" for kind, count in sorted(kinds.items())]
    lines += [f"      {finding.check}: {finding.text}" for finding in result.violations[:most]]
    if result.violations:
        lines += [f"    replay: {result.replay}", f"    history: {result.folder}"]
    return lines
