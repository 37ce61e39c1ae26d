"""Run Pinyon on real processes while faults are injected, and check what happened."""

from __future__ import annotations

import argparse
import random
import shutil

from .locks.cells import CELLS
from .locks.run import HEADING, details, line, run
from .locks.sabotages import ALL_SABOTAGES
from .locks.times import add_verb as add_failovers
from .outage.cli import add_verb as add_outage
from .soak.cli import add_verb as add_soak
from .stops.cli import add_verbs as add_languages
from .storms import add_verb as add_storms

#: The duration of work in each quick cell, in seconds.
QUICK_SECONDS = 1.2
#: The duration of work under each sabotage, in seconds.
SABOTAGE_SECONDS = 2.0
#: The time a cell takes in addition to its work, in seconds: starting, ending and checking.
AROUND = 6.0


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen program; return 0 when nothing was violated."""
    options = _parser().parse_args(arguments)
    status: int = options.carry_out(options)
    return status


def _locks(options: argparse.Namespace) -> int:
    if options.list:
        for cell in CELLS:
            print(f"{cell.name:<18} {cell.what}")
        return 0
    unknown = set(options.cell) - {each.name for each in (ALL_SABOTAGES if options.sabotage else CELLS)}
    if unknown:
        known = (
            "choose from: " + ", ".join(sabotage.name for sabotage in ALL_SABOTAGES)
            if options.sabotage
            else "--list lists the cells"
        )
        print(f"no cell is named {', '.join(sorted(unknown))}; {known}")
        return 2
    if options.sabotage:
        return _sabotage(options.cell, options.seconds or SABOTAGE_SECONDS)
    cells = [cell for cell in CELLS if not options.cell or cell.name in options.cell]
    if options.quick:
        cells = [cell for cell in cells if cell.quick or options.cell]
    seconds = options.seconds or (QUICK_SECONDS if options.quick else _share(options.minutes, len(CELLS)))
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    print(f"seed {seed}, {seconds:g} seconds for each cell")
    print(HEADING, flush=True)
    violated = []
    for cell in cells:
        result = run(cell, seed, seconds, options.keep)
        print("\n".join([line(result), *details(result)]), flush=True)
        if result.violations:
            violated.append(cell.name)
    print(f"violated: {', '.join(violated)}" if violated else "nothing was violated")
    return 1 if violated else 0


def _sabotage(names: list[str], seconds: float) -> int:
    """Apply each chosen sabotage, or all of them; return 0 when every one was found."""
    missed = []
    for sabotage in [each for each in ALL_SABOTAGES if not names or each.name in names]:
        result = run(sabotage.cell_of(), seed=1, seconds=max(seconds, sabotage.seconds))
        if result.skipped:
            print(f"{sabotage.name:<18} skipped: {result.skipped}", flush=True)
            continue
        found = {finding.check for finding in result.violations}
        if sabotage.found_by not in found:
            missed.append(sabotage.name)
        verdict = "missed" if sabotage.name in missed else "found"
        print(f"{sabotage.name:<18} {sabotage.found_by:<15} {verdict}; in all: {', '.join(sorted(found))}", flush=True)
        shutil.rmtree(result.folder, ignore_errors=True)
    print(f"missed: {', '.join(missed)}" if missed else "everything was found")
    return 1 if missed else 0


def _share(minutes: float, cells: int) -> float:
    return max(2.0, round(minutes * 60 / cells - AROUND, 1))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pinyon_verify", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    locks = verbs.add_parser("locks", help="check shared locks on real processes under faults")
    locks.add_argument("--minutes", type=float, default=25.0, help="how long all cells take together; default: 25")
    locks.add_argument("--seconds", type=float, help="how long each cell works; overrides --minutes")
    locks.add_argument(
        "--cell", action="append", default=[], metavar="NAME", help="run only this cell or sabotage; may be repeated"
    )
    locks.add_argument("--seed", type=int, help="random seed of all choices; each run prints its own")
    locks.add_argument("--quick", action="store_true", help="run a few cells in less than a minute")
    locks.add_argument("--keep", action="store_true", help="keep all histories, not only those with violations")
    locks.add_argument(
        "--sabotage", action="store_true", help="break rules on purpose and see whether the checks find it"
    )
    locks.add_argument("--list", action="store_true", help="list the cells and exit")
    locks.set_defaults(carry_out=_locks)
    add_failovers(verbs)
    add_outage(verbs)
    add_soak(verbs)
    add_storms(verbs)
    add_languages(verbs)
    return parser
