"""The tables as data, made only from a result document; `tables` and `performance` put them into their form."""

from __future__ import annotations

from dataclasses import dataclass, field

from .compare import figures, processor_time, rate, rate_ratio
from .contestant import FLOOR as FLOOR
from .coroutines.models import MODELS
from .results import Document, RowInfo

NONE = "–"
SAME = "~"
LEAST_SHOWN = 0.005
GROUP_TITLES = {
    "seed": "The seeds' rows",
    "size": "One get or set, by the size of the value",
    "multiget": "multiget:KEYS:SERVERS",
    "placement": "Client and server on other cores",
}
GROUP_UNITS = {
    "seed": "operations per second, connect included",
    "size": "operations per second, client warm",
    "multiget": "keys per second, client warm",
    "placement": "operations or keys per second, client warm",
}


@dataclass(frozen=True)
class Grid:
    """A table: a title, a header, rows of cells, and a note below."""

    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""


def participants(document: Document, group: str) -> list[str]:
    """Returns the contestants that have a figure in a group of rows."""
    taking_part = {sample.contestant for sample in document.samples}
    rows = [row.name for row in document.rows_of(group)]
    return [
        name
        for name in document.present()
        if name in taking_part and any(rate(document, row, name) is not None for row in rows)
    ]


def contestants(document: Document) -> Grid:
    """Who took part, with version and configuration, or why not; a client's models together where these are the same."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for info in document.contestants:
        client, _, model = info.name.rpartition(" ")
        known = (client, model) if model in MODELS else (info.name, "")
        said = f"absent: {info.absent}" if info.absent else info.configuration
        names.setdefault((known[0], info.version or NONE, said), []).append(known[1])
    rows = [[_with_models(client, models), version, said] for (client, version, said), models in names.items()]
    return Grid("Contestants", ["client", "version", "configuration"], rows)


def _with_models(client: str, models: list[str]) -> str:
    """Returns the client's name with its concurrency models; the blocking one, which has no name, comes first."""
    named = ", ".join(filter(None, models))
    if not named:
        return client
    return f"{client} {named}" if all(models) else f"{client}, also {named}"


def rate_grid(document: Document, group: str) -> Grid:
    """Rates of a group; below each the ratio to the first contestant, below the first's own that to the floor."""
    names = participants(document, group)
    if not names:
        return Grid(GROUP_TITLES[group], [])
    first = names[0]
    rows = [
        [row.name.replace(" ", "\n"), *(_rate_cell(document, row, name, first) for name in names)]
        for row in document.rows_of(group)
    ]
    note = (
        f"Below {first}'s rates: times the floor's; below the others': times {first}'s. "
        f"Medians of the ratios within each round. {SAME}: the same within noise."
    )
    return Grid(f"{GROUP_TITLES[group]}: {GROUP_UNITS[group]}", ["", *names], rows, note)


def _rate_cell(document: Document, row: RowInfo, name: str, first: str) -> str:
    value = rate(document, row.name, name)
    if value is None:
        return NONE
    return f"{value:,.0f}\n{ratio_text(document, row.name, name, FLOOR if name == first else first)}".rstrip()


def ratio_text(document: Document, row: str, name: str, other: str) -> str:
    """Returns a ratio as shown: marked when it is within noise of 1, nothing when there is none."""
    if name == other:
        return "1"
    ratio = rate_ratio(document, row, name, other)
    if ratio is None:
        return ""
    return f"{SAME if ratio.same else ''}{ratio.middle:.2f}"


def step_rows(document: Document) -> list[RowInfo]:
    """Returns the rows of blocking clients' steps; those of coroutines have tables of their own."""
    return [row for row in document.rows if row.group in GROUP_TITLES]


def processor_grid(document: Document) -> Grid:
    """Processor time per operation of every row of steps and contestant."""
    shown = step_rows(document)
    taking_part = [name for group in GROUP_TITLES for name in participants(document, group)]
    names = [name for name in document.present() if name in taking_part]
    rows = [[row.name, *(processor_cell(document, row.name, name) for name in names)] for row in shown]
    note = "Per key where the rate counts keys; for the seeds' multiget per call."
    return Grid("Client CPU (user + system), microseconds per operation", ["", *names], rows, note)


def processor_cell(document: Document, row: str, name: str) -> str:
    """Returns microseconds per operation as shown."""
    value = processor_time(document, row, name)
    return NONE if value is None else f"{value:.2f}"


def seed_lines(document: Document) -> list[str]:
    """The seeds' tables, one block per contestant, in their layout, with rate and ratios beside."""
    names = participants(document, "seed")
    lines: list[str] = []
    for info in document.contestants:
        if info.name in names:
            lines += [f"Testing {info.name} {info.version}", _seed_header()]
            lines += [_seed_line(document, row.name, info.name, names[0]) for row in document.rows_of("seed")]
            lines.append("")
    return lines[:-1]


def _seed_header() -> str:
    return f"{'':31}{'user':>10} {'system':>10} {'total':>10} {'real':>11} {'ops/s':>10} {'×first':>6} {'×floor':>6}"


def _seed_line(document: Document, row: str, name: str, first: str) -> str:
    label = f"{row}:{name}"
    shown = figures(document, row, name)
    value = rate(document, row, name)
    if shown is None or value is None:
        return f"{label:31}{NONE:>10} {NONE:>10} {NONE:>10} {NONE:>11}"
    line = f"{label:31}{shown.user:10.6f} {shown.system:10.6f} {shown.total:10.6f} ({shown.real:10.6f})"
    ratios = f"{ratio_text(document, row, name, first):>6} {ratio_text(document, row, name, FLOOR):>6}"
    return f"{line} {value:>9,.0f} {ratios}".rstrip()


def seed_caption(document: Document) -> str:
    """What the seeds' table shows, in words."""
    rounds, each = document.rounds, document.seed_iterations
    if document.combine == "sum":
        return f"seconds, summed over {rounds} rounds of n = {each} (n = {rounds * each} in all)"
    return f"seconds for n = {each}, medians of {rounds} rounds"


def noise_sentences(document: Document) -> list[str]:
    """Says of which contestants the rate is the same as the first one's, within noise, row by row."""
    sentences = []
    for row in step_rows(document):
        names = participants(document, row.group)
        same = [name for name in names[1:] if _is_same(document, row.name, name, names[0])]
        if same:
            sentences.append(f"{row.name}: {names[0]} and {', '.join(same)} are the same within noise.")
    return sentences


def _is_same(document: Document, row: str, name: str, first: str) -> bool:
    ratio = rate_ratio(document, row, name, first)
    return ratio is not None and ratio.same


def gap_sentences(document: Document) -> list[str]:
    """Says why cells are void: one sentence for each contestant and reason, with its rows."""
    rows: dict[tuple[str, str], list[str]] = {}
    for gap in document.gaps:
        rows.setdefault((gap.contestant, gap.reason), []).append(gap.row)
    return [f"{name}: {', '.join(names)}: {reason}" for (name, reason), names in rows.items()]


def syscall_grid(document: Document) -> Grid:
    """System calls per call in steady state."""
    rows = [
        [each.contestant, each.row, f"{sum(each.per_call.values()):.2f}", _names_and_counts(each.per_call)]
        for each in document.syscalls
    ]
    return Grid("System calls of the client, per call in steady state", ["client", "call", "in all", "which"], rows)


def _names_and_counts(per_call: dict[str, float]) -> str:
    return ", ".join(f"{name} {count:.2f}" for name, count in per_call.items() if abs(count) >= LEAST_SHOWN)


def memory_grid(document: Document) -> Grid:
    """Resident memory before and after."""
    rows = [
        [each.contestant, each.what, f"{each.before:,}", f"{each.after:,}", f"{each.after - each.before:+,}", each.note]
        for each in document.memory
    ]
    return Grid("Resident memory of the client's process, kB", ["client", "", "before", "after", "growth", ""], rows)
