"""The same table with colours, for a terminal on which rich is installed."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from client.status.report import Report, ServerReport, Verdict
from client.status.table import HEADINGS, RIGHT_ALIGNED, cells, fitting_columns, remarks, summary

_VERDICT_STYLE = {
    Verdict.ALL_IN: "green",
    Verdict.MEMBER_MISSING: "yellow",
    Verdict.NO_QUORUM: "bold red",
    Verdict.UNREACHABLE: "bold red",
}


def rich_table(report: Report, width: int) -> RenderableType:
    """What fits into a width."""
    columns = fitting_columns(report, width)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index in columns:
        right = HEADINGS[index] in RIGHT_ALIGNED
        table.add_column(HEADINGS[index], justify="right" if right else "left", no_wrap=True)
    for row, server in zip(cells(report), report.servers, strict=True):
        table.add_row(*(Text(row[index]) for index in columns), style=_row_style(server))
    lines = [Text(summary(report), style=_VERDICT_STYLE[report.verdict]), *map(Text, remarks(report))]
    return Group(table, Text(), *lines)


def _row_style(server: ServerReport) -> str:
    if server.facts is not None and server.facts.mode == "leader":
        return "bold"
    return "" if server.is_serving else "red"
