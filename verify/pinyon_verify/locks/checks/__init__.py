"""The checks: each reads the evidence of one run and reports what must not happen."""

from __future__ import annotations

from ..evidence import Evidence
from . import belief, changing, exclusion, handing, leading, liveness, order, rates, sharing, tokens, wholeness
from .finding import Finding

CHECKS = (
    exclusion.sections,
    exclusion.beliefs,
    exclusion.least,
    sharing.permits,
    sharing.permits_on_server,
    sharing.parts_kept,
    belief.kept,
    belief.ended,
    belief.proved,
    belief.followed,
    tokens.increase,
    tokens.seen,
    tokens.register,
    wholeness.all_or_nothing,
    handing.once,
    handing.nobody_between,
    changing.tokens,
    changing.nobody_between,
    changing.refused,
    rates.rates,
    leading.told,
    leading.says_so,
    leading.ends_first,
    order.first_come_first_served,
    order.overtaken,
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
