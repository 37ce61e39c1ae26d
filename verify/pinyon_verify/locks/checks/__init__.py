"""The checks: each reads the evidence of one run and reports what must not happen."""

from __future__ import annotations

from ..evidence import Evidence
from . import belief, exclusion, liveness, order, tokens, wholeness
from .finding import Finding

CHECKS = (
    exclusion.sections,
    exclusion.beliefs,
    belief.kept,
    belief.ended,
    belief.proved,
    belief.followed,
    tokens.increase,
    tokens.register,
    wholeness.all_or_nothing,
    order.first_come_first_served,
    liveness.soon,
    liveness.wakes,
    wholeness.nothing_left,
    wholeness.gone_is_gone,
    wholeness.in_time,
    wholeness.said,
)


def check(evidence: Evidence) -> list[Finding]:
    """Return the findings of all checks."""
    return [finding for each in CHECKS for finding in each(evidence)]


__all__ = ["CHECKS", "Finding", "check"]
