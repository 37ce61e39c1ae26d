"""Tables as data, made only from a result document; terminal, Markdown and HTML each render them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from string import Formatter

from .catalogue import GROUPS, targets
from .compare import figures, participants, processor_time, rate, rate_ratio, rates, ratio, rounds_of
from .coroutines.rows import SYNC
from .declaration import Group
from .instructions.goals import at_most
from .names import BLOCKING, FLOOR, MODELS, PERL, RUBY, contestant_name
from .perl.rows import PERL_SEED
from .results import Document, RowInfo
from .ruby.rows import RUBY_SEED
from .step_rows import SEED, STEP_GROUPS

NONE = "–"
SAME = "~"
LEAST_SHOWN = 0.005
TARGETS_NOTE = (
    "spread: the lowest and the highest round; from five rounds on without the lowest and the highest. A target that "
    "covers many rows shows the worst of them."
)
INSTRUCTIONS = "Instructions per operation"
FIGURE = re.compile(r"[~+\-]?\d[\d,.]*( \([\d,.]+\))?(\n.*)?|")
#: A column of a table of rates: its heading, and the contestant that it shows in a row.
Column = tuple[str, Callable[[RowInfo], str]]


@dataclass(frozen=True)
class Grid:
    """A table: a title, a header, rows of cells, and a note below; `about` says what each row does, where a row is one."""

    title: str
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""
    about: list[str] = field(default_factory=list)

    @property
    def figures(self) -> list[bool]:
        """Returns of each column whether it holds figures; the first never does."""
        return [
            column > 0 and all(row[column] == NONE or FIGURE.fullmatch(row[column]) for row in self.rows)
            for column in range(len(self.header))
        ]


@dataclass(frozen=True)
class Lines:
    """A table in the layout of a seed document."""

    title: str
    lines: list[str]
    note: str = ""


def contestants(document: Document) -> Grid:
    """Who took part, with version and configuration, or why not; models of one client share a line where these agree."""
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


def target_grid(document: Document) -> Grid:
    """Every target, whether it was met, and what was measured."""
    rows = [
        [each.row, each.wanted, "met" if each.met else "missed", each.measured, each.spread]
        for each in targets(document)
    ]
    return Grid("Targets", ["row", "target", "result", "measured", "spread"], rows, TARGETS_NOTE)


def rate_grids(document: Document) -> list[Grid]:
    """Returns the rates of every group."""
    return [rate_grid(document, group) for group in GROUPS.values() if group.title]


def rate_grid(document: Document, group: Group) -> Grid:
    """Rates of a group, each with its ratio to what matters there."""
    columns = _columns(document, group)
    rows = [
        [_label(group, row), *(_rate_cell(document, group, row, name_in(row)) for _, name_in in columns)]
        for row in group.rows(document)
    ]
    header = [group.labels, *(heading for heading, _ in columns)]
    about = [row.about for row in group.rows(document)]
    if group.transposed:
        header, *rows = [list(each) for each in zip(header, *rows)]
        about = []
    note = _note(document, group, columns[0][0]) if columns else ""
    grid = Grid(f"{group.title}{group.counted}", header, rows if columns else [], note, about)
    return with_rounds(document, grid, [row.name for row in group.rows(document)])


def with_rounds(document: Document, grid: Grid, rows: list[str]) -> Grid:
    """Returns the table with a note that says in how many rounds its rows were timed."""
    found = rounds_of(document, rows)
    return replace(grid, note=f"{grid.note} {found.capitalize()}.".strip()) if found else grid


def processor_grids(document: Document) -> list[Grid]:
    """Returns processor time per operation: the rows of steps in one table, those of coroutines by group."""
    steps = processor_grid(
        document,
        "Blocking calls: client CPU (user + system), microseconds per operation",
        STEP_GROUPS,
        "Per key where the rate counts keys; for the row `multiget` per call.",
    )
    others = [group for group in GROUPS.values() if group not in STEP_GROUPS and group.processor]
    titles = [f"{group.title}, client CPU, microseconds per operation" for group in others]
    return [steps, *(processor_grid(document, title, (group,)) for title, group in zip(titles, others))]


def processor_grid(document: Document, title: str, groups: tuple[Group, ...], note: str = "") -> Grid:
    """Processor time per operation in the rows of some groups."""
    known = dict(column for group in groups for column in _columns(document, group))
    columns = {name: known[name] for name in [*document.present(), *known] if name in known}
    rows = [
        [group.label(row), *(_processor_cell(document, row.name, name_in(row)) for name_in in columns.values())]
        for group in groups
        for row in group.rows(document)
    ]
    timed = [row for group in groups for row in group.rows(document)]
    grid = Grid(title, [groups[0].labels, *columns], rows if columns else [], note, [row.about for row in timed])
    return with_rounds(document, grid, [row.name for row in timed])


def _columns(document: Document, group: Group) -> list[Column]:
    """Returns the contestants of a group, or its clients, whatever their concurrency model."""
    names = participants(document, group.name)
    if not group.by_client:
        return [(name, lambda _, name=name: name) for name in names]  # type: ignore[misc]
    return [(client, lambda row, client=client: contestant_in(client, row)) for client in clients_of(names, group.name)]  # type: ignore[misc]


def clients_of(contestants: list[str], model: str) -> list[str]:
    """Returns the clients of contestants that are blocking or of one model; the floor is last."""
    clients = dict.fromkeys(name.removesuffix(f" {model}") for name in contestants)
    return sorted(clients, key=lambda name: name == FLOOR)


def contestant_in(client: str, row: RowInfo) -> str:
    """Returns the name of a client's contestant in a row of UUID pairs: its blocking one, or that of the group's model."""
    return contestant_name(client, row.group if row.concurrency else BLOCKING)


def model_of(contestant: str) -> str:
    """Returns a contestant's concurrency model."""
    last = contestant.rpartition(" ")[2]
    return last if last in MODELS else BLOCKING


def _label(group: Group, row: RowInfo) -> str:
    return group.label(row).replace(" ", " " if group.prefix else "\n")


def _rate_cell(document: Document, group: Group, row: RowInfo, name: str) -> str:
    value = rate(document, row.name, name)
    if value is None:
        return NONE
    if group.beside == "floor and first":
        first = participants(document, group.name)[0]
        return f"{value:,.0f}\n{ratio_text(document, row.name, name, FLOOR if name == first else first)}".rstrip()
    base = _base(document, group, row, name)
    found = base and ratio(rates(document, row.name, name), rates(document, *base))
    return f"{value:,.0f} ({_short(found.middle)})" if found else f"{value:,.0f}"


def _base(document: Document, group: Group, row: RowInfo, name: str) -> tuple[str, str] | None:
    """Returns the row and the contestant whose rate another one stands beside; None where it stands alone."""
    names = participants(document, group.name)
    if group.beside == "first client":
        return row.name, contestant_in(clients_of(names, group.name)[0], row)
    if group.beside == "blocking":
        return f"{row.name.rpartition(':')[0]}:{SYNC}", names[0]
    if group.beside == "first of model":
        first = next(other for other in names if model_of(other) == model_of(name))
        return None if name == first else (row.name, first)
    return None


def _short(factor: float) -> str:
    """Returns a factor with as many digits as say something."""
    if factor == 1 or factor >= 10:
        return f"{factor:.0f}"
    return f"{factor:.1f}" if factor >= 1 else f"{factor:.2f}" if factor >= 0.01 else f"{factor:.2g}"


def _note(document: Document, group: Group, first: str) -> str:
    """Returns a group's note; a sentence with something that the document does not have is left out."""
    known = {"first": first, **document.versions}
    sentences = re.split(r"(?<=\.) ", group.note)
    return " ".join(
        each.format_map(known)
        for each in sentences
        if all(name is None or name in known for _, name, _, _ in Formatter().parse(each))
    )


def ratio_text(document: Document, row: str, name: str, other: str) -> str:
    """Returns a ratio as shown: marked when it is within noise of 1, nothing when there is none."""
    if name == other:
        return "1"
    found = rate_ratio(document, row, name, other)
    if found is None:
        return ""
    return f"{SAME if found.same else ''}{found.middle:.2f}"


def _processor_cell(document: Document, row: str, name: str) -> str:
    value = processor_time(document, row, name)
    return NONE if value is None else f"{value:.2f}"


def seed_lines(document: Document) -> list[str]:
    """Dalli's table, one block per contestant, in its layout, with rate and ratios beside; Python's, Ruby's, then Perl's."""
    lines: list[str] = []
    for group in (SEED.name, RUBY_SEED, PERL_SEED):
        names = participants(document, group)
        for name in names:
            version = next(info.version for info in document.contestants if info.name == name)
            lines += [f"Testing {name} {version}", _seed_header()]
            lines += [_seed_line(document, row.name, name, names[0]) for row in document.rows_of(group)]
            lines.append("")
    return lines[:-1]


def _seed_header() -> str:
    return f"{'':31}{'user':>10} {'system':>10} {'total':>10} {'real':>11} {'ops/s':>10} {'×first':>6} {'×floor':>6}"


def _seed_line(document: Document, row: str, name: str, first: str) -> str:
    label = f"{row.removeprefix(f'{RUBY}:').removeprefix(f'{PERL}:')}:{name}"
    shown = figures(document, row, name)
    value = rate(document, row, name)
    if shown is None or value is None:
        return f"{label:31}{NONE:>10} {NONE:>10} {NONE:>10} {NONE:>11}"
    line = f"{label:31}{shown.user:10.6f} {shown.system:10.6f} {shown.total:10.6f} ({shown.real:10.6f})"
    ratios = f"{ratio_text(document, row, name, first):>6} {ratio_text(document, row, name, FLOOR):>6}"
    return f"{line} {value:>9,.0f} {ratios}".rstrip()


def seed_caption(document: Document) -> str:
    """What the table in Dalli's layout shows, in words."""
    rounds, each = document.rounds, document.seed_iterations
    if document.combine == "sum":
        return f"seconds, summed over {rounds} rounds of n = {each} (n = {rounds * each} in all)"
    return f"seconds for n = {each}, medians of {rounds} rounds"


def noise_sentences(document: Document) -> list[str]:
    """Names, row by row, the contestants whose rate equals the first one's within noise."""
    sentences = []
    names_of_groups = {group.name for group in STEP_GROUPS}
    for row in (row for row in document.rows if row.group in names_of_groups):
        names = participants(document, row.group)
        same = [name for name in names[1:] if _is_same(document, row.name, name, names[0])]
        if same:
            sentences.append(f"{row.name}: {names[0]} and {', '.join(same)} are the same within noise.")
    return sentences


def _is_same(document: Document, row: str, name: str, first: str) -> bool:
    ratio = rate_ratio(document, row, name, first)
    return ratio is not None and ratio.same


def gap_sentences(document: Document) -> list[str]:
    """Says why cells are empty: one sentence for each contestant and reason, with its rows."""
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
    return Grid("System calls of the client, per call in steady state", ["client", "row", "total", "by name"], rows)


def _names_and_counts(per_call: dict[str, float]) -> str:
    return ", ".join(f"{name} {count:.2f}" for name, count in per_call.items() if abs(count) >= LEAST_SHOWN)


def instruction_grid(document: Document) -> Grid:
    """Instructions per operation, and their targets."""
    if document.instructions is None:
        return Grid(INSTRUCTIONS)
    rows = [
        [operation, f"{count:,}", NONE if (most := at_most(operation)) is None else f"{most:,}"]
        for operation, count in document.instructions.counts.items()
    ]
    note = (
        f"Counted under callgrind at commit {document.instructions.commit}, in Pinyon's own process, without servers and "
        "kernel. at most: the target. `python -m pinyon_bench instructions` counts anew."
    )
    return Grid(INSTRUCTIONS, ["operation", "instructions", "at most"], rows, note)


def memory_grid(document: Document) -> Grid:
    """Resident memory before and after."""
    rows = [
        [each.contestant, each.what, f"{each.before:,}", f"{each.after:,}", f"{each.after - each.before:+,}", each.note]
        for each in document.memory
    ]
    return Grid(
        "Resident memory of the client's process, kB",
        ["client", "what it did", "before", "after", "growth", "errors"],
        rows,
    )
