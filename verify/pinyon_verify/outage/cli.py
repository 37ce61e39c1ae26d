"""The options of ``outage``."""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from .run import PRODUCTS, VISITORS, WORKERS, Plan, Result, run

#: Of a whole run, and of a quick one: seconds of the outage, and between two attempts.
WHOLE, QUICK = Plan(seconds=10, retry_after=2), Plan(seconds=3, retry_after=1)
#: What wrong shops are asked for.
SABOTAGED = Plan(seconds=5, retry_after=3)

#: Terms of wrong shops, and the check that finds each.
SABOTAGES: dict[str, tuple[dict[str, Any], str]] = {
    "raises": ({"on_error": "raise"}, "served"),
    "forgets": ({"stale": 1}, "served"),
    "hurries": ({"retry_after": 1}, "attempts"),
    "waits": ({"retry_after": 15}, "back"),
}


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    outage = verbs.add_parser("outage", help="a site in FastAPI whose database is down for a while")
    outage.add_argument("--seconds", type=float, help=f"how long the database is down; default: {WHOLE.seconds:g}")
    outage.add_argument("--retry-after", type=int, help=f"seconds between two attempts; default: {WHOLE.retry_after}")
    outage.add_argument("--quick", action="store_true", help=f"{QUICK.seconds:g} seconds: what the tests run")
    outage.add_argument("--sabotage", action="store_true", help="shops that are wrong on purpose: is it found?")
    outage.set_defaults(carry_out=have_outage)


def have_outage(options: argparse.Namespace) -> int:
    """Let the database be down; return 0 when the site did what it claims."""
    if options.sabotage:
        return _sabotage()
    plan = QUICK if options.quick else WHOLE
    plan = Plan(options.seconds or plan.seconds, options.retry_after or plan.retry_after)
    print(
        f"{WORKERS} workers, {VISITORS} visitors, {len(PRODUCTS)} products; the database is down for {plan.seconds:g} s"
    )
    result = run(plan)
    print("\n".join(_shown(result, plan)))
    return 1 if result.findings else 0


def _shown(result: Result, plan: Plan) -> list[str]:
    during = [visit for visit in result.visits if result.began <= visit.at < result.ended]
    failed = [len(times) for times in result.failed.values()]
    lines = [
        f"{len(result.visits):,} responses, {len(during):,} of them while the database was down; "
        f"{sum(visit.status != 200 for visit in result.visits)} were not 200",
        f"{min(failed)} to {max(failed)} attempts for each product, with retry_after={plan.retry_after}; "
        f"at least {min(result.between, default=0.0):.2f} s apart",
        f"asked again for each product within {max(result.back):.2f} s after the outage",
    ]
    return [*lines, *(result.findings or ["ok"])]


def _sabotage() -> int:
    """Run the wrong shops at once; return 0 when all were found."""
    missed = []
    with ThreadPoolExecutor() as pool:
        plans = [replace(SABOTAGED, terms=terms) for terms, _ in SABOTAGES.values()]
        for (name, (_, check)), result in zip(SABOTAGES.items(), pool.map(run, plans)):
            found = {finding.partition(":")[0] for finding in result.findings}
            if check not in found:
                missed.append(name)
            print(f"{name:<8} {check:<9} {'missed' if name in missed else 'found'}", flush=True)
    print(f"missed: {', '.join(missed)}" if missed else "everything was found")
    return 1 if missed else 0
