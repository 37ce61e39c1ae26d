"""The figures of clients as OpenTelemetry's instruments, which are read when metrics are collected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import CallbackOptions, Observation

from pinyon._figures import Observed, sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import Meter

    from pinyon._figures import Kind
    from pinyon._figures.figure import Figure


def instruments(meter: Meter, kind: Kind) -> Observed:
    """Make the instruments of a meter for clients of one kind, and return the clients that they observe: none yet."""
    observed = Observed(kind)
    for figure in kind.figures:
        if figure.kind == "level":
            tell = _telling(observed, figure, lambda value: [(value, {})])
            meter.create_observable_up_down_counter(figure.name, [tell], figure.unit, figure.text)
        elif figure.kind == "counter":
            tell = _telling(observed, figure, lambda value: [(value, {})])
            meter.create_observable_counter(figure.name, [tell], figure.unit, figure.text)
        else:
            _histogram(meter, observed, figure)
    return observed


def _histogram(meter: Meter, observed: Observed, figure: Figure) -> None:
    """Make the counters that Prometheus makes of a histogram: OpenTelemetry takes no histogram that is complete."""

    def buckets(latencies: Any) -> list[tuple[float, dict[str, str]]]:
        within = [(latencies.within(bound), {"le": f"{bound:g}"}) for bound in figure.bounds]
        return [*within, (latencies.count, {"le": "+Inf"})]

    total = _telling(observed, figure, lambda latencies: [(latencies.total, {})])
    meter.create_observable_counter(f"{figure.name}.sum", [total], figure.unit, f"{figure.text} The sum of all.")
    text = f"{figure.text} Those that took no longer than the attribute le says, in seconds."
    meter.create_observable_counter(
        f"{figure.name}.bucket", [_telling(observed, figure, buckets)], "{measurement}", text
    )


def _telling(
    observed: Observed, figure: Figure, told: Callable[[Any], list[tuple[float, dict[str, str]]]]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(number, {**attributes, **more})
            for value, attributes in sums(figure, observed.parts())
            for number, more in told(value)
        ]

    return observe
