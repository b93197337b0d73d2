"""zkSnapshotRecursiveSummaryToolkit.sh: how many nodes and bytes lie below each node of a snapshot."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from jute.java_text import parse_java_int
from server.tools.snapshot_tree import NotLoaded, SnapshotTree, child_path, load, refuse

USAGE = """\
USAGE:


SnapshotRecursiveSummary  <snapshot_file>  <starting_node>  <max_depth>


snapshot_file:    path to the zookeeper snapshot
starting_node:    the node at which to begin
max_depth:        how many levels below it to print, 0 for all; everything is counted in any case"""
EXIT_INVALID = 2


def main(arguments: Sequence[str], _environ: Mapping[str, str]) -> int:
    """Run zkSnapshotRecursiveSummaryToolkit.sh with these arguments."""
    if len(arguments) != 3:
        return refuse(USAGE, EXIT_INVALID)
    file, start, depth = arguments
    depth_max = parse_java_int(depth)
    if depth_max is None:
        return refuse(USAGE, EXIT_INVALID)
    try:
        snapshot = load(Path(file))
    except NotLoaded as reason:
        return refuse(reason)
    if start not in snapshot:
        return refuse(f"{start} is not in {file}; name a node of the snapshot")
    print(summary(snapshot, start, depth_max))
    return 0


@attrs.define
class _Level:
    """A node whose children are being counted: how many nodes and bytes so far, and the text about them."""

    path: str
    nodes: int
    data_bytes: int
    children: list[str]
    text: list[str] = attrs.field(factory=list)


def summary(snapshot: SnapshotTree, start: str, depth_max: int) -> str:
    """A block for each node with children, down to `depth_max` levels below the start (0: to the end)."""
    levels = [_level(snapshot, start)]
    while True:
        level = levels[-1]
        if level.children:
            levels.append(_level(snapshot, child_path(level.path, level.children.pop())))
            continue
        levels.pop()
        depth = len(levels)
        if level.nodes > 1 and (depth_max == 0 or depth <= depth_max):
            level.text = [_block(level, depth), *level.text]
        else:
            level.text = []
        if not levels:
            return "".join(level.text)
        levels[-1].nodes += level.nodes
        levels[-1].data_bytes += level.data_bytes
        levels[-1].text += level.text


def _level(snapshot: SnapshotTree, path: str) -> _Level:
    return _Level(path, 1, snapshot.data_length(path), snapshot.children(path)[::-1])


def _block(level: _Level, depth: int) -> str:
    indent = "--" * depth
    return (
        f"{indent} {level.path}\n"
        f"{indent}   children: {level.nodes - 1}\n"
        f"{indent}   data: {level.data_bytes}\n"
    )
