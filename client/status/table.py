"""A report as a table: its cells, and plain text out of them."""

from client.connect_string import host_port
from client.status.answers import ServerFacts
from client.status.report import EPOCH_BITS, Report, ServerReport, Verdict

HEADINGS = (
    "id",
    "server",
    "role",
    "version",
    "zxid",
    "epoch",
    "lag",
    "clients",
    "sessions",
    "latency avg/max",
    "nodes",
    "data",
)
RIGHT_ALIGNED = frozenset({"id", "epoch", "lag", "clients", "sessions", "nodes", "data"})
EXPENDABLE = ("epoch", "nodes", "data", "latency avg/max", "version", "sessions", "zxid", "clients")
NOTHING = "-"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

VERDICT_TEXT = {
    Verdict.ALL_IN: "all members are in",
    Verdict.MEMBER_MISSING: "there is a quorum, but a member is missing",
    Verdict.NO_QUORUM: "no quorum: nobody can write",
    Verdict.UNREACHABLE: "no server can be reached",
}


def cells(report: Report) -> list[list[str]]:
    """A row for each server, in the order of the headings."""
    return [_row(report, server) for server in report.servers]


def _row(report: Report, server: ServerReport) -> list[str]:
    facts = server.facts or ServerFacts()
    address = server.member.address
    return [
        _text(server.member.server_id),
        host_port(*address) if address else NOTHING,
        server.role,
        _text(facts.version),
        NOTHING if facts.zxid is None else f"0x{facts.zxid:x}",
        NOTHING if facts.zxid is None else str(facts.zxid >> EPOCH_BITS),
        _text(report.lag_of(server)),
        _text(facts.connections),
        _text(facts.sessions),
        _latency(facts),
        _text(facts.nodes),
        NOTHING if facts.data_bytes is None else size_text(facts.data_bytes),
    ]


def summary(report: Report) -> str:
    """The verdict in words, and how many serve."""
    serving = sum(server.is_serving for server in report.servers)
    total = len(report.servers)
    if total == 1 and report.verdict is Verdict.ALL_IN:
        return "the server is serving"
    return f"{VERDICT_TEXT[report.verdict]} ({serving} of {total} serving)"


def remarks(report: Report) -> list[str]:
    """What the table has no room for: why servers are missing, and notes."""
    return [server.problem for server in report.servers if server.problem] + list(report.notes)


def fitting_columns(report: Report, width: int) -> list[int]:
    """Which columns a screen of this width has room for: the least important ones go first."""
    rows = [list(HEADINGS), *cells(report)]
    kept = list(range(len(HEADINGS)))
    for heading in EXPENDABLE:
        if sum(max(len(row[index]) for row in rows) + 2 for index in kept) - 2 <= width:
            break
        kept.remove(HEADINGS.index(heading))
    return kept


def plain_table(report: Report) -> str:
    """Columns that line up, the summary, the remarks."""
    rows = [list(HEADINGS), *cells(report)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(HEADINGS))]
    lines = []
    for row in rows:
        padded = [
            text.rjust(width) if heading in RIGHT_ALIGNED else text.ljust(width)
            for heading, text, width in zip(HEADINGS, row, widths, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join([*lines, "", summary(report), *remarks(report)])


def size_text(size: float) -> str:
    """Bytes in the unit that reads best."""
    unit = _UNITS[0]
    for larger in _UNITS[1:]:
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def _latency(facts: ServerFacts) -> str:
    if facts.latency_avg_ms is None or facts.latency_max_ms is None:
        return NOTHING
    return f"{facts.latency_avg_ms:.1f}/{facts.latency_max_ms:g} ms"


def _text(value: object) -> str:
    return NOTHING if value is None else str(value)
